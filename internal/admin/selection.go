package admin

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
)

// Selection is an operator's selection of records. Empty fields select all.
type Selection struct{ ledger.Query }

// Source is a ledger, or a copy of one.
type Source interface {
	Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error]
}

// Records yields the selected records of a ledger: see [ledger.Store].
func (s Selection) Records(ctx context.Context, from Source) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range from.Records(ctx, s.Query) {
			if errors.Is(err, ledger.ErrNotFound) {
				err = refusal.New("not_found", "the cursor %.80q is not the id of a kept record", s.Cursor)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Check refuses a selection that no record can match, such as one with a misspelt state: an empty list would mislead.
func (s Selection) Check() error {
	switch {
	case s.Limit < 0:
		return refusal.New("query_malformed", "the limit %d must not be negative", s.Limit)
	case s.State != "" && !slices.Contains(ledger.States[:], s.State):
		return refusal.New("query_malformed", "%.40q is not a state of records; the states are %s", s.State,
			JoinWords(ledger.States[:]))
	case s.Flow != "" && !slices.Contains(proxy.Flows[:], s.Flow):
		return refusal.New("query_malformed", "%.40q is not a flow of records; the flows are %s", s.Flow,
			JoinWords(proxy.Flows[:]))
	case !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until):
		return refusal.New("query_malformed", "the start of the selected time, %s, is not before its end, %s",
			s.Since.UTC().Format(time.RFC3339), s.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// Followed returns the part of a selection that selects ended calls. It refuses one with more than that.
func (s Selection) Followed() (Selection, error) {
	f := Selection{ledger.Query{Since: s.Since, State: s.State, Session: s.Session, Flow: s.Flow}}
	if s != f || s.State == ledger.StateForwarding {
		return f, refusal.New("query_malformed",
			"calls that are followed can be selected only by since, session, flow and a final state")
	}
	return f, nil
}

func (s Selection) selects(c ledger.Summary) bool {
	return !c.Started.Before(s.Since) && (s.State == "" || c.State == s.State) &&
		(s.Session == "" || c.Session == s.Session) && (s.Flow == "" || c.Flow == s.Flow)
}

// parameters are the parameters of a query for records, with the fields that they set.
func (s *Selection) parameters() map[string]any {
	return map[string]any{"since": &s.Since, "until": &s.Until, "limit": &s.Limit, "oldestFirst": &s.OldestFirst,
		"state": (*string)(&s.State), "session": &s.Session, "flow": &s.Flow, "cursor": &s.Cursor, "key": &s.Key,
		"keys": &s.Keys, "bare": &s.Bare}
}

func (s Selection) values() url.Values {
	v := url.Values{}
	for name, field := range s.parameters() {
		text := ""
		switch is := field.(type) {
		case *string:
			text = *is
		case *time.Time:
			if !is.IsZero() {
				text = is.UTC().Format(time.RFC3339Nano)
			}
		case *int:
			if *is > 0 {
				text = strconv.Itoa(*is)
			}
		case *bool:
			if *is {
				text = "true"
			}
		}
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// parseSelection reads a selection from a query.
func parseSelection(v url.Values) (s Selection, err error) {
	if err := parseQuery(v, s.parameters()); err != nil {
		return s, err
	}
	return s, s.Check()
}

// parseQuery reads a query into the fields of its parameters. It refuses unknown names: ignoring them would answer
// another question.
func parseQuery(v url.Values, parameters map[string]any) (err error) {
	for name := range v {
		text := v.Get(name)
		switch is := parameters[name].(type) {
		case *string:
			*is = text
		case *time.Time:
			*is, err = time.Parse(time.RFC3339, text)
		case *int:
			if *is, err = strconv.Atoi(text); *is < 1 && err == nil {
				err = strconv.ErrRange
			}
		case *bool:
			*is, err = strconv.ParseBool(text)
		default:
			return refusal.New("query_malformed", "%.40q is not a parameter of this query", name)
		}
		if err != nil {
			return refusal.New("query_malformed", "%s=%.40q cannot be read", name, text)
		}
	}
	return nil
}

// ParseTime reads a time of RFC 3339, a date (its midnight in UTC), or how long before now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, found := strings.CutSuffix(text, "d"); found {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		ago = time.Duration(n) * 24 * time.Hour //nolint:gosec // n has 16 bits
	}
	if err != nil || ago < 0 {
		return time.Time{}, refusal.New("query_malformed",
			"%.40q is not a time: write 2026-01-31T15:04:05Z, 2026-01-31, or an age such as 24h", text)
	}
	return now.Add(-ago), nil
}

// JoinWords joins words with commas.
func JoinWords[S ~string](words []S) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
