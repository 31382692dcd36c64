// Command mutate shows that the checks are tested: it disables each in turn and demands that a test fails.
//
//	mutate [-p 2] [-timeout 60s] [-match regexp] [-list] package ...
//
// Each argument is the directory of a package, whose own tests must fail. A check is an if or a case that refuses or accepts, an operand
// of && and ||, the bound of a comparison, an error that is passed on, a row of a table, a claim. The source is never changed: mutants are
// compiled with go's -overlay, all that can share one binary in it. What survives must stand in test/mutate/equivalent.txt with the reason
// why no test can tell it from the original; the status is 1 where something else survives or is not through in time, and where something
// stands there that does not survive.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	parallel := flags.Int("p", 2, "mutants at a time")
	timeout := flags.Duration("timeout", 60*time.Second, "the least that the tests of one mutant may take; ten times what they take without one, where that is more")
	match := flags.String("match", "", "only mutants whose line in the output matches")
	allowed := flags.String("equivalent", "test/mutate/equivalent.txt", "the mutants that no test can tell from the original")
	list := flags.Bool("list", false, "list the mutants and run nothing")
	if flags.Parse(args) != nil || flags.NArg() == 0 {
		return 2
	}
	only, err := regexp.Compile(*match)
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	}
	equivalent, err := readEquivalent(*allowed)
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	}
	var total tally
	for _, arg := range flags.Args() {
		dir := filepath.Clean(arg)
		mutants, err := mutantsOf(dir)
		if err != nil {
			fmt.Fprintln(stderr, "mutate:", err)
			return 2
		}
		if *list {
			for _, m := range mutants {
				fmt.Fprintln(stdout, m)
			}
			continue
		}
		t := &trial{dir: dir, parallel: *parallel, timeout: *timeout, out: stdout, equivalent: equivalent}
		if err := t.run(ctx, mutants, only); err != nil {
			fmt.Fprintln(stderr, "mutate:", err)
			return 2
		}
		fmt.Fprintf(stdout, "mutate: %s: %s\n", t.dir, t.tally)
		total.add(t.tally)
		if *match == "" {
			total.stale += t.stale()
		}
	}
	if !*list {
		fmt.Fprintf(stdout, "mutate: %s\n", total)
	}
	if total.survived+total.late+total.stale > 0 {
		return 1
	}
	return 0
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.name) }

// id names a mutant in the list of equivalent ones.
func (m mutant) id() string { return filepath.ToSlash(m.file) + ": " + m.name }

// readEquivalent reads the list of equivalent mutants: a line each, " -- " before the reason. Lines that begin with # are comments.
func readEquivalent(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool)
	for n, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " -- ")
		if strings.TrimSpace(reason) == "" || out[id] {
			return nil, fmt.Errorf("%s:%d: no reason is given, or the mutant is there twice", path, n+1)
		}
		out[id] = true
	}
	return out, nil
}
