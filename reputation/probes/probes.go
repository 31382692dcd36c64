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

// Probe is a question for an agent's model.
type Probe struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// Draw draws pairs of probes, each pair from another question. It returns the probes in random order, and the ids of
// each pair.
func Draw(n int, r *rand.Rand, id func() string) (asked []Probe, pairs [][2]string) {
	for _, at := range r.Perm(len(bank.Questions))[:min(n, len(bank.Questions))] {
		q := bank.Questions[at]
		values := make([]string, 0, 2*len(q.Values))
		for _, name := range slices.Sorted(maps.Keys(q.Values)) {
			values = append(values, "{"+name+"}", q.Values[name].draw(r))
		}
		var pair [2]string
		for i, form := range r.Perm(len(q.Forms))[:2] {
			pair[i] = id()
			asked = append(asked, Probe{pair[i], strings.NewReplacer(values...).Replace(q.Forms[form])})
		}
		pairs = append(pairs, pair)
	}
	r.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	return asked, pairs
}

func (c choice) draw(r *rand.Rand) string {
	if len(c.Of) > 0 {
		return c.Of[r.IntN(len(c.Of))]
	}
	return fmt.Sprint(c.From + r.IntN(c.To-c.From+1))
}
