// Package probes has the questions of challenges.
package probes

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
var text []byte

// bank holds the questions. It has no answers: a pair asks the same in other words, and only whether the answers agree
// counts.
var bank = func() (b struct {
	Version   string     `json:"version"`
	Questions []question `json:"questions"`
}) {
	if err := strictjson.Parse(text, &b); err != nil {
		panic("probes: probes.json: " + err.Error())
	}
	return b
}()

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

// Draw draws pairs of probes in random order, each pair from another question.
func Draw(pairs int, r *rand.Rand, id func() string) []store.Probe {
	var probes []store.Probe
	for pair, at := range r.Perm(len(bank.Questions))[:min(pairs, len(bank.Questions))] {
		q := bank.Questions[at]
		values := make([]string, 0, 2*len(q.Values))
		for _, name := range slices.Sorted(maps.Keys(q.Values)) {
			values = append(values, "{"+name+"}", q.Values[name].draw(r))
		}
		for _, form := range r.Perm(len(q.Forms))[:2] {
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
