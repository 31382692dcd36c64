package leaf

import (
	"encoding/json"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
)

// proofArtifact names the token in a record that the API gets with the post.
const proofArtifact = "requestProof"

// intent is the part of a record that no outcome changes.
type intent struct {
	Action       string     `json:"action,omitempty"`
	Artifacts    []artifact `json:"artifacts,omitempty"`
	BindingHash  string     `json:"bindingHash,omitempty"`
	CapabilityID string     `json:"capabilityId,omitempty"`
	ContentHash  string     `json:"contentHash,omitempty"`
	Event        string     `json:"event,omitempty"`
	Flow         string     `json:"flow"`
	Host         string     `json:"host,omitempty"`
	ID           string     `json:"id"`
	Method       string     `json:"method,omitempty"`
	Path         string     `json:"path,omitempty"`
	Resource     string     `json:"resource,omitempty"`
	Rule         string     `json:"rule,omitempty"`
	Session      string     `json:"session,omitempty"`
	Started      time.Time  `json:"started"`
	Subject      string     `json:"subject,omitempty"`
}

// artifact is the SHA-256 of a whole token, which costs less than to write the token once more.
type artifact struct {
	Hash string `json:"hash"`
	Name string `json:"name"`
}

// OfIntent makes the entry of a post that is about to go out.
func OfIntent(r ledger.Record, now time.Time) (Opening, error) {
	d := Document{Post: r.ID, Session: r.Session}
	artifacts := make([]artifact, len(r.Artifacts))
	var token []byte
	for i, a := range r.Artifacts {
		token = append(token[:0], a.Token...)
		artifacts[i] = artifact{hash(token), a.Name}
		if a.Name == proofArtifact {
			d.RequestProof = artifacts[i].Hash
		}
	}
	canonical, err := strictjson.CanonicalOf(intent{Action: r.Action, Artifacts: artifacts, BindingHash: r.BindingHash,
		CapabilityID: r.CapabilityID, ContentHash: r.ContentHash, Event: r.Event, Flow: r.Flow, Host: r.Host, ID: r.ID,
		Method: r.Method, Path: r.Path, Resource: r.Resource, Rule: r.Rule, Session: r.Session, Started: r.Started,
		Subject: r.Subject})
	if err != nil {
		return Opening{}, err
	}
	d.Record = hash(canonical)
	return New(Intent, now, d), nil
}

// OfOutcome makes the entry of a post's outcome. text is the record without its artifacts as JSON, as the ledger keeps
// it.
func OfOutcome(r ledger.Record, text string, now time.Time) (Opening, error) {
	canonical, err := strictjson.Canonical([]byte(text))
	if err != nil {
		return Opening{}, err
	}
	return New(Outcome, now, Document{Post: r.ID, Session: r.Session, State: string(r.State), Code: r.Code,
		Status: r.Status, Record: hash(canonical)}), nil
}

// CheckRecord refuses a record other than the one that was logged. Record of an intent's document is the SHA-256 of the
// canonical JSON of the members that no outcome changes (type intent), and of an outcome's document, that of all
// members but the artifacts.
func (o Opening) CheckRecord(r ledger.Record) error {
	var want Opening
	var err error
	switch o.Entry.Kind {
	case Intent:
		want, err = OfIntent(r, time.Time{})
	case Outcome:
		r.Artifacts, r.Keys = nil, nil
		var text []byte
		if text, err = json.Marshal(r); err == nil {
			want, err = OfOutcome(r, string(text), time.Time{})
		}
	default:
		return malformed("a log's entry of the kind %s is of no record", o.Entry.Kind)
	}
	if err != nil {
		return err
	}
	if want.Document != o.Document {
		return refusal.New("record_mismatch", "the record of %s does not match the %s in the log", r.ID, o.Entry.Kind)
	}
	return nil
}
