package node

import (
	"fmt"
	"io"
	"time"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/verification"
)

func drawOverviews(out io.Writer, all []verification.Overview) error {
	t := cli.Table(out, "SESSION", "OPENED", "STATE", "TASK", "TURNS", "CALLER")
	for _, o := range all {
		t.Row(o.Session, clock(o.Opened), o.State, o.Task, len(o.Turns), fmt.Sprintf("%s (%s)", o.Subject, o.SubjectBasis))
	}
	return t.Flush()
}

func clock(ms int64) string { return cli.Time(time.UnixMilli(ms)) }

func drawOverview(out io.Writer, o verification.Overview) error {
	fmt.Fprintf(out, "session   %s, %s\ncaller    %s (%s)\nkey       %s\ntask      %s\nopened    %s\n",
		o.Session, o.State, cli.Unbroken(o.Subject), o.SubjectBasis, o.Key, o.Task, clock(o.Opened))
	for _, c := range o.Calls {
		fmt.Fprintf(out, "%4d call  %s, %s\n", c.Step, c.Tool, toldBy(c.Turn))
	}
	for i, t := range o.Turns {
		fmt.Fprintf(out, "%4d turn  %d at %s, %s: hash %s, call %s, canary %s\n", t.Step, i+1, clock(t.At), t.Tool,
			holds(t.Chained), holds(t.Served), holds(t.Used))
	}
	if o.FollowUp != "" {
		fmt.Fprintf(out, "follow-up %s\n", o.FollowUp)
	}
	answer := "none"
	switch {
	case o.Answered.Observed:
		answer = fmt.Sprintf("step %d, observed", o.Answered.Step)
	case o.Answered.Step > 0:
		answer = fmt.Sprintf("step %d, declared", o.Answered.Step)
	}
	_, err := fmt.Fprintf(out, "answer    %s\n", answer)
	return err
}

func toldBy(turn int) string {
	if turn == 0 {
		return "no turn about it"
	}
	return fmt.Sprintf("turn %d is about it", turn)
}

func holds(seen bool) string {
	if seen {
		return "observed"
	}
	return "not seen"
}
