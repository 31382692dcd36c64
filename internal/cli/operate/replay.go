package operate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/rulesfile"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
)

// replayed is a call that rules decide differently.
type replayed struct {
	ID     string `json:"id"`
	Call   string `json:"call"`
	Calls  int    `json:"calls"` // of this form
	Before string `json:"before"`
	After  string `json:"after"`
}

func decision(rules *rules.Rules, r ledger.Record) (says string, judged bool) {
	v, err := rules.Judge(r)
	switch code := refusal.CodeOf(err); {
	case err != nil:
		return code, code != ""
	case v.Post:
		return "action " + v.Rule, true
	}
	return "egress rule " + v.Rule, true
}

const maxReplayed = 10_000

// replay lists the recorded calls that other rules decide differently from those of the configuration raw.
func (l *learning) replay(c *cobra.Command, raw []byte, before *rules.Rules) error {
	text, err := files.ReadUpTo(l.replayed, files.MaxInput)
	if err != nil {
		return err
	}
	if !isWhole(text) {
		if text, err = rulesfile.Merge(raw, text); err != nil {
			return err
		}
	}
	_, after, err := l.check(text)
	if err != nil {
		return err
	}
	changed, at := []replayed{}, make(map[replayed]int)
	judged, unjudged := 0, 0
	err = l.read(c, func(r ledger.Record) error {
		was, known := decision(before, r)
		is, alsoKnown := decision(after, r)
		if !known || !alsoKnown {
			unjudged++
			return nil
		}
		judged++
		if was == is {
			return nil
		}
		form := replayed{
			Call:   strings.TrimSpace(fmt.Sprintf("%s %s://%s%s %s", r.Method, r.Scheme, r.Host, r.Path, r.Message)),
			Before: was, After: is}
		i, found := at[form]
		switch {
		case found:
			changed[i].Calls++
		case len(changed) < maxReplayed:
			at[form] = len(changed)
			one := form
			one.ID, one.Calls = r.ID, 1
			changed = append(changed, one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "mediator: %s judged, and %d whose record does not say enough\n",
		count(judged, "call"), unjudged)
	return cli.PrintText(c, changed, func(w io.Writer) error {
		if len(changed) == 0 {
			_, err := fmt.Fprintln(w, "the rules decide every call as before")
			return err
		}
		table := cli.Table(w, "CALLS", "BEFORE", "AFTER", "CALL")
		for _, r := range changed {
			table.Row(r.Calls, r.Before, r.After, fmt.Sprintf("%.200s", r.Call))
		}
		return table.Flush()
	})
}

// isWhole reports whether a text is a whole configuration, and not rules alone.
func isWhole(text []byte) bool {
	var keys map[string]any
	if yaml.Load(text, &keys) != nil {
		return false // the merge says why
	}
	for key := range keys {
		if !slices.Contains(rulesfile.Lists, key) {
			return true
		}
	}
	return false
}
