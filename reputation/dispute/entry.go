package dispute

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Entry is one entry of a node's log: At and exactly one other member. It names agents' documents by hash only.
type Entry struct {
	At        int64      `json:"at"` // Unix seconds, by the node's clock
	Signal    *Published `json:"signal,omitempty"`
	Final     *Final     `json:"final,omitempty"`
	Opened    *Opened    `json:"opened,omitempty"`
	Reviewing *Reviewing `json:"reviewing,omitempty"`
	Voted     *Voted     `json:"voted,omitempty"`
	Appealed  *Appealed  `json:"appealed,omitempty"`
	Resolved  *Resolved  `json:"resolved,omitempty"`
	Violation *Violation `json:"violation,omitempty"`
	SetBack   *SetBack   `json:"set_back,omitempty"`
}

// Published is a published signal with the node's findings.
type Published struct {
	SignalID string   `json:"signal_id"`
	Agent    string   `json:"agent_id"`
	Document string   `json:"document"` // hash of the signal
	Horizon  string   `json:"horizon"`
	Written  int64    `json:"written"` // the signal's own time; Unix seconds
	Closes   int64    `json:"closes"`  // end of the time to dispute it; Unix seconds
	Basis    string   `json:"basis"`
	Receipts []string `json:"receipts,omitempty"`
	Sources  bool     `json:"sources,omitempty"` // a receipt is of an answered model call at a trusted host
	Cites    []string `json:"cites,omitempty"`   // other agents whose receipts it rests on, in ascending order
	// Registered is since when the agent has been registered, or 0; Unix seconds.
	Registered int64 `json:"registered,omitempty"`
}

// How the evidence of a signal is known.
const (
	BasisObserved = "observed" // receipts of the same agent, held by the node
	BasisDeclared = "declared" // anything else
)

// Final closes the window of a signal, or ends the time to appeal against the end of a dispute.
type Final struct {
	SignalID  string `json:"signal_id,omitempty"` // or
	DisputeID string `json:"dispute_id,omitempty"`
}

// Opened opens a dispute.
type Opened struct {
	DisputeID  string   `json:"dispute_id"` // [DisputeID] of the document
	Challenger string   `json:"challenger_id"`
	Target     string   `json:"target_id"`
	Type       string   `json:"challenge_type"`
	SignalID   string   `json:"signal_id,omitempty"`
	ContractID string   `json:"challenge_id,omitempty"` // of a contract
	Receipts   []string `json:"target_receipts,omitempty"`
	Document   string   `json:"document"`
	Substance  string   `json:"substance"`  // hash of the meaning: disputes with equal substance are repetitions
	Registered int64    `json:"registered"` // since when the challenger has been; Unix seconds
	Standing   int64    `json:"standing"`   // the challenger's before the opening, in days
	Deadline   int64    `json:"deadline"`   // after it only "inconclusive" can end the dispute; Unix seconds
}

// Reviewing marks a dispute as being judged.
type Reviewing struct {
	DisputeID string `json:"dispute_id"`
}

// Voted is the decision of one arbiter.
type Voted struct {
	DisputeID string `json:"dispute_id"`
	Arbiter   string `json:"arbiter"`  // id of its key
	Decision  string `json:"decision"` // hash of its token
	Outcome   string `json:"outcome"`
	Reason    string `json:"reason"`
	Malicious bool   `json:"malicious,omitempty"`
}

// Appealed opens a resolved dispute again, before the second panel.
type Appealed struct {
	DisputeID string `json:"dispute_id"`
	Document  string `json:"document"` // of the appeal
	Deadline  int64  `json:"deadline"` // after it the first decision stands
}

// Resolved ends a dispute.
type Resolved struct {
	DisputeID string `json:"dispute_id"`
	Finding
	Resolver string `json:"resolver"`
	// Decisions are the hashes of the tokens of the arbiters who agree, in ascending order.
	Decisions []string `json:"decisions,omitempty"`
	// AppealUntil is when the end begins to count, unless the loser appeals before.
	AppealUntil int64 `json:"appeal_until,omitempty"`
}

