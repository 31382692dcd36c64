package records

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
)

const (
	// followPeriod is how often a command that follows the record looks at it.
	followPeriod = time.Second
	// Each look reads the newest followedRecords.
	followedRecords = 200
)

// Follow calls show with the newest records, at most tail, and then with each record when its call ends, until ctx
// ends. If more calls end between two looks than one look reads, Follow calls missed: some are not shown.
func Follow(ctx context.Context, from *Reader, s admin.Selection, tail int, show func(ledger.Record) error,
	missed func()) error {
	s.Limit = followedRecords
	f := follower{from: from, selection: s, show: show, missed: missed}
	err := f.look(ctx, tail)
	for range every.Tick(ctx, followPeriod) {
		if err != nil {
			break
		}
		err = f.look(ctx, followedRecords)
	}
	if ctx.Err() != nil {
		return nil // told to end, perhaps in the middle of a look
	}
	return err
}

type follower struct {
	from      *Reader
	selection admin.Selection
	show      func(ledger.Record) error
	missed    func()
	shown     map[string]bool // ids of the newest records that were shown; nil before the first look
}

// look shows the calls that ended since the last look, oldest first and at most so many.
func (f *follower) look(ctx context.Context, most int) error {
	var fresh []ledger.Record // the newest first
	ended, known := make(map[string]bool), false
	for r, err := range f.from.Selected(ctx, f.selection) {
		if err != nil {
			return err
		}
		if r.State == ledger.StateForwarding && f.selection.State != ledger.StateForwarding {
			continue
		}
		ended[r.ID] = true
		if f.shown[r.ID] {
			known = true
		} else {
			fresh = append(fresh, r)
		}
	}
	if f.shown != nil && len(fresh) == followedRecords && !known {
		f.missed()
	}
	f.shown = ended
	fresh = fresh[:min(most, len(fresh))]
	for i := len(fresh) - 1; i >= 0; i-- {
		if err := f.show(fresh[i]); err != nil {
			return err
		}
	}
	return nil
}

// Colours of a followed call.
const (
	red, green, yellow, plain = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
)

// FollowHead writes the head of the columns of [PrintCall].
func FollowHead(w io.Writer) error {
	_, err := fmt.Fprintf(w, callColumns, "TIME", "ID", "FLOW", "STATE", "STATUS", "MS", "CALL")
	return err
}

const callColumns = "%-20s  %-31s  %-8s  %-13s  %6s  %8s  %s\n"

// PrintCall writes a call on a line and, if it was refused or failed, its code and reason on a second and the remedy on
// a third one. Text that an agent chose cannot steer the terminal.
func PrintCall(w io.Writer, r ledger.Record, colour bool) error {
	text := cli.Lines(w)
	paint := func(s string) {
		if colour {
			_, _ = io.WriteString(w, s)
		}
	}
	switch r.State {
	case ledger.StateForwarded:
		paint(green)
	case ledger.StateIndeterminate:
		paint(yellow)
	case ledger.StateRefused, ledger.StateFailed:
		paint(red)
	}
	status := "-"
	if r.Status > 0 {
		status = strconv.Itoa(r.Status)
	}
	_, err := fmt.Fprintf(text, callColumns, cli.Time(r.Started), r.ID, r.Flow, r.State, status, took(r), shortCall(r))
	paint(plain)
	if err == nil && r.Code != "" {
		_, err = fmt.Fprintf(text, "    %s: %s\n", r.Code, cli.OrDash(r.Reason))
		if remedy := problem.Remedy(r.Code); err == nil && remedy != "" {
			_, err = fmt.Fprintf(text, "    %s\n", remedy)
		}
	}
	return err
}
