package dispute

import (
	"cmp"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

const (
	// maxInputs bounds the inputs of a finding: the chain head and challenges of each session, and what was brought.
	maxInputs  = 2*MaxSessions + maxBrought
	maxBrought = 16
)

// Reasons for the end of a dispute. An arbiter uses its own words.
const (
	// The challenger wins.
	ReasonDuration       = "duration_impossible"
	ReasonFirstDelta     = "first_delta_impossible"
	ReasonTurnaround     = "turnaround_impossible"
	ReasonOverlap        = "calls_overlap"
	ReasonResultFirst    = "result_before_call"
	ReasonChallengeFirst = "challenge_before_issue"
	ReasonForked         = "chain_forked"
	ReasonBroken         = "chain_broken"
	ReasonResultWithout  = "result_without_call"
	ReasonStrategyBroken = "strategy_broken"
	ReasonProbesDisagree = "probes_disagree"
	// The target wins.
	ReasonNothingFound = "nothing_found"
	// No side wins.
	ReasonReceiptsMissing  = "receipts_missing"
	ReasonSessionOpen      = "session_open"
	ReasonStrategyHidden   = "strategy_hidden"
	ReasonProbesUnanswered = "probes_unanswered"
	ReasonProbesDivided    = "probes_divided"
	ReasonNoArbiter        = "no_arbiter"
	ReasonTooLong          = "trial_too_long"
	ReasonFailed           = "trial_failed"
)

// Trial judges a dispute by verified receipts, which are the target's. It is not safe for concurrent use.
type Trial struct {
	of       Opened
	rules    judge           // none for other types
	judged   map[string]bool // evidence of disputes that the target lost earlier
	wanted   map[string]bool // disputed receipts not seen yet
	sessions []*Record
	forged   []string
	read     int
	cut      bool // reading stopped at MaxRead
}

// MaxRead bounds the receipts of a trial: long sessions must not delay all other trials.
const MaxRead = 100_000

// judges are the types that receipts decide. end returns the fault of a complete session, or a doubt.
var judges = map[string]judge{
	TypeTiming:      {(*Record).addTiming, (*Record).endTiming},
	TypeConsistency: {(*Record).addConsistency, (*Record).endConsistency},
	TypeKnowledge:   {(*Record).addKnowledge, (*Record).endKnowledge},
}

type judge struct {
	add func(*Record, *interaction.Receipt)
	end func(*Record) (found, doubt string)
}

// Record is the evidence of one session of the target.
type Record struct {
	trial      *Trial
	challenges []autonomy.Challenge
	hashes     []string
	start      string // the first receipt that is judged here
	last       interaction.Receipt
	others     []other
	found      string
	timing     timing
	calls      toolCalls
	measured   *autonomy.Session
	answers    map[string]string
	broken     map[string]bool // nonces of challenges whose strategy was broken earlier, which has counted
}

type other struct {
	hash   string
	number int64
}

// NewTrial starts judging a dispute by receipts. judged is the evidence by which the target lost earlier
// ([Book.Judged]): such a receipt, and the chain up to it, do not count again. The rest can count once
// ([Finding.Fault]).
func NewTrial(of Opened, judged map[string]bool) *Trial {
	t := &Trial{of: of, rules: judges[of.Type], judged: judged, wanted: make(map[string]bool, len(of.Receipts))}
	for _, hash := range of.Receipts {
		t.wanted[hash] = true
	}
	return t
}

// Session adds a session of the disputed receipts, once, with the node's challenge records.
func (t *Trial) Session(challenges []autonomy.Challenge) *Record {
	r := &Record{trial: t, challenges: challenges, measured: autonomy.NewSession(nil), answers: make(map[string]string),
		broken: make(map[string]bool), calls: toolCalls{made: make(map[string]bool), returned: make(map[string]bool)},
		timing: timing{asked: make(map[string]int64)}}
	t.sessions = append(t.sessions, r)
	return r
}

// Forged records a receipt with an invalid signature that the challenger presented as the target's.
func (t *Trial) Forged(hash string) { t.forged = append(t.forged, hash) }

// Add takes the next receipt of the node's chain, in order from the first. Receipts after a gap are ignored, since the
// gap could explain anything. It returns false when the trial has read enough.
func (r *Record) Add(hash string, c *interaction.Receipt) bool {
	if c.Chain.SequenceNumber != int64(len(r.hashes))+1 {
		return true
	}
	if r.trial.read == MaxRead {
		r.trial.cut = true
		return false
	}
	r.trial.read++
	delete(r.trial.wanted, hash)
	if len(r.hashes) > 0 && contradicts(&r.last, r.hashes[len(r.hashes)-1], c) {
		r.find(TypeConsistency, ReasonBroken)
	}
	if add := r.trial.rules.add; add != nil {
		add(r, c)
	}
	r.hashes, r.last, r.start = append(r.hashes, hash), *c, cmp.Or(r.start, hash)
	if r.trial.judged[hash] {
		r.begin()
	}
	return true
}

// begin starts anew after evidence that has counted. Results of earlier tool calls can still come.
func (r *Record) begin() {
	r.found, r.start, r.timing = "", "", timing{asked: make(map[string]int64)}
	clear(r.answers)
	clear(r.calls.returned)
	for _, c := range r.challenges {
		r.broken[c.Nonce] = r.measured.Broke(c)
	}
}

// Other takes a receipt of the target's that may be outside the chain: a kept fork, or one that was brought.
func (r *Record) Other(hash string, c *interaction.Receipt) {
	r.others = append(r.others, other{hash, c.Chain.SequenceNumber})
}

func (r *Record) find(of, reason string) {
	if r.found == "" && r.trial.of.Type == of {
		r.found = reason
	}
}

// forks returns the receipts that contradict the chain: another one has their place, or the chain ended before them.
func (r *Record) forks() (hashes []string) {
	for _, o := range r.others {
		switch n := int64(len(r.hashes)); {
		case o.number <= n && r.hashes[o.number-1] == o.hash, r.trial.judged[o.hash]:
			delete(r.trial.wanted, o.hash)
		case o.number <= n || r.closed():
			hashes = append(hashes, o.hash)
			delete(r.trial.wanted, o.hash)
		}
	}
	return hashes
}

func (r *Record) closed() bool { return r.last.Closing != nil }

// Judge returns the finding on the evidence so far. ended is false if waiting could bring missing receipts or the end
// of a session; late says that there is no more time to wait.
//
// Holding evidence back does not win, and neither does accusing an agent whose evidence was lost: then no side wins.
func (t *Trial) Judge(late bool) (f Finding, ended bool) {
	doubt, open := "", false
	var inputs []string
	for _, r := range t.sessions {
		forks := r.forks()
		inputs = append(inputs, r.inputs()...)
		inputs = append(inputs, forks[:min(len(forks), max(0, maxBrought-len(t.forged)))]...)
		if len(forks) > 0 {
			r.find(TypeConsistency, ReasonForked)
			doubt = cmp.Or(doubt, ReasonForked) // neither chain proves anything about the rest
		}
		open = open || !r.closed()
		found, unsure := "", ""
		if t.rules.end != nil {
			found, unsure = t.rules.end(r)
		}
		if r.closed() || late && !t.cut || t.of.Type != TypeKnowledge {
			r.found = cmp.Or(r.found, found)
		}
		doubt = cmp.Or(doubt, unsure)
	}
	for _, r := range t.sessions {
		if r.found != "" { // without forged hashes: such a hash could belong to a receipt still to come
			return Finding{Outcome: accrual.ChallengerWins, Reason: r.found, Fault: r.start, Inputs: sortedHashes(inputs)}, true
		}
	}
	f.Inputs = sortedHashes(append(inputs, t.forged[:min(len(t.forged), maxBrought)]...))
	switch {
	case t.cut:
		f.Outcome, f.Reason = accrual.Inconclusive, ReasonTooLong
	case len(t.wanted) > 0:
		f.Outcome, f.Reason = accrual.Inconclusive, ReasonReceiptsMissing
		return f, late
	case open:
		f.Outcome, f.Reason = accrual.Inconclusive, ReasonSessionOpen
		return f, late
	case doubt != "":
		f.Outcome, f.Reason = accrual.Inconclusive, doubt
	default:
		f.Outcome, f.Reason, f.Malicious = accrual.TargetWins, ReasonNothingFound, len(t.forged) > 0
	}
	return f, true
}

func sortedHashes(hashes []string) []string {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	return hashes[:min(len(hashes), maxInputs)]
}
