// Command simulate lets a thousand agents live for a month by the rules of reputations and disputes, and writes what
// comes of it into docs/reputation.md. It is no measurement: how agents behave is assumed.
//
//	kinds.go       how agents behave
//	world.go       what they do, and what the node knows of it
//	population.go  the thousand agents, and what they do to each other
//	attacks.go     one agent that wants more, or has less
//	report.go      the tables; plot.go the plots
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "what the agents are drawn from")
	docs := flag.String("docs", "docs/reputation.md", "page in which the tables are replaced")
	picture := flag.String("plot", "docs/reputation.svg", "file for the plots")
	flag.Parse()
	if err := simulate(*seed, *docs, *picture); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// study is what comes of everything.
type study struct {
	seed       uint64
	world      *world // after a month
	attacks    []attack
	collusions []collusion
	courses    []course
}

func newStudy(seed uint64) study {
	s := study{seed: seed, world: month(seed), courses: courses()}
	s.attacks, s.collusions = attacks()
	return s
}

func simulate(seed uint64, docs, picture string) error {
	old, err := os.ReadFile(docs)
	if err != nil {
		return err
	}
	if _, err := tables.Put(string(old), ""); err != nil { // before the work
		return err
	}
	s := newStudy(seed)
	written, err := tables.Put(string(old), s.text())
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(docs, []byte(written), 0o644), os.WriteFile(picture, s.plot(), 0o644))
}
