package records

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
)

const maxTimeline = 40

// PrintTimeline prints the agent's actions up to a call, from the unverified receipts of its session.
func PrintTimeline(w io.Writer, p admin.Record) {
	if len(p.Receipts) == 0 && p.Interactions == nil {
		return
	}
	head := fmt.Sprintf("%d receipts", len(p.Receipts))
	if at := p.Interactions; at != nil {
		head += fmt.Sprintf("; the post names number %d", at.Number)
		if len(at.Open) > 0 {
			head += ", with calls open: " + strings.Join(at.Open, " ")
		}
	}
	fmt.Fprintf(w, "  %-12s %s\n", "timeline", head)
	shown := p.Receipts
	if hidden := len(shown) - maxTimeline; hidden > 0 {
		shown = shown[hidden:]
		fmt.Fprintf(w, "    %d earlier ones are left out; --json has them\n", hidden)
	}
	for _, m := range Timeline(shown) {
		switch {
		case m.Unread != "":
			fmt.Fprintf(w, "    a receipt cannot be read: %s\n", m.Unread)
		case m.Number == 0:
			fmt.Fprintf(w, "    %15s   %-6s %s\n", "", m.Kind, m.Text)
		default:
			fmt.Fprintf(w, "    %+9.3f s %4d   %-6s %s\n", m.After.Seconds(), m.Number, m.Kind, m.Text)
		}
	}
}

// Moment is one action of an agent, as an unverified receipt tells it.
type Moment struct {
	Kind   string // model, tool, post or end
	Text   string
	Number int64         // of the receipt; 0 for a tool that the agent called before the receipt's model call
	After  time.Duration // since the first receipt
	Unread string        // why the receipt cannot be read; all else is empty then
}

// Timeline returns the actions that receipts tell of.
func Timeline(receipts []string) (all []Moment) {
	began := int64(0)
	for _, token := range receipts {
		r, err := evidence.UnverifiedClaims(interaction.Kind, token)
		if err != nil {
			all = append(all, Moment{Unread: err.Error()})
			continue
		}
		if began == 0 {
			began = r.Timing.RequestReceived
		}
		for _, t := range r.Relayed {
			all = append(all, Moment{Kind: "tool", Text: t.Tool + " at " + t.Host})
		}
		if more := r.RelayedCount - int64(len(r.Relayed)); more > 0 {
			all = append(all, Moment{Kind: "tool", Text: fmt.Sprintf("and %d calls before these", more)})
		}
		kind, text := described(r)
		all = append(all, Moment{Kind: kind, Text: text, Number: r.Chain.SequenceNumber,
			After: time.Duration(r.Timing.RequestReceived-began) * time.Millisecond})
	}
	return all
}

func described(r interaction.Receipt) (kind, text string) {
	switch {
	case r.Post != nil:
		return "post", strings.TrimSpace(fmt.Sprintf("%s %s%s", r.Outcome, r.RequestID, answered(r.Post.Status)))
	case r.Closing != nil:
		return "end", "of the session: " + r.Closing.Reason
	case r.Model == nil:
		return "", r.Outcome + " " + r.RequestID
	}
	m, f := r.Model, r.Model.Figures
	said := []string{fmt.Sprintf("%s %s at %s%s", r.Outcome, m.Model, m.Host, answered(m.Status))}
	for _, of := range []struct {
		name   string
		figure interaction.Figure
	}{{"tokens in", f.InputTokens}, {"out", f.OutputTokens}, {"ms", f.Duration}, {"words new", f.NewInputWords}} {
		switch of.figure.State {
		case interaction.StateNotMeasured:
		case interaction.StateObserved:
			said = append(said, fmt.Sprintf("%s %d", of.name, of.figure.Value))
		default:
			said = append(said, fmt.Sprintf("%s %d %s", of.name, of.figure.Value, of.figure.State))
		}
	}
	var tools []string
	for _, t := range m.ToolCalls {
		if t.Tool == "" {
			t.Tool = "(a tool that is not named)" // it was not offered, or its name is too long
		}
		tools = append(tools, t.Tool)
	}
	if len(tools) > 0 {
		said = append(said, "asks for "+strings.Join(tools, " "))
	}
	if len(m.ReturnedCalls) > 0 {
		said = append(said, fmt.Sprintf("brings %d results", len(m.ReturnedCalls)))
	}
	return "model", strings.Join(said, ", ")
}

func answered(status int64) string {
	if status == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", status)
}
