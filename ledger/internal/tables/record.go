package tables

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Encode returns a record as two JSON texts: the artifacts, which never change, and the rest, which the outcome
// replaces. Without artifacts the former is empty.
func Encode(r ledger.Record) (record, artifacts string, err error) {
	if r.ID == "" || r.Started.IsZero() {
		err = errors.New("it lacks its id or start")
	}
	if err == nil && len(r.Artifacts) > 0 {
		artifacts, err = text(r.Artifacts)
		r.Artifacts = nil
	}
	if err == nil {
		record, err = text(r)
	}
	if err != nil {
		return "", "", ledger.Unavailable("write the record", err)
	}
	return record, artifacts, nil
}

// text returns JSON that is no longer than it must be: in a path, & would else take six bytes.
func text(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// Outcome returns the record of a post that has ended, without its artifacts.
func Outcome(r ledger.Record) (record string, err error) {
	if !r.State.Outcome() {
		return "", ledger.ErrState
	}
	r.Artifacts = nil
	if record, err = text(r); err != nil {
		return "", ledger.Unavailable("write the record", err)
	}
	return record, nil
}

func decode(record, artifacts []byte) (r ledger.Record, err error) {
	if err = json.Unmarshal(record, &r); err == nil && len(artifacts) > 0 {
		err = json.Unmarshal(artifacts, &r.Artifacts)
	}
	if err != nil {
		err = ledger.Unavailable("read", err)
	}
	return r, err
}

// Lost returns the outcome of a post in flight whose process has ended.
func Lost(r ledger.Record, now time.Time) ledger.Record {
	r.State, r.Code, r.Step = ledger.StateIndeterminate, "indeterminate", "forward"
	r.Reason = "the mediator ended while the post was in flight; it may have been sent, and is not sent again"
	r.Finished = now
	return r
}
