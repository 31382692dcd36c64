package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// growthOptions are what go run ./test/bench growth measures.
type growthOptions struct {
	rounds   int
	duration time.Duration
	axes     []axis
	idle     int
	out      string
}

// axis is one thing that grows, and what a post costs then.
type axis struct {
	Name   string    `json:"name"`
	What   string    `json:"what"`
	Points []point   `json:"points"`
	Filled []filling `json:"filled,omitempty"`

	of func(d *deployment, value int)
}

// point is one value of an axis: medians over the rounds. Ratios are to the first point, each round's own.
type point struct {
	Value    int     `json:"value"`
	CPU      float64 `json:"cpu_ms"`         // of all processes of the mediator, a post, 16 connections
	Sidecar  float64 `json:"cpu_ms_sidecar"` // of it, the sidecar's
	P50      float64 `json:"p50_us"`         // 1 connection
	RPS      float64 `json:"rps"`            // 16 connections
	CPURatio float64 `json:"cpu_ratio"`
	P50Ratio float64 `json:"p50_ratio"`
	RPSRatio float64 `json:"rps_ratio"`
	Within   bool    `json:"within_10_percent"` // all three, and no errors
	Posts    int     `json:"posts"`             // made while it was measured
	Errors   int     `json:"errors"`            // of them
}

// memory is what stays in the sidecar for each of something, in KiB.
type memory struct {
	Count      int     `json:"count"`
	Session    float64 `json:"session_kib"`
	Connection float64 `json:"idle_connection_kib"`
	Base       float64 `json:"before_mib"`
}

// growth is what growth.json holds.
type growth struct {
	conditions
	Axes   []axis `json:"axes"`
	Memory memory `json:"memory"`
}

func runGrowth(ctx context.Context, args []string) error {
	o := growthOptions{axes: []axis{
		{Name: "recorded", What: "posts on record", of: func(*deployment, int) {}},
		{Name: "rules", What: "action rules, the matching one last", of: func(d *deployment, n int) { d.rules = n }},
		{Name: "sessions", What: "open sessions, posts spread over them", of: func(d *deployment, n int) { d.sessions = n }},
	}}
	f := flag.NewFlagSet("bench growth", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "rounds, of which the medians count")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "of one measurement in one round")
	f.IntVar(&o.idle, "idle", 1000, "sessions, and idle tunnels, whose memory is measured; 0 measures none")
	f.StringVar(&o.out, "out", "test/bench", "folder for growth.json, GROWTH.md and the plots")
	values := make([]string, len(o.axes))
	for i, defaults := range []string{"1,1000,100000,1000000", "1,10,100,1000", "1,10,100,1000"} {
		f.StringVar(&values[i], o.axes[i].Name, defaults, o.axes[i].What+"; empty leaves it out")
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	for i := range o.axes {
		if values[i] == "" {
			continue
		}
		counts, err := parseCounts(o.axes[i].Name, values[i])
		if err != nil {
			return err
		}
		for _, n := range counts {
			o.axes[i].Points = append(o.axes[i].Points, point{Value: n})
		}
	}
	return measureGrowth(ctx, o)
}

