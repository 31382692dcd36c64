package accrual_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

var another = accrual.Agent{Owner: strings.Repeat("p", 43), Subject: "agent:worker-2"}.String()

func TestNotes(t *testing.T) {
	for _, text := range []string{
		`{"at":9,"signal":{"context":true,"schema":true,"signal_id":"s","sources":false,"timestamp":true,"trace":true,` +
			`"verification":false}}`,
		`{"at":9,"cited":{"by":"` + another + `","signal_id":"s"}}`, `{"at":9,"violation":{"rule":"identical"}}`,
	} {
		e, err := accrual.ParseEntry([]byte(text))
		check.Must(t, err)
		raw, err := e.Encode()
		check.Must(t, err)
		check.WantEqual(t, string(raw), text)

		a := newScript().sessions(3, 40).replay(t)
		before := a.Reputation()
		for range 2 { // the same again is another one
			added, err := a.Add(e)
			if err != nil || !added {
				t.Errorf("%s is not added: %v", text, err)
			}
		}
		after := a.Reputation()
		if after.Log.Entries != before.Log.Entries+2 || after.Log.Head == before.Log.Head {
			t.Errorf("%s: the log stands at %+v, before at %+v", text, after.Log, before.Log)
		}
		if after.Log = before.Log; !reflect.DeepEqual(after, before) {
			t.Errorf("%s changes the reputation to %+v", text, after)
		}
	}
}

func TestPartiesOfDisputes(t *testing.T) {
	for _, text := range []string{
		`{"at":9,"dispute":{"about":"s","dispute_id":"d","other":"` + another + `","outcome":"target_wins"}}`,
		`{"at":9,"raised":{"about":"s","dispute_id":"d","other":"` + another + `","outcome":"target_wins"}}`,
	} {
		e, err := accrual.ParseEntry([]byte(text))
		check.Must(t, err)
		raw, err := e.Encode()
		check.Must(t, err)
		check.WantEqual(t, string(raw), text)
	}
}

func TestNotesThatNoLogHas(t *testing.T) {
	long := strings.Repeat("x", 129)
	ended := accrual.Dispute{ID: "d", Outcome: accrual.TargetWins, Other: another, About: "s"}
	dispute := func(edit func(*accrual.Dispute)) accrual.Entry {
		d := ended
		edit(&d)
		return accrual.Entry{At: 1, Dispute: &d}
	}
	for name, e := range map[string]accrual.Entry{
		"a signal without id":       {At: 1, Signal: &accrual.Signal{}},
		"a signal with a long id":   {At: 1, Signal: &accrual.Signal{ID: long}},
		"cited by nobody":           {At: 1, Cited: &accrual.Cited{SignalID: "s"}},
		"cited by no agent":         {At: 1, Cited: &accrual.Cited{By: "x", SignalID: "s"}},
		"cited by no signal":        {At: 1, Cited: &accrual.Cited{By: another}},
		"cited by a long signal":    {At: 1, Cited: &accrual.Cited{By: another, SignalID: long}},
		"a violation of nothing":    {At: 1, Violation: &accrual.Violation{}},
		"a violation of a long one": {At: 1, Violation: &accrual.Violation{Rule: long}},
		"two things": {At: 1, Signal: &accrual.Signal{ID: "s"},
			Violation: &accrual.Violation{Rule: "identical"}},
		"no other agent":       dispute(func(d *accrual.Dispute) { d.Other = "" }),
		"about nothing":        dispute(func(d *accrual.Dispute) { d.About = "" }),
		"about something long": dispute(func(d *accrual.Dispute) { d.About = long }),
		"with no agent":        dispute(func(d *accrual.Dispute) { d.Other = "x" }),
		"an open one":          dispute(func(d *accrual.Dispute) { d.Outcome = "" }),
		"raised against no agent": {At: 1,
			Raised: &accrual.Raised{ID: "d", Outcome: accrual.TargetWins, Other: "x", About: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if raw, err := e.Encode(); err == nil {
				t.Errorf("it is written as %s", raw)
			}
		})
	}
}
