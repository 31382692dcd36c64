package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// askingRule is what a policy has beside the example that asks for the agent's reputation with every post. It denies none.
const askingRule = `
  - name: no-tier-below-the-lowest
    effect: deny
    when: autonomy.tierRank < 0
`

// reputationCost is what reputation.json holds: posts by a policy that asks for the agent's reputation beside posts by one that does not.
type reputationCost struct {
	conditions
	Points []reputationPoint `json:"points"`
	Most   float64           `json:"most_p50_ratio"`
	Within bool              `json:"within"`
}

// reputationPoint is one of the two at some connections. The ratio is the median of the rounds' own ratios of the median latencies; of half of
// the rounds it lies between Low and High.
type reputationPoint struct {
	Name        string  `json:"name"`
	Connections int     `json:"connections"`
	P50         float64 `json:"p50_us"`
	CPU         float64 `json:"cpu_ms"` // of all processes of the mediator, a post
	Ratio       float64 `json:"p50_ratio"`
	Low         float64 `json:"p50_ratio_low"`
	High        float64 `json:"p50_ratio_high"`
	Posts       int     `json:"posts"`
	Errors      int     `json:"errors"`
}

// mostRatio is how much longer a post may take if its policy asks for a reputation that the sidecar has.
const mostRatio = 1.03

func runReputation(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench reputation", flag.ContinueOnError)
	rounds := f.Int("rounds", 100, "rounds, of which the medians count")
	duration := f.Duration("duration", 250*time.Millisecond, "of one measurement in one round")
	out := f.String("out", "test/bench", "folder for reputation.json and REPUTATION.md")
	if err := f.Parse(args); err != nil {
		return err
	}
	b, err := newStand()
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.startUpstream(); err != nil {
		return err
	}
	all := reputationCost{conditions: conditionsNow(*rounds, *duration), Most: mostRatio}
	var cells []*cell // those without stand before those with
	for _, d := range []deployment{{name: "without", node: true}, {name: "with", node: true, asks: true}} {
		t, err := b.deploy(ctx, d)
		if err != nil {
			return err
		}
		if err := t.await(ctx); err != nil {
			return err
		}
		for _, connections := range []int{1, 16} {
			cells = append(cells, &cell{Name: d.name, Connections: connections, target: t, call: postOnce})
		}
	}
	if err := alternate(ctx, cells, *rounds, *duration); err != nil {
		return err
	}
	for i, c := range cells {
		all.Points = append(all.Points, c.beside(cells[i%2]))
	}
	all.Within = all.Points[2].Ratio <= mostRatio
	return errors.Join(writeJSON(filepath.Join(*out, "reputation.json"), all), all.write(filepath.Join(*out, "REPUTATION.md")))
}

// alternate measures the cells round by round, every other round from the last one to the first.
func alternate(ctx context.Context, cells []*cell, rounds int, d time.Duration) error {
	order := slices.Clone(cells)
	for round := range rounds + 1 { // the first one fills caches and does not count
		for _, c := range order {
			s, err := c.load(ctx, d)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if round > 0 {
				c.samples = append(c.samples, s)
			}
		}
		slices.Reverse(order)
		if round%10 == 0 {
			fmt.Fprintf(os.Stderr, "round %d of %d\n", round, rounds)
		}
	}
	return nil
}

// beside compares a cell with another one, round by round.
func (c *cell) beside(base *cell) reputationPoint {
	p := reputationPoint{Name: c.Name, Connections: c.Connections}
	p.P50, p.CPU = middle(c.samples, func(s sample) float64 { return s.p50 }), middle(c.samples, func(s sample) float64 { return s.cpu })
	var ratios []float64
	for i, s := range c.samples {
		ratios = append(ratios, s.p50/base.samples[i].p50)
		p.Posts, p.Errors = p.Posts+s.calls, p.Errors+s.errors
	}
	p.Ratio = mid(ratios) // and sorts them
	p.Low, p.High = ratios[len(ratios)/4], ratios[len(ratios)*3/4]
	return p
}

func (r reputationCost) write(path string) error {
	var w bytes.Buffer
	fmt.Fprintf(&w, "# Reputation\n\nWritten by `make bench-reputation`, %s: %s, %d cores, load average at the start %s, %d rounds of %.2f s a measurement, in alternation.\n", r.When, r.Machine, r.Cores, r.Load, r.Rounds, r.Seconds)
	w.WriteString(`
What a strict post costs if the policy asks for the agent's reputation and the sidecar has it, beside a post by a policy that does not ask. Both sidecars hand their receipts over to a node. The
ratio is the median of the rounds' own ratios of the median latencies. In brackets is where the middle half of these ratios lies. CPU is that of all processes of the mediator.
`)
	w.WriteString(r.busy())
	w.WriteString("\n| reputation | connections | median, µs | ratio | CPU a post, ms | posts made | errors |\n|---|---|---|---|---|---|---|\n")
	for _, p := range r.Points {
		fmt.Fprintf(&w, "| %s | %d | %.0f | %.3f (%.3f–%.3f) | %.2f | %d | %d |\n", p.Name, p.Connections, p.P50, p.Ratio, p.Low, p.High, p.CPU, p.Posts, p.Errors)
	}
	fmt.Fprintf(&w, "\nAt one connection the ratio may be at most %.2f: %s.\n", r.Most, yes(r.Within))
	return os.WriteFile(path, w.Bytes(), 0o644)
}
