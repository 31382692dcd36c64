// Command judge scores synthetic sessions, and writes how well the score tells agents from people and scripts: a page, and a plot.
//
//	scorer.go   the score that is judged
//	score.go    scores the sessions; stats.go quartiles and the area under the curve
//	report.go   the page; plot.go the plot; figures.go what the sessions look like, without a score
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/actionproof/mediator/test/autonomy"
)

func main() {
	n := flag.Int("n", 60, "sessions of each group")
	seed := flag.Uint64("seed", 1, "what the sessions are drawn from")
	page := flag.String("page", "test/autonomy/RESULTS.md", "file for the page")
	picture := flag.String("plot", "test/autonomy/scores.svg", "file for the plot")
	flag.Parse()
	debug.SetGCPercent(400) // memory is short-lived here, and time matters more
	if err := judge(*n, *seed, *page, *picture); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(n int, seed uint64, page, picture string) error {
	if n < 1 {
		return errors.New("judge: -n has to be at least 1")
	}
	sessions, err := autonomy.Make(n, seed)
	if err != nil {
		return err
	}
	all, err := score(sessions, scorer)
	if err != nil {
		return err
	}
	link, err := filepath.Rel(filepath.Dir(page), picture)
	if err != nil {
		return err
	}
	receipts := 0
	for _, s := range sessions {
		receipts += len(s.Receipts)
	}
	about := fmt.Sprintf("Scored is %s. %d sessions of each group, %d receipts in all, from the seed %d.", scorerName, n, receipts, seed)
	var text, drawn bytes.Buffer
	if err := errors.Join(report(&text, all, about, filepath.ToSlash(link)), plot(&drawn, all)); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(page, text.Bytes(), 0o644), os.WriteFile(picture, drawn.Bytes(), 0o644))
}
