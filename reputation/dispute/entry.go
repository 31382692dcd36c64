package dispute

import (
	"errors"
	"fmt"
	"strings"

	"github.com/actionproof/mediator/reputation/accrual"
)

// Entry is one entry of a node's log: At and exactly one other member. It names agents' documents by hash only.
type Entry struct {
	At        int64      `json:"at" form:"time"` // Unix seconds, by the node's clock
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
	SignalID string   `json:"signal_id" form:"id"`
	Agent    string   `json:"agent_id" form:"agent"`
	Document string   `json:"document" form:"hash"` // of the signal
	Horizon  string   `json:"horizon" form:"short|long"`
	Written  int64    `json:"written" form:"time"` // the signal's own time; Unix seconds
	Closes   int64    `json:"closes" form:"time"`  // end of the time to dispute it; Unix seconds
	Basis    string   `json:"basis" form:"observed|declared"`
	Receipts []string `json:"receipts,omitempty" form:"hash most:64"`
	// Sources says that a receipt is of an answered model call at a trusted host.
	Sources bool     `json:"sources,omitempty"`
	Cites   []string `json:"cites,omitempty" form:"agent sorted"` // other agents whose receipts it rests on
	// Registered is since when the agent has been registered, or 0; Unix seconds.
	Registered int64 `json:"registered,omitempty" form:"time"`
}

// How the evidence of a signal is known.
const (
	BasisObserved = "observed" // receipts of the same agent, held by the node
	BasisDeclared = "declared" // anything else
)

// Final closes the window of a signal, or ends the time to appeal against the end of a dispute.
type Final struct {
	SignalID  string `json:"signal_id,omitempty" form:"id"` // or
	DisputeID string `json:"dispute_id,omitempty" form:"dispute"`
}

// Opened opens a dispute.
type Opened struct {
	DisputeID  string   `json:"dispute_id"` // [DisputeID] of the document
	Challenger string   `json:"challenger_id" form:"agent"`
	Target     string   `json:"target_id" form:"agent"`
	Type       string   `json:"challenge_type" form:"timing|knowledge|consistency|general"`
	SignalID   string   `json:"signal_id,omitempty" form:"id"`
	ContractID string   `json:"challenge_id,omitempty" form:"id"` // of a contract
	Receipts   []string `json:"target_receipts,omitempty" form:"hash most:64"`
	Document   string   `json:"document" form:"hash"`
	Substance  string   `json:"substance" form:"hash"`  // of the meaning: disputes with equal substance are repetitions
	Registered int64    `json:"registered" form:"time"` // since when the challenger has been; Unix seconds
	Standing   int64    `json:"standing"`               // the challenger's before the opening, in days
	Deadline   int64    `json:"deadline" form:"time"`   // after it only "inconclusive" can end the dispute; Unix seconds
}

// Reviewing marks a dispute as being judged.
type Reviewing struct {
	DisputeID string `json:"dispute_id" form:"dispute"`
}

// Voted is the decision of one arbiter.
type Voted struct {
	DisputeID string `json:"dispute_id" form:"dispute"`
	Arbiter   string `json:"arbiter" form:"text:512"` // id of its key
	Decision  string `json:"decision" form:"hash"`    // of its token
	Outcome   string `json:"outcome" form:"challenger_wins|target_wins|inconclusive"`
	Reason    string `json:"reason" form:"text:512"`
	Malicious bool   `json:"malicious,omitempty"`
}

// Appealed opens a resolved dispute again, before the second panel.
type Appealed struct {
	DisputeID string `json:"dispute_id" form:"dispute"`
	Document  string `json:"document" form:"hash"` // of the appeal
	Deadline  int64  `json:"deadline" form:"time"` // after it the first decision stands
}

// Resolved ends a dispute.
type Resolved struct {
	DisputeID string `json:"dispute_id" form:"dispute"`
	Finding
	Resolver string `json:"resolver" form:"automated|arbiter|deadline"`
	// Decisions are the hashes of the tokens of the arbiters who agree.
	Decisions []string `json:"decisions,omitempty" form:"hash most:15 sorted"`
	// AppealUntil is when the end begins to count, unless the loser appeals before.
	AppealUntil int64 `json:"appeal_until,omitempty" form:"time"`
}