// Finding is the outcome of a dispute and the reason.
type Finding struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"` // a constant, or the arbiter's words
	// Malicious says that the challenger lost on forged or contradictory evidence.
	Malicious bool `json:"malicious,omitempty"`
	// Fault is the first receipt of the part of a session over which the challenger wins: see [NewTrial].
	Fault string `json:"fault,omitempty"`
	// Inputs are the hashes of the evidence, in ascending order.
	Inputs []string `json:"inputs,omitempty"`
}

// Resolvers of disputes (seed: resolver).
const (
	ResolverRules    = "automated" // the rules of the type
	ResolverArbiter  = "arbiter"   // a majority of a panel
	ResolverDeadline = "deadline"  // the end of the time
)

// Violation is a breach of a rule, by a document that the agent signed.
type Violation struct {
	Agent    string `json:"agent_id"`
	Rule     string `json:"rule"`
	Document string `json:"document"`
}

// SetBack sets the log's time back to the entry's, after a wrong clock has dated entries in the future.
type SetBack struct {
	Token string `json:"token"` // the operator's dispute-clock+jwt
}

// Rules whose breach is a violation (seed: Anti-Spam Rules).
const (
	RuleWindow    = "window"
	RuleIdentical = "identical"
	RuleRate      = "rate"
	RuleMalicious = "malicious" // see [Finding.Malicious]; without an entry of its own
)

// Statuses of a dispute (seed: status).
const (
	StatusPending   = "pending"
	StatusReviewing = "reviewing"
	StatusResolved  = "resolved"
)

// maxEntry bounds an entry: a tile of the log has up to 256, and anyone can request it and read it slowly.
const maxEntry = 16 << 10

const maxToken = 4 << 10

// MaxArbiters bounds a panel.
const MaxArbiters = 15

// DisputeID returns the id of the dispute that a document opens. It depends only on the document.
func DisputeID(document string) string { return "dsp_" + document[:min(32, len(document))] }

// ParseEntry reads the canonical JSON that [Entry.Encode] writes and refuses any other spelling.
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

// Encode returns the entry as RFC 8785 canonical JSON. It refuses an entry that [ParseEntry] would refuse.
func (e Entry) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("dispute: an entry is invalid: %w", err)
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
	of := accrual.Members(e)
	if len(of) != 1 {
		return fmt.Errorf("it must have exactly one subject, and has %d", len(of))
	}
	return of[0].(interface{ check() error }).check()
}

func (p *Published) check() error {
	if !ascending(p.Cites) || len(p.Cites) > len(p.Receipts) {
		return errors.New("the cited agents are not in ascending order, or more numerous than the receipts")
	}
	if len(p.Receipts) == 0 && (p.Basis == BasisObserved || p.Sources) {
		return errors.New("a signal without receipts claims to be observed")
	}
	for _, id := range p.Cites {
		if err := checkAgent("cites", id); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkFields(field{"signal_id", p.SignalID, idForm}, field{"document", p.Document, hashForm}),
		checkAgent("agent_id", p.Agent),
		oneOf("horizon", p.Horizon, HorizonShort, HorizonLong), oneOf("basis", p.Basis, BasisObserved, BasisDeclared),
		checkTime(p.Closes), checkTime(p.Written), checkTime(max(1, p.Registered)),
		checkReceipts("receipts", p.Receipts),
	)
}

func ascending(list []string) bool {
	return slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list)
}

// hashes reports whether a list has hashes alone, in ascending order.
func hashes(list []string) bool {
	return ascending(list) && !slices.ContainsFunc(list, func(h string) bool { return !evidence.IsHash(h) })
}

