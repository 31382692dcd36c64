// Command bench measures the mediator beside other ways to the same API: no proxy, the same proxy library without
// evidence, and two peers. The cells of a run take turns on one machine, so only their ratios count: see RESULTS.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
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

// options say what a run measures.
type options struct {
	rounds      int
	duration    time.Duration
	connections []int
	only        string
	out         string
	vault       bool
}

func run(ctx context.Context, args []string) error {
	if len(args) == 3 { // bench starts itself as one of these: the role, its address, the folder of the certificates
		switch args[0] {
		case "upstream":
			return serveUpstream(ctx, args[1], args[2])
		case "goproxy":
			return serveGoproxy(ctx, args[1], args[2])
		}
	}
	var o options
	var connections string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "rounds, of which the medians count")
	f.DurationVar(&o.duration, "duration", time.Second, "of one cell in one round")
	f.StringVar(&connections, "connections", "1,16,64", "numbers of connections")
	f.StringVar(&o.only, "only", "", "only cells with this in their names")
	f.StringVar(&o.out, "out", "tools/bench", "folder for RESULTS.md")
	f.BoolVar(&o.vault, "vault", true, "measure keys in Vault too, with bin/vault")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if o.connections, err = parseCounts("connections", connections); err != nil {
		return err
	}
	return measure(ctx, o)
}

// parseCounts reads the value of a flag, a list of numbers.
func parseCounts(name, list string) ([]int, error) {
	var counts []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is not a number from 1 on", name, s)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// measure starts everything, runs the rounds and writes the results.
func measure(ctx context.Context, o options) error {
	b, err := newStand()
	if err != nil {
		return err
	}
	defer b.stop()
	targets, err := b.start(ctx, o)
	if err != nil {
		return err
	}
	cells := makeCells(targets, o)
	for _, c := range cells { // caches are filled and connections are made before anything counts
		if _, err := c.load(ctx, 300*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	for round := range o.rounds {
		for i := range cells {
			c := cells[(i+round)%len(cells)]
			sample, err := c.load(ctx, o.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			c.samples = append(c.samples, sample)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	return os.WriteFile(filepath.Join(o.out, "RESULTS.md"), report(cells, o), 0o644)
}
