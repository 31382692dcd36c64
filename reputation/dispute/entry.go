package dispute

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Entry is one entry of the log of a node. Exactly one member but At is there. Texts of agents are not in it: their documents are named by their
// hashes.
type Entry struct {
	At        int64      `json:"at"` // Unix seconds, by the clock of the node
	Signal    *Published `json:"signal,omitempty"`
	Final     *Final     `json:"final,omitempty"`
	Opened    *Opened    `json:"opened,omitempty"`
	Reviewing *Reviewing `json:"reviewing,omitempty"`
	Resolved  *Resolved  `json:"resolved,omitempty"`
	Violation *Violation `json:"violation,omitempty"`
}

// Published is a signal that was published, and what the node has found of it then.
type Published struct {
	SignalID string   `json:"signal_id"`
	Agent    string   `json:"agent_id"`
	Document string   `json:"document"` // hash of the signal: see [Document]
	Horizon  string   `json:"horizon"`
	Written  int64    `json:"written"` // the time that the signal says; Unix seconds
	Closes   int64    `json:"closes"`  // from then on it can be disputed no more; Unix seconds
	Basis    string   `json:"basis"`
	Receipts []string `json:"receipts,omitempty"` // that it rests on
	// Sources says that one of the receipts is of an answered call to a model at a host that the node believes.
	Sources bool `json:"sources,omitempty"`
	// Cites are the other agents whose receipts it rests on, in ascending order.
	Cites []string `json:"cites,omitempty"`
	// Verified says that the agent had passed a verification.
	Verified bool `json:"verified,omitempty"`
}

// How it is known what a signal rests on.
const (
	BasisObserved = "observed" // receipts of the same agent, which the node holds
	BasisDeclared = "declared" // everything else
)

// Final says that the window of a signal has closed.
type Final struct {
	SignalID string `json:"signal_id"`
}

// Opened is a dispute that was opened.
type Opened struct {
	DisputeID  string   `json:"dispute_id"` // [DisputeID] of the document
	Challenger string   `json:"challenger_id"`
	Target     string   `json:"target_id"`
	Type       string   `json:"challenge_type"`
	SignalID   string   `json:"signal_id,omitempty"`    // of a contract
	ContractID string   `json:"challenge_id,omitempty"` // of a contract
	Receipts   []string `json:"target_receipts,omitempty"`
	Document   string   `json:"document"`  // hash of what was filed
	Substance  string   `json:"substance"` // hash of what it says: two disputes with the same are one again
	Tier       string   `json:"tier"`      // the challenger's, when it was opened
	Deadline   int64    `json:"deadline"`  // from then on only "inconclusive" can end it; Unix seconds
}

// Reviewing says that somebody looks at a dispute.
type Reviewing struct {
	DisputeID string `json:"dispute_id"`
}

// Resolved is the end of a dispute.
type Resolved struct {
	DisputeID string `json:"dispute_id"`
	Finding
	Resolver string `json:"resolver"`
	// Decision is the hash of the arbiter's token.
	Decision string `json:"decision,omitempty"`
}

// Finding is how a dispute ends, and why.
type Finding struct {
	Outcome string `json:"outcome"` // of package accrual
	Reason  string `json:"reason"`  // one of the constants, or the arbiter's words
	// Malicious says that the challenger has lost on evidence that is forged, or that contradicts itself.
	Malicious bool `json:"malicious,omitempty"`
	// Fault names the part of a session that lets the challenger win, by the first of its receipts: see [NewTrial].
	Fault string `json:"fault,omitempty"`
	// Inputs are the hashes of what it was computed from, in ascending order.
	Inputs []string `json:"inputs,omitempty"`
}

// Who resolves disputes (seed: resolver).
const (
	ResolverRules    = "automated" // the rules of the type
	ResolverArbiter  = "arbiter"   // the holder of the offline key
	ResolverDeadline = "deadline"  // nobody has in time
)

// Violation is a breach of a rule by an agent that has signed it.
type Violation struct {
	Agent    string `json:"agent_id"`
	Rule     string `json:"rule"`
	Document string `json:"document"` // hash of what was filed
}

// The rules of which a breach is a violation (seed: Anti-Spam Rules).
const (
	RuleWindow    = "window"    // a signal that cannot be disputed any more
	RuleIdentical = "identical" // the same dispute again
	RuleRate      = "rate"      // more disputes than the agent may open
	RuleMalicious = "malicious" // see [Finding.Malicious]; it has no entry of its own
)

// Statuses of a dispute (seed: status).
const (
	StatusPending   = "pending"
	StatusReviewing = "reviewing"
	StatusResolved  = "resolved"
)

const maxEntry = 64 << 10 // bytes of an entry as text

// DisputeID returns the id of the dispute that a document opens. It does not depend on what else the log has.
func DisputeID(document string) string { return "dsp_" + document[:min(32, len(document))] }

// ParseEntry reads the canonical JSON of one entry, which [Entry.Encode] writes, and refuses any other spelling.
func ParseEntry(raw []byte) (Entry, error) {
	var e Entry
	err := strictjson.ParseCanonical(raw, &e, maxEntry)
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return Entry{}, fmt.Errorf("dispute: an entry is malformed: %w", err)
	}
	return e, nil
}