func (f *Final) check() error {
	switch {
	case (f.SignalID == "") == (f.DisputeID == ""):
		return errors.New("exactly one of a signal and a dispute must become final")
	case f.DisputeID != "":
		return checkDisputeID(f.DisputeID)
	}
	return checkFields(field{"signal_id", f.SignalID, idForm})
}

func (o *Opened) check() error {
	fields := []field{{"document", o.Document, hashForm}, {"substance", o.Substance, hashForm}}
	switch {
	case o.DisputeID != DisputeID(o.Document):
		return errors.New("the id of the dispute does not follow from its document")
	case (o.SignalID == "") != (o.ContractID == ""):
		return errors.New("a dispute must name a signal and a contract, or neither")
	case o.SignalID != "":
		fields = append(fields, field{"signal_id", o.SignalID, idForm}, field{"challenge_id", o.ContractID, idForm})
	}
	if o.Type != TypeGeneral && len(o.Receipts) == 0 {
		return errors.New("the dispute has no receipts that could decide it")
	}
	if o.Standing < Stake || o.Standing > MaxStanding {
		return fmt.Errorf("a dispute cannot be opened with the standing %d", o.Standing)
	}
	return cmp.Or(
		checkFields(fields...), checkAgent("challenger_id", o.Challenger), checkAgent("target_id", o.Target),
		checkTime(o.Deadline), checkTime(o.Registered),
		oneOf("challenge_type", o.Type, TypeTiming, TypeKnowledge, TypeConsistency, TypeGeneral),
		checkReceipts("target_receipts", o.Receipts),
	)
}

func (r *Reviewing) check() error { return checkDisputeID(r.DisputeID) }

func (v *Voted) check() error {
	f := Finding{Outcome: v.Outcome, Reason: v.Reason, Malicious: v.Malicious}
	return cmp.Or(checkDisputeID(v.DisputeID), f.check(), checkTexts(text{"arbiter", v.Arbiter, maxReason, false}),
		checkFields(field{"decision", v.Decision, hashForm}))
}

func (a *Appealed) check() error {
	return cmp.Or(checkDisputeID(a.DisputeID), checkFields(field{"document", a.Document, hashForm}), checkTime(a.Deadline))
}

func (r *Resolved) check() error {
	switch {
	case (r.Resolver == ResolverArbiter) != (len(r.Decisions) > 0) || !hashes(r.Decisions) || len(r.Decisions) > MaxArbiters:
		return errors.New("a resolution must name the hashes of arbiters' decisions if, and only if, arbiters made it")
	case r.AppealUntil < 0 || r.AppealUntil > maxWhole || r.AppealUntil > 0 && r.Resolver != ResolverArbiter:
		return errors.New("only a resolution of arbiters can be appealed")
	}
	return cmp.Or(checkDisputeID(r.DisputeID),
		oneOf("resolver", r.Resolver, ResolverRules, ResolverArbiter, ResolverDeadline), r.Finding.check())
}

func (f Finding) check() error {
	if !hashes(f.Inputs) {
		return errors.New("the inputs are not hashes in ascending order")
	}
	if len(f.Inputs) > maxInputs {
		return fmt.Errorf("there are %d inputs; at most %d can be", len(f.Inputs), maxInputs)
	}
	if f.Fault != "" && (f.Outcome != accrual.ChallengerWins || !evidence.IsHash(f.Fault)) {
		return errors.New("the fault is not a hash, or the challenger has not won")
	}
	if f.Malicious && f.Outcome != accrual.TargetWins {
		return errors.New("malicious requires that the challenger has lost")
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

func (s *SetBack) check() error {
	if len(s.Token) > maxToken || strings.Count(s.Token, ".") != 2 {
		return errors.New("it has no token of the operator")
	}
	return nil
}

func checkDisputeID(id string) error {
	if len(id) != len("dsp_")+32 || id[:4] != "dsp_" || !evidence.IsHash(id[4:]+id[4:]) {
		return errors.New("the id of a dispute has the wrong form")
	}
	return nil
}
