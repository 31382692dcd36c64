package inference

import (
	"bytes"
	"crypto/sha256"
	"hash/maphash"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxValues = 1024
	minValue  = 6 // bytes of one; shorter ones match by chance
	maxValue  = 256
)

// Measure says what to measure in a call that gets a receipt.
type Measure struct {
	// Known reports whether the session has seen a block. Words and values are taken only from new blocks.
	Known func(Block) bool
	// for the hashes of values; it never leaves the process
	Seed maphash.Seed
}

// Measured has the additional measurements of a block.
type Measured struct {
	Words  int    // of a text
	Values Values // of a result in a request, and of a call's arguments in an answer
}

// Values are hashes of the values in a text that another text may repeat: JSON texts and numbers, and words that look
// like names. They stay in memory.
type Values struct {
	Hashes []uint64
	All    bool // none was left out
}

func (m *Measure) ValuesOf(text string) Values {
	v := Values{All: true}
	dec := jsontext.NewDecoder(strings.NewReader(text))
	if !jsontext.Value(text).IsValid() {
		v.words(m.Seed, text)
		return v
	}
	for v.All {
		token, err := dec.ReadToken()
		if err == io.EOF { //nolint:errorlint // as the decoder returns it
			return v
		}
		in, n := dec.StackIndex(dec.StackDepth())
		switch token.Kind() {
		case '0':
			v.add(m.Seed, token.String())
		case '"':
			if in == '{' && n%2 == 1 { // a member's name
				continue
			}
			s := token.String()
			v.add(m.Seed, s)
			if strings.ContainsAny(s, " \t\n\r") {
				v.words(m.Seed, s)
			}
		}
	}
	return v
}

func (v *Values) add(seed maphash.Seed, s string) {
	switch {
	case len(s) < minValue || len(s) > maxValue:
	case len(v.Hashes) == maxValues:
		v.All = false
	default:
		v.Hashes = append(v.Hashes, maphash.String(seed, s))
	}
}

// words adds words that look like names: others occur in many texts.
func (v *Values) words(seed maphash.Seed, text string) {
	for word := range strings.FieldsSeq(text) {
		word = strings.Trim(word, ".,;:!?()[]{}<>\"'`")
		if strings.ContainsAny(word, "0123456789/_-.@:") {
			v.add(seed, word)
		}
		if !v.All {
			return
		}
	}
}

type wordCount struct {
	n  int
	in bool // the last piece ended within a word
}

func (w *wordCount) add(text string) {
	for i := range len(text) {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
			w.in = false
		default:
			if !w.in {
				w.n++
			}
			w.in = true
		}
	}
}

func (t *tally) carried(p []byte) {
	if t.transport != nil {
		t.transport.Write(p)
	}
}

// HashArguments returns the hash that a [Block] of a call with these arguments has.
func HashArguments(key []byte, arguments []byte) [sha256.Size]byte {
	return hashOf(key, KindCall, []byte(canonical(string(bytes.TrimSpace(arguments)))))
}
