package accrual_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

const entry = `{"at":1,"session":{"coverage":0.5,"event_id":"e","hosts":["a:443"],"interactions":2,` +
	`"score":70.25,"scoringHash":"` +
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + `","session_id":"s"}}`

func TestEntriesHaveOneSpelling(t *testing.T) {
	for _, text := range []string{entry, `{"at":1,"dispute":{"dispute_id":"d"}}`,
		`{"at":1,"dispute":{"dispute_id":"d","outcome":"inconclusive"}}`} {
		e, err := accrual.ParseEntry([]byte(text))
		check.Must(t, err)
		raw, err := e.Encode()
		check.Must(t, err)
		check.WantEqual(t, string(raw), text)
	}
	for name, text := range map[string]string{
		"nothing": "", "no object": "[]", "a space": " " + entry, "another order": `{"dispute":{"dispute_id":"d"},` +
			`"at":1}`,
		"an unknown member": `{"at":1,"dispute":{"dispute_id":"d"},"x":1}`,
		"a member twice":    `{"at":1,"at":1,"dispute":{"dispute_id":"d"}}`,
		"another number":    `{"at":1.0,"dispute":{"dispute_id":"d"}}`,
		"an empty outcome":  `{"at":1,"dispute":{"dispute_id":"d","outcome":""}}`,
		"no hosts":          strings.Replace(entry, `["a:443"]`, "null", 1), "too long": strings.Repeat(" ", 70_000) + entry,
	} {
		t.Run(name, func(t *testing.T) {
			if e, err := accrual.ParseEntry([]byte(text)); err == nil {
				t.Errorf("it is taken as %+v", e)
			}
		})
	}
}

func TestEntriesThatNoLogHas(t *testing.T) {
	for name, edit := range map[string]func(*accrual.Entry){
		"no time":                func(e *accrual.Entry) { e.At = 0 },
		"a time before all":      func(e *accrual.Entry) { e.At = -1 },
		"a time beyond a double": func(e *accrual.Entry) { e.At = 1 << 53 },
		"about nothing":          func(e *accrual.Entry) { e.Session = nil },
		"about two":              func(e *accrual.Entry) { e.Dispute = &accrual.Dispute{ID: "d"} },
		"a dispute without id":   func(e *accrual.Entry) { e.Session, e.Dispute = nil, &accrual.Dispute{} },
		"a long dispute": func(e *accrual.Entry) {
			e.Session, e.Dispute = nil, &accrual.Dispute{ID: strings.Repeat("d", 129)}
		},
		"another outcome": func(e *accrual.Entry) {
			e.Session, e.Dispute = nil, &accrual.Dispute{ID: "d", Outcome: "draw"}
		},
		"no session id":          func(e *accrual.Entry) { e.Session.ID = "" },
		"a long session id":      func(e *accrual.Entry) { e.Session.ID = strings.Repeat("s", 129) },
		"no event":               func(e *accrual.Entry) { e.Session.EventID = "" },
		"a long event":           func(e *accrual.Entry) { e.Session.EventID = strings.Repeat("e", 257) },
		"a score below 0":        func(e *accrual.Entry) { e.Session.Score = -0.1 },
		"a score above 100":      func(e *accrual.Entry) { e.Session.Score = 100.1 },
		"no score":               func(e *accrual.Entry) { e.Session.Score = math.NaN() },
		"a score of -0":          func(e *accrual.Entry) { e.Session.Score = math.Copysign(0, -1) },
		"a coverage above 1":     func(e *accrual.Entry) { e.Session.Coverage = 1.1 },
		"a coverage below 0":     func(e *accrual.Entry) { e.Session.Coverage = -1 },
		"no formulas":            func(e *accrual.Entry) { e.Session.ScoringHash = "" },
		"calls below 0":          func(e *accrual.Entry) { e.Session.Interactions = -1 },
		"calls beyond a double":  func(e *accrual.Entry) { e.Session.Interactions = 1 << 53 },
		"calls to no host":       func(e *accrual.Entry) { e.Session.Hosts = []string{} },
		"a score of many digits": func(e *accrual.Entry) { e.Session.Score = 50.0000001 },
		"a host twice":           func(e *accrual.Entry) { e.Session.Hosts = []string{"a", "a"} },
		"hosts in disorder":      func(e *accrual.Entry) { e.Session.Hosts = []string{"b", "a"} },
		"a host without name":    func(e *accrual.Entry) { e.Session.Hosts = []string{""} },
		"a long host":            func(e *accrual.Entry) { e.Session.Hosts = []string{strings.Repeat("h", 129)} },
		"many hosts": func(e *accrual.Entry) {
			e.Session.Hosts = nil
			for i := range 33 {
				e.Session.Hosts = append(e.Session.Hosts, fmt.Sprintf("h%03d", i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(1, 50)
			e := accrual.Entry{At: 1, Session: &s}
			edit(&e)
			if _, err := e.Encode(); err == nil {
				t.Error("it is written")
			}
			if _, err := accrual.Replay(agent, []accrual.Entry{e}, scoring); err == nil {
				t.Error("it is in a log")
			}
		})
	}
}

// FuzzParseEntry: a parsed entry is encoded as it was, and a log accepts it.
func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(entry))
	f.Add([]byte(`{"at":1,"dispute":{"dispute_id":"d","outcome":"target_wins"}}`))
	f.Add([]byte(`{"at":1,"raised":{"bonus":true,"dispute_id":"d","outcome":"challenger_wins"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := accrual.ParseEntry(raw)
		if err != nil {
			return
		}
		if again, err := e.Encode(); err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%q is written as %q, %v", raw, again, err)
		}
		a, err := accrual.Replay(agent, []accrual.Entry{e}, scoring)
		check.Must(t, err)
		a.Reputation()
	})
}
