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

// Source is a ledger, or a copy of one.
type Source interface {
	Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error]
}

// Select yields the selected records of a ledger: see [ledger.Store].
func Select(ctx context.Context, from Source, q ledger.Query) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range from.Records(ctx, q) {
			if errors.Is(err, ledger.ErrNotFound) {
				err = refusal.New("not_found", "the cursor %.80q is not the id of a kept record", q.Cursor)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// CheckQuery refuses a query that no record can match, such as one with a misspelt state: an empty list would mislead.
func CheckQuery(q ledger.Query) error {
	switch {
	case q.Limit < 0:
		return refusal.New("query_malformed", "the limit %d must not be negative", q.Limit)
	case q.State != "" && !slices.Contains(ledger.States[:], q.State):
		return refusal.New("query_malformed", "%.40q is not a state of records; the states are %s", q.State,
			JoinWords(ledger.States[:]))
	case q.Flow != "" && !slices.Contains(proxy.Flows[:], q.Flow):
		return refusal.New("query_malformed", "%.40q is not a flow of records; the flows are %s", q.Flow,
			JoinWords(proxy.Flows[:]))
	case !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until):
		return refusal.New("query_malformed", "the start of the selected time, %s, is not before its end, %s",
			q.Since.UTC().Format(time.RFC3339), q.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkFollowed refuses a query that does not only select ended calls.
func checkFollowed(q ledger.Query) error {
	f := ledger.Query{Since: q.Since, State: q.State, Session: q.Session, Flow: q.Flow}
	if q != f || q.State == ledger.StateForwarding {
		return refusal.New("query_malformed",
			"calls that are followed can be selected only by since, session, flow and a final state")
	}
	return nil
}

func selects(q ledger.Query, c ledger.Summary) bool {
	return !c.Started.Before(q.Since) && (q.State == "" || c.State == q.State) &&
		(q.Session == "" || c.Session == q.Session) && (q.Flow == "" || c.Flow == q.Flow)
}

// parameters are the parameters of a query for records, with the fields that they set.
func parameters(q *ledger.Query) map[string]any {
	return map[string]any{"since": &q.Since, "until": &q.Until, "limit": &q.Limit, "oldestFirst": &q.OldestFirst,
		"state": (*string)(&q.State), "session": &q.Session, "flow": &q.Flow, "cursor": &q.Cursor, "key": &q.Key,
		"keys": &q.Keys, "bare": &q.Bare}
}

func values(q ledger.Query) url.Values {
	v := url.Values{}
	for name, field := range parameters(&q) {
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

func parseSelection(v url.Values) (q ledger.Query, err error) {
	if err := parseQuery(v, parameters(&q)); err != nil {
		return q, err
	}
	return q, CheckQuery(q)
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
