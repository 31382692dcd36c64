package dispute

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
)

// lifetime is long because these tokens are about the past and do not change.
const lifetime = 400 * 24 * time.Hour

// DecisionLifetime bounds the time in which an arbiter's decision must reach the node.
const DecisionLifetime = 7 * 24 * time.Hour

// ClockLifetime bounds the time in which an operator's statement of the time must reach the node.
const ClockLifetime = time.Hour

var (
	// ResolutionKind is the kind of the node's tokens about resolved disputes.
	ResolutionKind = evidence.NewKind("dispute-resolution+jwt", evidence.PurposeAppraiser, lifetime, checkResolution)
	// DecisionKind is the kind of arbiters' decisions, signed with their pinned keys.
	DecisionKind = evidence.NewKind("dispute-decision+jwt", evidence.PurposeArbiter, DecisionLifetime, checkDecision)
	// ClockKind is the kind of an operator's statements of the right time, signed with its pinned key.
	ClockKind = evidence.NewKind("dispute-clock+jwt", evidence.PurposeArbiter, ClockLifetime,
		func(*Clock) error { return nil })
)

// Resolution is the node's statement about a resolved dispute. It names its evidence, so that anyone who has it can
// repeat the [Trial].
type Resolution struct {
	evidence.Registered
	evidence.KeyClaims

	DisputeID  string   `json:"dispute_id"`
	Challenger string   `json:"challenger_id"`
	Target     string   `json:"target_id"`
	Type       string   `json:"challenge_type"`
	SignalID   string   `json:"signal_id,omitempty"`
	Document   string   `json:"document"`
	OpenedAt   int64    `json:"opened_at"`
	Status     string   `json:"status"`
	Outcome    string   `json:"outcome"`
	Resolver   string   `json:"resolver"`
	Reason     string   `json:"reason"`
	Malicious  bool     `json:"malicious,omitempty"`
	Inputs     []string `json:"inputs,omitempty"`
	Decisions  []string `json:"decisions,omitempty"` // of the arbiters who agree
	ResolvedAt int64    `json:"resolved_at"`
	// AppealUntil is set if the loser could appeal until then: another resolution may follow.
	AppealUntil int64 `json:"appeal_until,omitempty"`
	// Log is the node's log including the entry that resolved the dispute: see [Book.Log].
	Log accrual.Log `json:"log"`

	// Probabilistic is always true and NonHumanIdentityProven always false: consistent receipts prove nothing.
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
}

// ResolutionOf returns the claims that the signer completes; ok is false for an unresolved dispute.
func ResolutionOf(d State) (c Resolution, ok bool) {
	if d.Status != StatusResolved {
		return c, false
	}
	r := d.Resolved
	return Resolution{
		DisputeID: d.DisputeID, Challenger: d.Challenger, Target: d.Target, Type: d.Type, SignalID: d.SignalID,
		Document: d.Document,
		OpenedAt: d.At, Status: d.Status, Outcome: r.Outcome, Resolver: r.Resolver, Reason: r.Reason, Malicious: r.Malicious,
		Inputs: r.Inputs, Decisions: r.Decisions, AppealUntil: r.AppealUntil, ResolvedAt: d.ResolvedAt, Log: d.Log,
		Probabilistic: true,
	}, true
}

func checkResolution(c *Resolution) error {
	o := Opened{ // with valid values for the members that the claims lack
		DisputeID: c.DisputeID, Challenger: c.Challenger, Target: c.Target, Type: c.Type, Receipts: []string{c.Document},
		Document: c.Document, Substance: c.Document, Registered: 1, Standing: Stake,
		Deadline: c.ResolvedAt,
	}
	r := Resolved{DisputeID: c.DisputeID, Resolver: c.Resolver, Decisions: c.Decisions, AppealUntil: c.AppealUntil, Finding: Finding{
		Outcome: c.Outcome, Reason: c.Reason, Malicious: c.Malicious, Inputs: c.Inputs,
	}}
	err := cmp.Or(o.check(), r.check())
	switch {
	case err != nil:
		return err
	case !c.Probabilistic || c.NonHumanIdentityProven:
		return errors.New("it claims certainty, or that no human was involved")
	case c.KeyCustody == "" || len(c.KeyCustody) > 128:
		return errors.New("keyCustody is missing or too long")
	case c.SignalID != "" && !idForm.MatchString(c.SignalID):
		return errors.New("signal_id has the wrong form")
	case c.Status != StatusResolved || c.Challenger == c.Target || c.OpenedAt < 1 || c.ResolvedAt < c.OpenedAt:
		return errors.New("its status, parties or times contradict each other")
	case c.Resolver == ResolverArbiter && c.Type != TypeGeneral || c.Resolver == ResolverRules && c.Type == TypeGeneral ||
		c.Resolver == ResolverDeadline && c.Outcome != accrual.Inconclusive && c.Type != TypeGeneral:
		return errors.New("its resolver cannot give such a dispute this outcome")
	case c.Log.Entries < 2 || !evidence.IsHash(c.Log.Head):
		return errors.New("log is not a state of the log")
	}
	return nil
}

// Clock is an operator's statement that it was IssuedAt when it was signed.
type Clock struct{ evidence.Registered }

// Decision is an arbiter's decision about a general dispute. The arbiter's key is offline and pinned.
type Decision struct {
	evidence.Registered

	DisputeID string `json:"dispute_id"`
	Document  string `json:"document"` // hash of the filing that the arbiter has read
	Outcome   string `json:"outcome"`
	Reason    string `json:"reason"`
	Malicious bool   `json:"malicious,omitempty"` // the challenger lost on forged or contradictory evidence
}

func checkDecision(c *Decision) error {
	f := Finding{Outcome: c.Outcome, Reason: c.Reason, Malicious: c.Malicious}
	if err := cmp.Or(checkDisputeID(c.DisputeID), checkFields(field{"document", c.Document, hashForm}), f.check()); err !=
		nil {
		return err
	}
	if c.DisputeID != DisputeID(c.Document) {
		return errors.New("the dispute does not follow from the document")
	}
	return nil
}
