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

// Resolution is the node's statement about a resolved dispute. It names its evidence, to repeat the [Trial].
type Resolution struct {
	evidence.Registered
	evidence.KeyClaims

	DisputeID  string   `json:"dispute_id" form:"dispute"`
	Challenger string   `json:"challenger_id" form:"agent"`
	Target     string   `json:"target_id" form:"agent"`
	Type       string   `json:"challenge_type" form:"timing|knowledge|consistency|general"`
	SignalID   string   `json:"signal_id,omitempty" form:"id"`
	Document   string   `json:"document" form:"hash"`
	OpenedAt   int64    `json:"opened_at" form:"time"`
	Status     string   `json:"status" form:"resolved"`
	Outcome    string   `json:"outcome" form:"challenger_wins|target_wins|inconclusive"`
	Resolver   string   `json:"resolver" form:"automated|arbiter|deadline"`
	Reason     string   `json:"reason" form:"text:512"`
	Malicious  bool     `json:"malicious,omitempty"`
	Inputs     []string `json:"inputs,omitempty" form:"hash most:48 sorted"`
	Decisions  []string `json:"decisions,omitempty" form:"hash most:15 sorted"` // of the arbiters who agree
	ResolvedAt int64    `json:"resolved_at" form:"time"`
	// AppealUntil is set if the loser could appeal until then: another resolution may follow.
	AppealUntil int64 `json:"appeal_until,omitempty" form:"time"`
	// Log is the node's log including the entry that resolved the dispute: see [Book.Log].
	Log accrual.Log `json:"log"`

	// Probabilistic is always true and NonHumanIdentityProven always false: consistent receipts prove nothing.
	Probabilistic          bool `json:"probabilistic" form:"true"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven" form:"false"`
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
	r := Resolved{Resolver: c.Resolver, Decisions: c.Decisions, AppealUntil: c.AppealUntil, Finding: Finding{
		Outcome: c.Outcome, Malicious: c.Malicious,
	}}
	if err := cmp.Or(accrual.CheckForm(c), r.Check()); err != nil {
		return err
	}
	switch {
	case c.DisputeID != DisputeID(c.Document):
		return errors.New("the id of the dispute does not follow from its document")
	case c.KeyCustody == "" || len(c.KeyCustody) > 128:
		return errors.New("keyCustody is missing or too long")
	case c.Challenger == c.Target || c.ResolvedAt < c.OpenedAt:
		return errors.New("its parties or times contradict each other")
	case c.Resolver == ResolverArbiter && c.Type != TypeGeneral || c.Resolver == ResolverRules && c.Type == TypeGeneral ||
		c.Resolver == ResolverDeadline && c.Outcome != accrual.Inconclusive && c.Type != TypeGeneral:
		return errors.New("its resolver cannot give such a dispute this outcome")
	case c.Log.Entries < 2:
		return errors.New("log is not a state of the log")
	}
	return nil
}

// Clock is an operator's statement that it was IssuedAt when it was signed.
type Clock struct{ evidence.Registered }

// Decision is an arbiter's decision about a general dispute. The arbiter's key is offline and pinned.
type Decision struct {
	evidence.Registered

	DisputeID string `json:"dispute_id" form:"dispute"`
	Document  string `json:"document" form:"hash"` // of the filing that the arbiter has read
	Outcome   string `json:"outcome" form:"challenger_wins|target_wins|inconclusive"`
	Reason    string `json:"reason" form:"text:512"`
	Malicious bool   `json:"malicious,omitempty"` // the challenger lost on forged or contradictory evidence
}

func checkDecision(c *Decision) error {
	if err := cmp.Or(accrual.CheckForm(c), checkMalicious(c.Outcome, c.Malicious)); err != nil {
		return err
	}
	if c.DisputeID != DisputeID(c.Document) {
		return errors.New("the dispute does not follow from the document")
	}
	return nil
}