func measureGrowth(ctx context.Context, o growthOptions) error {
	b, err := newStand()
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.startUpstream(); err != nil {
		return err
	}
	all := growth{conditions: conditionsNow(o.rounds, o.duration)}
	for _, a := range o.axes {
		if len(a.Points) == 0 {
			continue
		}
		if err := b.measureAxis(ctx, &a, o); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		all.Axes = append(all.Axes, a)
	}
	if o.idle > 0 {
		if all.Memory, err = b.memory(ctx, o.idle); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	return errors.Join(writeJSON(filepath.Join(o.out, "growth.json"), all), all.write(o.out))
}

// measureAxis starts a mediator for each point, measures them in alternation, and stops them.
func (b *stand) measureAxis(ctx context.Context, a *axis, o growthOptions) error {
	running := len(b.processes)
	defer func() { b.stopFrom(running) }()
	var alone, together []*cell
	for i := range a.Points {
		t, err := b.startPoint(ctx, a, i)
		if err != nil {
			return fmt.Errorf("%d: %w", a.Points[i].Value, err)
		}
		name := a.Name + " " + strconv.Itoa(a.Points[i].Value)
		alone = append(alone, &cell{Name: name, Connections: 1, target: t, call: postOnce})
		together = append(together, &cell{Name: name, Connections: 16, target: t, call: postOnce})
	}
	for round := range o.rounds + 1 { // the first one fills caches and does not count
		for i := range a.Points {
			for _, c := range []*cell{alone[(i+round)%len(alone)], together[(i+round)%len(together)]} {
				s, err := c.load(ctx, o.duration)
				if err != nil {
					return fmt.Errorf("%s: %w", c.Name, err)
				}
				if round > 0 {
					c.samples = append(c.samples, s)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", a.Name, round, o.rounds)
	}
	for i := range a.Points {
		a.Points[i].summarize(alone[i], together[i], alone[0], together[0])
	}
	return nil
}

// startPoint starts the mediator of one point. A ledger is filled with what a post has left in that of the first point.
func (b *stand) startPoint(ctx context.Context, a *axis, i int) (target, error) {
	n := a.Points[i].Value
	d := deployment{name: fmt.Sprintf("%s-%d", a.Name, n)}
	a.of(&d, n)
	if a.Name == "recorded" && i > 0 {
		like, err := readExample(ctx, filepath.Join(b.dir, fmt.Sprintf("%s-%d", a.Name, a.Points[0].Value)))
		if err != nil {
			return target{}, err
		}
		d.fill = func(dir string) error {
			f, err := like.fill(ctx, dir, n)
			a.Filled = append(a.Filled, f)
			fmt.Fprintln(os.Stderr, f)
			return err
		}
	}
	t, err := b.deploy(ctx, d)
	if err != nil {
		return t, err
	}
	return t, t.await(ctx)
}

func (p *point) summarize(alone, together, alone0, together0 *cell) {
	cpu, p50 := func(s sample) float64 { return s.cpu }, func(s sample) float64 { return s.p50 }
	p.CPU, p.Sidecar = middle(together.samples, cpu), middle(together.samples, func(s sample) float64 { return s.sidecar })
	p.P50, p.RPS = middle(alone.samples, p50), middle(together.samples, func(s sample) float64 { return s.rps })
	p.CPURatio, p.P50Ratio, p.RPSRatio = pairedOf(together, together0, cpu), pairedOf(alone, alone0, p50), paired(together, together0)
	for _, s := range append(alone.samples, together.samples...) {
		p.Posts, p.Errors = p.Posts+s.calls, p.Errors+s.errors
	}
	p.Within = p.CPURatio <= 1.1 && p.P50Ratio <= 1.1 && p.RPSRatio >= 0.9 && p.Errors == 0
}

// memory measures what a session, then what an idle tunnel that has carried one call, adds to the resident memory of the sidecar.
func (b *stand) memory(ctx context.Context, n int) (memory, error) {
	running := len(b.processes)
	defer func() { b.stopFrom(running) }()
	m := memory{Count: n}
	few, err := b.deploy(ctx, deployment{name: "memory"})
	if err != nil {
		return m, err
	}
	if err := few.await(ctx); err != nil {
		return m, err
	}
	warm := cell{Name: "memory", Connections: 16, target: few, call: readOnce}
	if _, err := warm.load(ctx, 2*time.Second); err != nil {
		return m, err
	}
	m.Base = rss(few.sidecar)
	dir := filepath.Join(b.dir, "memory")
	for range n {
		if err := few.open(ctx, dir, dir, few.hooks); err != nil {
			return m, err
		}
	}
	after := rss(few.sidecar)
	m.Session = (after - m.Base) * 1024 / float64(n)
	clients := make([]*http.Client, n)
	g, connecting := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range clients {
		clients[i] = few.client(i, false)
		defer clients[i].CloseIdleConnections()
		g.Go(func() error { return readOnce(connecting, clients[i], few.base) })
	}
	if err := g.Wait(); err != nil {
		return m, err
	}
	m.Connection = (rss(few.sidecar) - after) * 1024 / float64(n)
	return m, nil
}
