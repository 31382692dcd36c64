// Command simulate plays a month of a thousand agents by the rules of reputations and disputes, and writes the result
// into docs/reputation.md and docs/disputes.md. It measures nothing: the behaviour of agents is assumed.
//
//	kinds.go       how agents behave
//	world.go       what they do, and what the node knows of it
//	population.go  the thousand agents
//	attacks.go     one agent that attacks
//	economics.go   keys without an owner that attack one agent
//	report.go      the tables
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	seed := flag.Uint64("seed", 1, "what the agents are drawn from")
	docs := flag.String("docs", "docs", "folder of the pages in which the tables are replaced")
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

// pages returns the tables of each page.
func pages(seed uint64) map[string]func() string {
	return map[string]func() string{
		"reputation.md": func() string { return newStudy(seed).text() },
		"disputes.md":   economics,
	}
}

func simulate(seed uint64, docs string) error {
	old := make(map[string]string)
	for name := range pages(seed) {
		text, err := os.ReadFile(filepath.Join(docs, name))
		if err == nil {
			_, err = tables.Put(string(text), "") // before the work
		}
		if err != nil {
			return err
		}
		old[name] = string(text)
	}
	for name, text := range pages(seed) {
		written, err := tables.Put(old[name], text())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, name), []byte(written), 0o644); err != nil {
			return err
		}
	}
	return nil
}
