// Command judge scores synthetic sessions, and writes how well the score tells agents from people and scripts: the
// tables and the plot of docs/autonomy.md.
//
//	scorer.go   the score under judgment, and its variants; strategies.go gives challenges strategies
//	score.go    scores the sessions; stats.go has the area under the curve
//	worth.go    the tables; plot.go the plot
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/actionproof/mediator/tools/autonomy"
)

// options say what is judged, and the files for the results.
type options struct {
	n, baselines  int // sessions of each group; seeds whose sessions make the baselines
	seed          uint64
	docs, picture string
	print         bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 60, "sessions of each group")
	flag.IntVar(&o.baselines, "baselines", 3, "how many seeds, from the next one on, the baselines are made of")
	flag.Uint64Var(&o.seed, "seed", 1, "what the sessions are drawn from")
	flag.StringVar(&o.docs, "docs", "docs/autonomy.md", "page of the score, in which the tables are replaced")
	flag.StringVar(&o.picture, "plot", "docs/autonomy.svg", "file for the plot")
	flag.BoolVar(&o.print, "print", false, "print the sessions as JSON, and judge nothing")
	flag.Parse()
	debug.SetGCPercent(400) // memory is short-lived here, and time matters more
	if err := judge(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(o options) error {
	if o.n < 1 || o.baselines < 1 {
		return errors.New("judge: -n and -baselines have to be at least 1")
	}
	if o.print {
		sessions, err := autonomy.Make(o.n, o.seed)
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(sessions))
	}
	old, err := os.ReadFile(o.docs)
	if err != nil {
		return err
	}
	by, err := variants(o.n, o.seed, o.baselines)
	if err != nil {
		return err
	}
	sessions, err := autonomy.Make(o.n, o.seed)
	if err != nil {
		return err
	}
	var results []result
	for _, v := range by {
		all, err := score(sessions, v.score)
		if err != nil {
			return err
		}
		results = append(results, result{v.name, all})
	}
	receipts := 0
	for _, s := range sessions {
		receipts += len(s.Receipts)
	}
	about := fmt.Sprintf(
		"%d sessions of each group, %d receipts in all, from the seed %d; baselines from the seeds %d to %d.",
		o.n, receipts, o.seed, o.seed+1, o.seed+uint64(o.baselines))
	docs, err := tables.Put(string(old), worth(results, about))
	if err != nil {
		return err
	}
	var drawn bytes.Buffer
	if err := plot(&drawn, results[0].all); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(o.docs, []byte(docs), 0o644), os.WriteFile(o.picture, drawn.Bytes(), 0o644))
}
