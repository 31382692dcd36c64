package reputation

import (
	_ "embed" // the bank of questions
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/store"
)

//go:embed probes.json
var bankText []byte

// bank is the data that probes are made of. An answer is not among it: two probes of a pair ask the same in other words, and what counts is
// that their answers agree.
type bank struct {
	Version   string     `json:"version"`
	Questions []question `json:"questions"`
}

// question has an exact, short answer for each choice of its values.
type question struct {
	Values map[string]choice `json:"values"`
	Forms  []string          `json:"forms"` // each with {name} in the place of a value
}

// choice is what a value can be: a whole number of a range, or one of some words.
type choice struct {
	From int      `json:"from,omitempty"`
	To   int      `json:"to,omitempty"`
	Of   []string `json:"of,omitempty"`
}

func readBank() (bank, error) {
	var b bank
	if err := strictjson.Parse(bankText, &b); err != nil {
		return b, fmt.Errorf("reputation: the bank of probes: %w", err)
	}
	return b, nil
}

// draw makes pairs of probes, each pair of another question, in an order that does not tell which belong together. The same randomness
// makes the same probes, but for their ids, which id makes.
func (b bank) draw(pairs int, r *rand.Rand, id func() string) []store.Probe {
	var probes []store.Probe
	for pair, at := range r.Perm(len(b.Questions))[:min(pairs, len(b.Questions))] {
		q := b.Questions[at]
		values := make([]string, 0, 2*len(q.Values))
		for _, name := range slices.Sorted(maps.Keys(q.Values)) {
			values = append(values, "{"+name+"}", q.Values[name].draw(r))
		}
		forms := r.Perm(len(q.Forms))
		for _, form := range forms[:2] {
			probes = append(probes, store.Probe{ID: id(), Pair: int64(pair), Prompt: strings.NewReplacer(values...).Replace(q.Forms[form])})
		}
	}
	r.Shuffle(len(probes), func(i, j int) { probes[i], probes[j] = probes[j], probes[i] })
	return probes
}

func (c choice) draw(r *rand.Rand) string {
	if len(c.Of) > 0 {
		return c.Of[r.IntN(len(c.Of))]
	}
	return fmt.Sprint(c.From + r.IntN(c.To-c.From+1))
}
