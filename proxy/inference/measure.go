package inference

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"hash/maphash"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on the values that are taken of a text.
const (
	maxValues = 1024 // of one text
	minValue  = 6    // bytes of one: shorter ones meet by chance
	maxValue  = 256
)

// Measure is what is asked of the reading of a call where receipts are made of a session.
type Measure struct {
	// Known reports whether a block of a request was in the session before. Of one that was not, words and values are
	// taken.
	Known func(Block) bool
	// Seed is that of the hashes of values. It never leaves the process.
	Seed maphash.Seed
}

// Measured is what is taken of a block besides.
type Measured struct {
	Words  int    // of a text
	Values Values // of a result of a request, and of the arguments of a call of an answer
}

// Values are hashes of what a text says that can come back in another one: its JSON texts and numbers, and the words of
// texts that look like names. They are in memory only.
type Values struct {
	Hashes []uint64
	All    bool // there were no more than are kept
}

// ValuesOf returns the values of a text.
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
			if in == '{' && n%2 == 1 { // a name
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

// words takes the words that look like names: others stand in many texts.
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

// wordCount counts the words of a text that comes in pieces.
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

func wordsOf(text string) int {
	var w wordCount
	w.add(text)
	return w.n
}

// newTransportMAC makes the HMAC of the bytes of an answer.
func newTransportMAC(key []byte) hash.Hash {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("transport\x00"))
	return mac
}

// carried takes bytes of the answer's body.
func (t *tally) carried(p []byte) {
	if t.transport != nil {
		t.transport.Write(p)
	}
}

// keep appends a piece of an answer's text to its sample, if more of it is wanted.
func (t *tally) keep(text string) {
	if more := t.wanted - len(t.in.Sample); more > 0 {
		t.in.Sample = append(t.in.Sample, text[:min(len(text), more)]...)
	}
}

// HashArguments returns the hash of the arguments of a call of a tool, as that of a [Block] of such a call.
func HashArguments(key []byte, arguments []byte) [sha256.Size]byte {
	return hashOf(key, KindCall, []byte(canonical(string(bytes.TrimSpace(arguments)))))
}
