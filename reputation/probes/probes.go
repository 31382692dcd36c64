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

// bank holds the probe questions. It has no answers: a pair asks the same in other words, and only whether the answers
// agree counts.
type bank struct {
	Version   string     `json:"version"`
	Questions []question `json:"questions"`
}

type question struct {
	Values map[string]choice `json:"values"`
	Forms  []string          `json:"forms"` // with {name} for each value
}

// choice is the set of a value: a range of integers, or some words.
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

// draw draws pairs of probes in random order, each from another question.
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
			probes = append(probes,
				store.Probe{ID: id(), Pair: int64(pair), Prompt: strings.NewReplacer(values...).Replace(q.Forms[form])})
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
