// Command bench measures the mediator, layer by layer, beside other ways to the same API: see RESULTS.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options say what to measure.
type options struct {
	quick    bool
	rounds   int
	duration time.Duration
	only     *regexp.Regexp
	size     sizes
}

// sizes are what takes long to make or to wait for.
type sizes struct {
	rules, sessions, leaves, records int
	starts, times                    int // of mediator dev, and of each benchmark
	rest                             time.Duration
}

var (
	whole = sizes{rules: 10_000, sessions: 4000, leaves: 10_000_000, records: 1_000_000, starts: 5, times: 500,
		rest: 10 * time.Second}
	quick = sizes{rules: 100, sessions: 10, leaves: 20_000, records: 2000, starts: 1, times: 10, rest: time.Second}
)

func run(ctx context.Context, args []string) error {
	if len(args) == 3 { // bench starts itself as one of these: the role, its address, the folder of the certificates
		switch args[0] {
		case "upstream":
			return serveUpstream(ctx, args[1], args[2])
		case "goproxy":
			return serveGoproxy(ctx, args[1], args[2])
		}
	}
	o := options{size: whole}
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "try each cell for a moment, and only print the report")
	f.IntVar(&o.rounds, "rounds", 2, "rounds, of which the medians count")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "of one cell in one round")
	f.StringVar(&only, "only", "", "only cells like 'post (durable|receipts) 16', and only print the report")
	err := f.Parse(args)
	if err == nil {
		o.only, err = regexp.Compile(only)
	}
	if err != nil {
		return err
	}
	if o.quick {
		o.rounds, o.duration, o.size = 1, 100*time.Millisecond, quick
	}
	return measure(ctx, o)
}

// cell is one measurement: a load through a target.
type cell struct {
	name    string // what is called, the target, and the connections or the rate
	target  target
	load    load
	rounds  int // at most
	samples []sample
}

// connections and rates are the loads of posts. A rate is of a second.
var connections, rates = []int{1, 16, 64}, []int{5, 20, 200}

// makeCells returns the cells to measure.
func makeCells(targets []target, o options) (cells []*cell) {
	add := func(what string, t target, how any, do load, rounds int) {
		name := fmt.Sprint(what, " ", t.name, " ", how)
		if o.only.MatchString(name) {
			cells = append(cells, &cell{name: name, target: t, load: do, rounds: rounds})
		}
	}
	for _, t := range targets {
		switch t.name {
		case "transit":
			add("post", t, 1, closed(t.post, 1), o.rounds)
			add("post", t, "batches", closed(signature(t.post.token, batch), 16), o.rounds)
			continue
		case "many rules", "many sessions": // like receipts but for one thing
			add("post", t, 16, closed(t.post, 16), o.rounds)
			continue
		case "log", "telemetry":
			add("post", t, "long", long(closed(t.post, 16)), o.rounds)
			continue
		case "receipts": // beside these two
			add("post", t, "long", long(closed(t.post, 16)), o.rounds)
		}
		for i, n := range connections {
			add("post", t, n, closed(t.post, n), o.rounds)
			add("post", t, fmt.Sprint(rates[i], "/s"), open(t.post, float64(rates[i])), max(1, o.rounds/2))
		}
		if t.name == "direct" || t.name == "goproxy" || t.name == "receipts" {
			add("read", t, 16, closed(read, 16), o.rounds)
			add("download", t, 1, closed(download, 1), o.rounds)
			add("events", t, 1, follow, o.rounds)
		}
	}
	return cells
}

// measure starts everything, runs the rounds and reports.
func measure(ctx context.Context, o options) (err error) {
	b, err := newStand()
	if err != nil {
		return err
	}
	defer b.stop()
	r := &results{o: o, cells: make(map[string]*cell)}
	if o.only.MatchString("rest") {
		if r.rest, err = b.atRest(ctx, o.size); err != nil {
			return err
		}
	}
	targets, err := b.start(ctx, o)
	if err != nil {
		return err
	}
	cells := makeCells(targets, o)
	for round := range o.rounds {
		for i := range cells {
			c := cells[(i+round)%len(cells)]
			if round >= c.rounds {
				continue
			}
			s, err := c.load(ctx, c.target, o.duration)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // one failed round of one cell does not spoil the others
				fmt.Fprintf(os.Stderr, "%s: %d calls: %v\n", c.name, s.calls, err)
			}
			c.samples = append(c.samples, s)
			r.cells[c.name] = c
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	if o.only.MatchString("syncs") {
		if r.syncs, err = b.syncs(ctx, o); err != nil {
			return err
		}
	}
	b.stop() // what follows has the machine for itself
	if r.grown, err = grow(ctx, o); err != nil {
		return err
	}
	if o.quick || o.only.String() != "" {
		fmt.Printf("%s", r.report())
		return nil
	}
	return os.WriteFile("tools/bench/RESULTS.md", r.report(), 0o644)
}

// grow runs the benchmarks of the log and of the ledger with little and with much in them, and returns their lines.
func grow(ctx context.Context, o options) (lines string, err error) {
	for _, b := range [][2]string{{"bin/bench-log", fmt.Sprint("-leaves=", o.size.leaves)},
		{"bin/bench-ledger", fmt.Sprint("-records=", o.size.records)}} {
		if !o.only.MatchString(b[0]) {
			continue
		}
		out, err := exec.CommandContext(ctx, b[0], "-test.run=^$", "-test.bench=^BenchmarkGrown$",
			fmt.Sprint("-test.benchtime=", o.size.times, "x"), b[1]).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w: %s", b[0], err, out)
		}
		for line := range strings.Lines(string(out)) {
			if figures, ok := strings.CutPrefix(line, "BenchmarkGrown/"); ok {
				lines += figures
			}
		}
	}
	return lines, nil
}
