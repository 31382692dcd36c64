package autonomy

import (
	"fmt"
	"strings"
)

// writer writes texts with its own frequent words.
type writer struct {
	random
	nouns, verbs, adjectives []string
	domain                   []string
	person                   bool    // writes as people do in a chat
	slip                     float64 // of a word of a person
}

func newWriter(d random, domain string, person bool) *writer {
	v := &writer{random: d, domain: domains[domain], person: person, slip: 0.01 + 0.06*d.Float64()}
	v.nouns = append(shuffled(d, v.domain), shuffled(d, commonNouns)...)
	for range 700 { // the rare words
		v.nouns = append(v.nouns, pick(d, prefixes...)+pick(d, stems...)+pick(d, suffixes...))
	}
	v.verbs, v.adjectives = shuffled(d, verbs), shuffled(d, adjectives)
	return v
}

func shuffled(d random, words []string) []string {
	out := append([]string(nil), words...)
	d.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// phrase appends a noun phrase.
func (v *writer) phrase(to []string) []string {
	if v.chance(0.15) {
		return append(to, pick(v.random, pronouns...))
	}
	to = append(to, pick(v.random, articles...))
	for v.chance(0.35) {
		to = append(to, favour(v.random, v.adjectives))
	}
	to = append(to, favour(v.random, v.nouns))
	if v.chance(0.06) {
		to = append(to, v.name())
	}
	return to
}

// clause returns a clause of a few words.
func (v *writer) clause() []string {
	var to []string
	if v.chance(0.2) {
		to = append(to, pick(v.random, adverbs...))
	}
	to = v.phrase(to)
	if v.chance(0.6) {
		to = append(to, pick(v.random, modals...))
	}
	to = v.phrase(append(to, favour(v.random, v.verbs)))
	for v.chance(0.45) {
		to = v.phrase(append(to, pick(v.random, prepositions...)))
	}
	return to
}

// sentence returns a sentence.
func (v *writer) sentence() string {
	words := v.clause()
	for v.chance(0.3) {
		words[len(words)-1] += ","
		words = append(append(words, pick(v.random, conjunctions...)), v.clause()...)
	}
	if v.person {
		return v.hasty(words)
	}
	s := strings.Join(words, " ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// hasty writes as people do in a chat.
func (v *writer) hasty(words []string) string {
	for i, w := range words {
		if s, ok := slips[w]; ok && v.chance(8*v.slip) {
			words[i] = s
		} else if len(w) > 4 && v.chance(v.slip) {
			at := 1 + v.IntN(len(w)-2)
			words[i] = w[:at] + w[at+1:at+2] + w[at:at+1] + w[min(at+2, len(w)):]
		}
	}
	return strings.Join(words, " ") + pick(v.random, "", "", ".", "?", " ...", "!")
}

// text returns a text of about that many words.
func (v *writer) text(words int) string {
	var b strings.Builder
	for n := 0; n < words; {
		s := v.sentence()
		n += 1 + strings.Count(s, " ")
		b.WriteString(s)
		switch {
		case v.person:
			b.WriteString(pick(v.random, " ", " ", "\n"))
		case v.chance(0.12):
			b.WriteString("\n\n")
		case v.chance(0.08):
			b.WriteString("\n- ")
		case v.chance(0.02):
			fmt.Fprintf(&b, "\n\n## %s %s\n\n", favour(v.random, v.adjectives), favour(v.random, v.nouns))
		default:
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// code returns some lines of a program.
func (v *writer) code(lines int) string {
	var b strings.Builder
	for range lines {
		n := func() string { return favour(v.random, v.domain) }
		switch v.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "func %s%s(%s int) error {\n", n(), favour(v.random, v.verbs), n())
		case 1:
			fmt.Fprintf(&b, "\t%s := %s.%s(%s, %d)\n", n(), n(), favour(v.random, v.verbs), n(), v.IntN(900))
		case 2:
			fmt.Fprintf(&b, "\tif %s.%s != nil {\n\t\treturn %s\n\t}\n", n(), n(), n())
		case 3:
			fmt.Fprintf(&b, "\t// %s\n", v.sentence())
		case 4:
			fmt.Fprintf(&b, "\tfor _, %s := range %s.%s {\n", n(), n(), n())
		default:
			b.WriteString("}\n")
		}
	}
	return b.String()
}

// name returns a rare name of a file or a thing.
func (v *writer) name() string {
	a, b := pick(v.random, v.domain...), favour(v.random, v.nouns)
	switch v.IntN(4) {
	case 0:
		return fmt.Sprintf("%s/%s_%d.go", a, b, v.IntN(900))
	case 1:
		return fmt.Sprintf("%s-%06x", a, v.IntN(1<<24))
	case 2:
		return fmt.Sprintf("%s_%s_%d", a, b, v.IntN(9000))
	}
	return fmt.Sprintf("%s.%s:%d", a, b, 1+v.IntN(900))
}