// Encode returns the entry as RFC 8785 canonical JSON. It refuses an entry that no log may have, or that [ParseEntry] would not read: a log with
// one could never be read again.
func (e Entry) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("dispute: an entry is not sound: %w", err)
	}
	text, err := strictjson.CanonicalOf(e)
	if err == nil && len(text) > maxEntry {
		err = fmt.Errorf("dispute: an entry has %d bytes; at most %d are written", len(text), maxEntry)
	}
	return text, err
}

func (e Entry) check() error {
	if e.At < 1 || e.At > maxWhole {
		return errors.New("it has no time")
	}
	var of []interface{ check() error }
	if e.Signal != nil {
		of = append(of, e.Signal)
	}
	if e.Final != nil {
		of = append(of, e.Final)
	}
	if e.Opened != nil {
		of = append(of, e.Opened)
	}
	if e.Reviewing != nil {
		of = append(of, e.Reviewing)
	}
	if e.Resolved != nil {
		of = append(of, e.Resolved)
	}
	if e.Violation != nil {
		of = append(of, e.Violation)
	}
	if len(of) != 1 {
		return fmt.Errorf("it is about %d things, and not about one", len(of))
	}
	return of[0].check()
}

func (p *Published) check() error {
	if !slices.IsSorted(p.Cites) || len(slices.Compact(slices.Clone(p.Cites))) != len(p.Cites) || len(p.Cites) > len(p.Receipts) {
		return errors.New("the agents that the signal cites are not in ascending order, or more than its receipts")
	}
	if len(p.Receipts) == 0 && (p.Basis == BasisObserved || p.Sources) {
		return errors.New("a signal that rests on no receipts is observed")
	}
	for _, id := range p.Cites {
		if err := checkAgent("cites", id); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkFields(field{"signal_id", p.SignalID, idForm}, field{"document", p.Document, hashForm}), checkAgent("agent_id", p.Agent),
		oneOf("horizon", p.Horizon, HorizonShort, HorizonLong), oneOf("basis", p.Basis, BasisObserved, BasisDeclared), checkTime(p.Closes), checkTime(p.Written),
		checkReceipts("receipts", p.Receipts),
	)
}

func (f *Final) check() error { return checkFields(field{"signal_id", f.SignalID, idForm}) }

func (o *Opened) check() error {
	fields := []field{{"document", o.Document, hashForm}, {"substance", o.Substance, hashForm}}
	switch {
	case o.DisputeID != DisputeID(o.Document):
		return errors.New("the id of the dispute is not that of its document")
	case (o.SignalID == "") != (o.ContractID == ""):
		return errors.New("a dispute has a signal without a contract, or a contract without a signal")
	case o.SignalID != "":
		fields = append(fields, field{"signal_id", o.SignalID, idForm}, field{"challenge_id", o.ContractID, idForm})
	}
	if o.Type != TypeGeneral && len(o.Receipts) == 0 {
		return errors.New("no receipts could decide the dispute")
	}
	if accrual.Rank(o.Tier) < 0 {
		return fmt.Errorf("the tier %.40q is none", o.Tier)
	}
	return cmp.Or(
		checkFields(fields...), checkAgent("challenger_id", o.Challenger), checkAgent("target_id", o.Target), checkTime(o.Deadline),
		oneOf("challenge_type", o.Type, TypeTiming, TypeKnowledge, TypeConsistency, TypeGeneral), checkReceipts("target_receipts", o.Receipts),
	)
}

func (r *Reviewing) check() error { return checkDisputeID(r.DisputeID) }

func (r *Resolved) check() error {
	if (r.Resolver == ResolverArbiter) != (r.Decision != "") || r.Decision != "" && !evidence.IsHash(r.Decision) {
		return errors.New("an arbiter's resolution names a decision by its hash, and no other does")
	}
	return cmp.Or(checkDisputeID(r.DisputeID), oneOf("resolver", r.Resolver, ResolverRules, ResolverArbiter, ResolverDeadline), r.Finding.check())
}

func (f Finding) check() error {
	if !slices.IsSorted(f.Inputs) || len(slices.Compact(slices.Clone(f.Inputs))) != len(f.Inputs) || slices.ContainsFunc(f.Inputs, func(h string) bool { return !evidence.IsHash(h) }) {
		return errors.New("the inputs are no hashes in ascending order")
	}
	if len(f.Inputs) > maxInputs {
		return fmt.Errorf("there are %d inputs; at most %d can be", len(f.Inputs), maxInputs)
	}
	if f.Fault != "" && (f.Outcome != accrual.ChallengerWins || !evidence.IsHash(f.Fault)) {
		return errors.New("the fault is no hash, or the challenger has not won")
	}
	if f.Malicious && f.Outcome != accrual.TargetWins {
		return errors.New("a challenger that has not lost is malicious")
	}
	return cmp.Or(
		oneOf("outcome", f.Outcome, accrual.ChallengerWins, accrual.TargetWins, accrual.Inconclusive),
		checkTexts(text{"reason", f.Reason, maxReason, false}),
	)
}

func (v *Violation) check() error {
	return cmp.Or(
		checkAgent("agent_id", v.Agent), checkFields(field{"document", v.Document, hashForm}),
		oneOf("rule", v.Rule, RuleWindow, RuleIdentical, RuleRate),
	)
}

func checkDisputeID(id string) error {
	if len(id) != len("dsp_")+32 || id[:4] != "dsp_" || !evidence.IsHash(id[4:]+id[4:]) {
		return errors.New("the id of a dispute is of another form")
	}
	return nil
}
