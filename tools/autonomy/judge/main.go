// Command judge scores synthetic sessions, and writes into docs/autonomy.md how well the score tells agents from people
// and scripts.
//
//	scorer.go      the score under judgement
//	strategies.go  strategies for the sessions' challenges
//	table.go       the table
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/actionproof/mediator/tools/autonomy"
)

type options struct {
	n, baselines int // sessions of each group; seeds of the sessions behind the baselines
	seed         uint64
	docs         string
	print        bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 60, "sessions of each group")
	flag.IntVar(&o.baselines, "baselines", 3, "number of seeds, from the next one on, for the baselines")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the sessions")
	flag.StringVar(&o.docs, "docs", "docs/autonomy.md", "page whose table is replaced")
	flag.BoolVar(&o.print, "print", false, "print the sessions as JSON instead of judging them")
	flag.Parse()
	debug.SetGCPercent(400) // time matters more than memory
	if err := judge(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(o options) error {
	if o.n < 1 || o.baselines < 1 {
		return errors.New("judge: -n and -baselines must be at least 1")
	}
	if o.print {
		sessions, err := autonomy.Make(o.n, o.seed)
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(sessions))
	}
	old, err := os.ReadFile(o.docs)
	if err != nil {
		return err
	}
	baselines, err := baselinesOf(o.n, o.seed, o.baselines)
	if err != nil {
		return err
	}
	sessions, err := autonomy.Make(o.n, o.seed)
	if err != nil {
		return err
	}
	receipts := 0
	for _, s := range sessions {
		receipts += len(s.Receipts)
	}
	about := fmt.Sprintf("%d sessions of each group, %d receipts in all, seed %d; baselines from the seeds %d to %d.",
		o.n, receipts, o.seed, o.seed+1, o.seed+uint64(o.baselines))
	docs, err := place.Put(string(old), tableOf(scoresOf(sessions, baselines), about))
	if err != nil {
		return err
	}
	return os.WriteFile(o.docs, []byte(docs), 0o644)
}
