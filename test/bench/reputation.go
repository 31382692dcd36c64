package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// askingRule asks for the agent's reputation with every post, and denies none.
const askingRule = `
  - name: no-tier-below-the-lowest
    effect: deny
    when: autonomy.tierRank < 0
`

// reputationCost is what reputation.json holds: posts by a policy that asks for the agent's reputation beside posts by one that does not.
type reputationCost struct {
	conditions
	Posts   int      `json:"posts_a_round"` // of each of the two
	Without postCost `json:"without"`
	With    postCost `json:"with"`
	// Ratio is the median of the rounds' own ratios of the median latencies. It lies between Low and High with 95 % confidence.
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"ratio_low"`
	High   float64 `json:"ratio_high"`
	Most   float64 `json:"most_ratio"`
	Within bool    `json:"within"`
}

// postCost is what a post costs: latency is the median of the rounds' medians, CPU that of all processes of the mediator.
type postCost struct {
	P50   float64 `json:"p50_us"`
	CPU   float64 `json:"cpu_ms"`
	Posts int     `json:"posts"`
}

// mostRatio is how much longer a post may take if its policy asks for a reputation that the sidecar has.
const mostRatio = 1.03

func runReputation(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench reputation", flag.ContinueOnError)
	rounds := f.Int("rounds", 300, "rounds, of which the medians count")
	posts := f.Int("posts", 20, "posts of each of the two in a round, one after the other in turn")
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
	var two [2]*poster
	for i, d := range []deployment{{name: "without", node: true}, {name: "with", node: true, asks: true}} {
		t, err := b.deploy(ctx, d)
		if err != nil {
			return err
		}
		if err := t.await(ctx); err != nil {
			return err
		}
		two[i] = &poster{target: t, client: t.client(0, false)}
		defer two[i].client.CloseIdleConnections()
	}
	all := reputationCost{conditions: conditionsNow(*rounds, 0), Posts: *posts, Most: mostRatio}
	if err := inTurn(ctx, two, *rounds, *posts); err != nil {
		return err
	}
	all.summarize(two[0], two[1])
	return errors.Join(writeJSON(filepath.Join(*out, "reputation.json"), all), all.write(filepath.Join(*out, "REPUTATION.md")))
}

// poster posts over one connection to one deployment.
type poster struct {
	target
	client  *http.Client
	took    []float64 // µs, in this round
	medians []float64 // of the rounds
	posts   int
	cpu     float64 // seconds
}

// inTurn posts to both deployments in turn, so that whatever else the machine does slows both down. The first tenth of the rounds fills caches,
// and does not count.
func inTurn(ctx context.Context, two [2]*poster, rounds, posts int) error {
	warm := max(1, rounds/10)
	for round := range rounds + warm {
		if round == warm {
			for _, p := range two {
				p.medians, p.posts, p.cpu = nil, 0, -cpu(p.pids)
			}
		}
		for i := range posts {
			for j := range two {
				p := two[(i+j)%2]
				began := time.Now()
				if err := postOnce(ctx, p.client, p.base); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				p.took, p.posts = append(p.took, micros(time.Since(began))), p.posts+1
			}
		}
		for _, p := range two {
			p.medians, p.took = append(p.medians, mid(p.took)), p.took[:0]
		}
		if round%50 == 0 {
			fmt.Fprintf(os.Stderr, "round %d of %d\n", round, rounds+warm)
		}
	}
	for _, p := range two {
		p.cpu += cpu(p.pids)
	}
	return nil
}

// summarize compares the two round by round.
func (r *reputationCost) summarize(without, with *poster) {
	var ratios []float64
	for i := range with.medians {
		ratios = append(ratios, with.medians[i]/without.medians[i])
	}
	slices.Sort(ratios)
	n := len(ratios)
	reach := int(math.Ceil(0.98 * math.Sqrt(float64(n)))) // of the ranks between which the median lies: 1.96 standard deviations of B(n, 1/2)
	r.Ratio, r.Low, r.High = mid(ratios), ratios[max(0, n/2-reach)], ratios[min(n-1, n/2+reach)]
	r.Within = r.Ratio <= r.Most
	for p, c := range map[*poster]*postCost{without: &r.Without, with: &r.With} {
		*c = postCost{P50: mid(p.medians), CPU: 1000 * p.cpu / float64(p.posts), Posts: p.posts}
	}
}

func (r reputationCost) write(path string) error {
	var w bytes.Buffer
	fmt.Fprintf(&w, "# Reputation\n\nWritten by `make bench-reputation`, %s: %s, %d cores, load average at the start %s, %d rounds of %d posts to each of the two, in turn.\n",
		r.When, r.Machine, r.Cores, r.Load, r.Rounds, r.Posts)
	w.WriteString(`
What a strict post costs if the policy asks for the agent's reputation and the sidecar has it, beside a post by a policy that does not ask. Both sidecars hand their receipts over to a node of
their own. Latency is the median at one connection, CPU that of all processes of the mediator. The ratio is the median of the rounds' own ratios, so what slows both down counts for neither.
`)
	w.WriteString(r.busy())
	w.WriteString("\n| reputation | latency, µs | CPU a post, ms | posts made |\n|---|---|---|---|\n")
	for _, row := range []struct {
		name string
		postCost
	}{{"not asked for", r.Without}, {"asked for", r.With}} {
		fmt.Fprintf(&w, "| %s | %.0f | %.2f | %d |\n", row.name, row.P50, row.CPU, row.Posts)
	}
	fmt.Fprintf(&w, "\nA post takes %.3f times as long (95 %% confidence: %.3f to %.3f). It may be at most %.2f: %s.\n", r.Ratio, r.Low, r.High, r.Most, yes(r.Within))
	return os.WriteFile(path, w.Bytes(), 0o644)
}
