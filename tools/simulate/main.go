// Command simulate plays a month of a thousand agents by the rules of reputations and disputes, and writes the result
// into docs/reputation.md. It measures nothing: the behaviour of agents is assumed.
//
//	kinds.go       how agents behave
//	world.go       what they do, and what the node knows of it
//	population.go  the thousand agents
//	attacks.go     one agent that attacks
//	report.go      the tables
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "what the agents are drawn from")
	docs := flag.String("docs", "docs/reputation.md", "page in which the tables are replaced")
	flag.Parse()
	if err := simulate(*seed, *docs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// study is all results.
type study struct {
	seed       uint64
	world      *world // after a month
	attacks    []attack
	collusions []collusion
	pays       int // days until a new name has more than the one that lost a dispute
}

func newStudy(seed uint64) study {
	s := study{seed: seed, world: month(seed), pays: pays()}
	s.attacks, s.collusions = attacks()
	return s
}

func simulate(seed uint64, docs string) error {
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
	return os.WriteFile(docs, []byte(written), 0o644)
}
