package records

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
)

// maxTail bounds the records that Follow reads for its tail.
const maxTail = 200

// Follow calls show with the newest records, at most tail, and then with each record when its call ends, until ctx
// ends. Those have no evidence. It calls missed if the sidecar could not tell of some calls, because show is too slow.
func Follow(ctx context.Context, at string, s ledger.Query, tail int, show func(ledger.Record) error,
	missed func()) error {
	shown := make(map[string]bool) // the tail: a call in it can end once more for the follower
	err := admin.Ended(ctx, at, s, func() error {
		if tail == 0 {
			return nil
		}
		var newest []ledger.Record
		s.Limit = max(tail, maxTail)
		for r, err := range admin.Records(ctx, at, s) {
			if err != nil {
				return err
			}
			if r.State != ledger.StateForwarding && len(newest) < tail {
				newest = append(newest, r)
			}
		}
		for _, r := range slices.Backward(newest) {
			shown[r.ID] = true
			if err := show(r); err != nil {
				return err
			}
		}
		return nil
	}, func(c admin.EndedCall) error {
		if c.Missed > 0 {
			missed()
		}
		if c.Call == nil || shown[c.Call.ID] {
			return nil
		}
		return show(*c.Call)
	})
	if ctx.Err() != nil {
		return nil // told to end, perhaps in the middle of a call
	}
	return err
}

// colours of a followed call, and the terminal's own.
var colours = map[ledger.State]string{ledger.StateForwarded: "\x1b[32m", ledger.StateIndeterminate: "\x1b[33m",
	ledger.StateRefused: "\x1b[31m", ledger.StateFailed: "\x1b[31m"}

const plain = "\x1b[0m"

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
	paint(colours[r.State])
	_, err := fmt.Fprintf(text, callColumns, cli.Time(r.Started), r.ID, r.Flow, r.State, status(r), took(r), shortCall(r))
	paint(plain)
	if err == nil && r.Code != "" {
		_, err = fmt.Fprintf(text, "    %s: %s\n", r.Code, cli.OrDash(r.Reason))
		if remedy := problem.Remedy(r.Code); err == nil && remedy != "" {
			_, err = fmt.Fprintf(text, "    %s\n", remedy)
		}
	}
	return err
}
