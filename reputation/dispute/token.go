package dispute

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
)

// What is signed here is about the past, and does not change: whoever was party to a dispute can show it for a year.
const lifetime = 400 * 24 * time.Hour

// DecisionLifetime is the longest that an arbiter's decision may be good for. It has to reach the node before the dispute is over.
const DecisionLifetime = 7 * 24 * time.Hour

var (
	// ResolutionKind is the kind of the node's tokens about resolved disputes.
	ResolutionKind = evidence.NewKind("dispute-resolution+jwt", evidence.PurposeAppraiser, lifetime, checkResolution)
	// DecisionKind is the kind of an arbiter's decisions, which its pinned key signs.
	DecisionKind = evidence.NewKind("dispute-decision+jwt", evidence.PurposeArbiter, DecisionLifetime, checkDecision)
	// RootKind is the kind of the node's tokens about its log.
	RootKind = evidence.NewKind("dispute-root+jwt", evidence.PurposeAppraiser, lifetime, checkRoot)
)

// Resolution is what the node signs about a dispute that was resolved. It names what it was computed from, so whoever has that can
// compute it again (package dispute, Trial).
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
	Status     string   `json:"status"` // always resolved
	Outcome    string   `json:"outcome"`
	Resolver   string   `json:"resolver"`
	Reason     string   `json:"reason"`
	Malicious  bool     `json:"malicious,omitempty"`
	Inputs     []string `json:"inputs,omitempty"`
	Decision   string   `json:"decision,omitempty"`
	ResolvedAt int64    `json:"resolved_at"`
	// Log is the log of the node with the entry that resolved the dispute.
	Log accrual.Log `json:"log"`

	// Probabilistic is always true, and NonHumanIdentityProven always false: receipts that do not contradict themselves prove nothing.
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
}

// ResolutionOf returns the claims for a dispute, but for those that their signer stamps. It reports false for one that is not resolved.
func ResolutionOf(d State) (c Resolution, ok bool) {
	if d.Status != StatusResolved {
		return c, false
	}
	r := d.Resolved
	return Resolution{
		DisputeID: d.DisputeID, Challenger: d.Challenger, Target: d.Target, Type: d.Type, SignalID: d.SignalID, Document: d.Document,
		OpenedAt: d.At, Status: d.Status, Outcome: r.Outcome, Resolver: r.Resolver, Reason: r.Reason, Malicious: r.Malicious, Inputs: r.Inputs,
		Decision: r.Decision, ResolvedAt: d.ResolvedAt, Log: d.Log, Probabilistic: true,
	}, true
}

func checkResolution(c *Resolution) error {
	o := Opened{
		DisputeID: c.DisputeID, Challenger: c.Challenger, Target: c.Target, Type: c.Type, Receipts: []string{c.Document}, Document: c.Document, Substance: c.Document,
		Tier: accrual.TierNew, Deadline: c.ResolvedAt,
	} // what the claims do not have is put in such that it is not refused
	r := Resolved{DisputeID: c.DisputeID, Resolver: c.Resolver, Decision: c.Decision, Finding: Finding{Outcome: c.Outcome, Reason: c.Reason, Malicious: c.Malicious, Inputs: c.Inputs}}
	err := cmp.Or(o.check(), r.check())
	switch {
	case err != nil:
		return err
	case !c.Probabilistic || c.NonHumanIdentityProven:
		return errors.New("it claims more than a likelihood, or that no human was involved")
	case c.KeyCustody == "" || len(c.KeyCustody) > 128:
		return errors.New("keyCustody is missing or too long")
	case c.SignalID != "" && !idForm.MatchString(c.SignalID):
		return errors.New("signal_id is of another form")
	case c.Status != StatusResolved || c.Challenger == c.Target || c.OpenedAt < 1 || c.ResolvedAt < c.OpenedAt:
		return errors.New("its status, parties or times do not fit together")
	case (c.Resolver == ResolverArbiter) && c.Type != TypeGeneral || c.Resolver == ResolverRules && c.Type == TypeGeneral || c.Resolver == ResolverDeadline && c.Outcome != accrual.Inconclusive:
		return errors.New("its resolver does not end disputes of this type so")
	case c.Log.Entries < 2 || !evidence.IsHash(c.Log.Head):
		return errors.New("log does not say where the log stood")
	}
	return nil
}

// Decision is what an arbiter decides about a general dispute. The arbiter's key is offline and pinned, and belongs to neither party.
type Decision struct {
	evidence.Registered

	DisputeID string `json:"dispute_id"`
	Document  string `json:"document"` // hash of what was filed, so that the arbiter decides about what it has read
	Outcome   string `json:"outcome"`
	Reason    string `json:"reason"`
	Malicious bool   `json:"malicious,omitempty"` // the challenger has lost on forged or contradictory evidence
}

func checkDecision(c *Decision) error {
	f := Finding{Outcome: c.Outcome, Reason: c.Reason, Malicious: c.Malicious}
	if err := cmp.Or(checkDisputeID(c.DisputeID), checkFields(field{"document", c.Document, hashForm}), f.check()); err != nil {
		return err
	}
	if c.DisputeID != DisputeID(c.Document) {
		return errors.New("the dispute is not that of the document")
	}
	return nil
}

// Root is what the node signs about its log: how many entries it has, its head, and the RFC 6962 tree head over them ([Book.Root]).
type Root struct {
	evidence.Registered
	evidence.KeyClaims

	Log  accrual.Log `json:"log"`
	Root string      `json:"rfc6962Root"`
}

func checkRoot(c *Root) error {
	if c.KeyCustody == "" || len(c.KeyCustody) > 128 || c.Log.Entries < 0 || !evidence.IsHash(c.Log.Head) || !evidence.IsHash(c.Root) {
		return errors.New("keyCustody, log or rfc6962Root is missing or of another form")
	}
	return nil
}