// Finding is the outcome of a dispute and the reason.
type Finding struct {
	Outcome string `json:"outcome" form:"challenger_wins|target_wins|inconclusive"`
	Reason  string `json:"reason" form:"text:512"` // a constant, or the arbiter's words
	// Malicious says that the challenger lost on forged or contradictory evidence.
	Malicious bool `json:"malicious,omitempty"`
	// Fault is the first receipt of the part of a session over which the challenger wins: see [NewTrial].
	Fault string `json:"fault,omitempty" form:"hash"`
	// Inputs are the hashes of the evidence.
	Inputs []string `json:"inputs,omitempty" form:"hash most:48 sorted"`
}

const (
	ResolverRules    = "automated" // the rules of the type
	ResolverArbiter  = "arbiter"   // a majority of a panel
	ResolverDeadline = "deadline"  // the end of the time
)

// Violation is a breach of a rule, by a document that the agent signed.
type Violation struct {
	Agent    string `json:"agent_id" form:"agent"`
	Rule     string `json:"rule" form:"window|identical|rate"`
	Document string `json:"document" form:"hash"`
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

const MaxArbiters = 15

// DisputeID returns the id of the dispute that a document opens. It depends only on the document.
func DisputeID(document string) string { return "dsp_" + document[:min(32, len(document))] }

// ParseEntry reads the canonical JSON that [Entry.Encode] writes and refuses any other spelling.
func ParseEntry(raw []byte) (Entry, error) { return accrual.ParseEntryOf[Entry](raw, maxEntry) }

// Encode returns the entry as RFC 8785 canonical JSON. It refuses an entry that [ParseEntry] would refuse.
func (e Entry) Encode() ([]byte, error) { return accrual.EncodeEntry(e, maxEntry) }

// Check is for [accrual.CheckForm], like those below.
func (e Entry) Check() error {
	_, err := accrual.MemberOf(e)
	return err
}

func (p Published) Check() error {
	switch {
	case len(p.Cites) > len(p.Receipts):
		return errors.New("it cites more agents than receipts")
	case len(p.Receipts) == 0 && (p.Basis == BasisObserved || p.Sources):
		return errors.New("a signal without receipts claims to be observed")
	}
	return nil
}

func (f Final) Check() error {
	if (f.SignalID == "") == (f.DisputeID == "") {
		return errors.New("exactly one of a signal and a dispute must become final")
	}
	return nil
}

func (o Opened) Check() error {
	switch {
	case o.DisputeID != DisputeID(o.Document):
		return errors.New("the id of the dispute does not follow from its document")
	case (o.SignalID == "") != (o.ContractID == ""):
		return errors.New("a dispute must name a signal and a contract, or neither")
	case o.Type != TypeGeneral && len(o.Receipts) == 0:
		return errors.New("the dispute has no receipts that could decide it")
	case o.Standing < Stake || o.Standing > MaxStanding:
		return fmt.Errorf("a dispute cannot be opened with the standing %d", o.Standing)
	}
	return nil
}

func (v Voted) Check() error { return checkMalicious(v.Outcome, v.Malicious) }

func (r Resolved) Check() error {
	switch {
	case (r.Resolver == ResolverArbiter) != (len(r.Decisions) > 0):
		return errors.New("a resolution must name arbiters' decisions if, and only if, arbiters made it")
	case r.AppealUntil > 0 && r.Resolver != ResolverArbiter:
		return errors.New("only a resolution of arbiters can be appealed")
	case r.Fault != "" && r.Outcome != accrual.ChallengerWins:
		return errors.New("it names a fault, but the challenger has not won")
	}
	return checkMalicious(r.Outcome, r.Malicious)
}

func checkMalicious(outcome string, malicious bool) error {
	if malicious && outcome != accrual.TargetWins {
		return errors.New("malicious requires that the challenger has lost")
	}
	return nil
}

func (s SetBack) Check() error {
	if len(s.Token) > maxToken || strings.Count(s.Token, ".") != 2 {
		return errors.New("it has no token of the operator")
	}
	return nil
}
