package dispute

import (
	"cmp"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// maxInputs bounds what a finding names: for each session the head of its chain and its challenges, and what was brought besides.
const maxInputs = 2*MaxSessions + maxBrought

// maxBrought is how many receipts that contradict a chain, or that are forged, a finding names.
const maxBrought = 16

// Why a dispute has ended as it has. An arbiter gives reasons in words of its own.
const (
	// The challenger wins.
	ReasonDuration       = "duration_impossible"    // a call took longer than the time between its beginning and its end
	ReasonFirstDelta     = "first_delta_impossible" // the first piece of an answer came after its end
	ReasonTurnaround     = "turnaround_impossible"  // the agent took longer for its next request than the session had lasted
	ReasonOverlap        = "calls_overlap"          // a turnaround was measured while another call was open, where there is none
	ReasonResultFirst    = "result_before_call"     // a request brings the result of a call before the model was asked that made the call
	ReasonChallengeFirst = "challenge_before_issue" // a receipt names a challenge before it was issued
	ReasonForked         = "chain_forked"           // two receipts are signed for one place of a chain, or one after its end; see also below
	ReasonBroken         = "chain_broken"           // two receipts that follow each other contradict each other
	ReasonResultWithout  = "result_without_call"    // a request brings the result of a call that no answer has made
	ReasonStrategyBroken = "strategy_broken"        // the agent did what the strategy that it had committed to rules out
	ReasonProbesDisagree = "probes_disagree"        // most questions that were put twice were answered both ways
	// The target wins.
	ReasonNothingFound = "nothing_found" // all is there, and nothing of it contradicts itself
	// Nobody wins.
	ReasonReceiptsMissing  = "receipts_missing"  // the node does not hold all of them
	ReasonSessionOpen      = "session_open"      // a session was not closed in time
	ReasonStrategyHidden   = "strategy_hidden"   // the agent has not revealed a strategy that it had committed to
	ReasonProbesUnanswered = "probes_unanswered" // fewer questions were answered twice than can decide
	ReasonProbesDivided    = "probes_divided"    // some were answered both ways, and not most
	ReasonNoArbiter        = "no_arbiter"        // no arbiter has decided in time
	ReasonTooLong          = "trial_too_long"    // the node has not got through the receipts in the time that it takes for one dispute
)

// Trial judges one dispute by receipts. The caller has verified every signature, and that the receipts are the target's. It is not safe for
// concurrent use.
type Trial struct {
	of       Opened
	rules    judge
	judged   map[string]bool // what the target has lost other disputes by
	wanted   map[string]bool // target receipts that were not shown yet
	sessions []*Record
	forged   []string
}

// judge has the rules of one type. A session that it finds against loses.
type judge interface {
	// add looks at the next receipt of a session.
	add(r *Record, c *interaction.Receipt)
	// end returns what is found against the session of which all receipts that there are were added; empty if nothing is. doubt is
	// why nobody can win though nothing was found.
	end(r *Record) (found, doubt string)
}

// Record is what is looked at of one session of the target.
type Record struct {
	trial      *Trial
	challenges []autonomy.Challenge
	hashes     []string // of the chain
	start      string   // the first of them that is judged here
	last       interaction.Receipt
	others     []other
	found      string // the first that was found
	timing     timing
	calls      toolCalls
	measured   *autonomy.Session
	answers    map[string]string // to probes
	broken     map[string]bool   // strategies that were broken by what has counted, by the nonces of their challenges
}

// other is a receipt that the target's sidecar has signed, and that is not known to be of the chain.
type other struct {
	hash   string
	number int64
}

// NewTrial begins to judge a dispute, which is not a general one. By judged the target has lost other disputes before this one was opened (see
// [Book.Judged]): what a chain has up to such a receipt has counted, and so has a receipt beside the chain. Neither counts again. What is left of
// each session can count once ([Finding.Fault]).
func NewTrial(of Opened, judged map[string]bool) *Trial {
	t := &Trial{of: of, judged: judged, wanted: make(map[string]bool, len(of.Receipts))}
	for _, hash := range of.Receipts {
		t.wanted[hash] = true
	}
	switch of.Type {
	case TypeTiming:
		t.rules = timingRules{}
	case TypeConsistency:
		t.rules = consistencyRules{}
	case TypeKnowledge:
		t.rules = knowledgeRules{}
	}
	return t
}

// Session begins with one session of the target: those of the target receipts, each once, and all that the node has noted of its challenges.
func (t *Trial) Session(challenges []autonomy.Challenge) *Record {
	r := &Record{trial: t, challenges: challenges, measured: autonomy.NewSession(nil), answers: make(map[string]string), broken: make(map[string]bool)}
	t.sessions = append(t.sessions, r)
	return r
}

// Forged notes a receipt that the challenger has brought as the target's, and whose signature is wrong.
func (t *Trial) Forged(hash string) { t.forged = append(t.forged, hash) }

// Add looks at the next receipt of the chain that the node holds. The caller adds them in order, from the first on. Receipts after a gap are not
// looked at: what is missing there could explain anything.
func (r *Record) Add(hash string, c *interaction.Receipt) {
	if c.Chain.SequenceNumber != int64(len(r.hashes))+1 {
		return
	}
	delete(r.trial.wanted, hash)
	if len(r.hashes) > 0 && contradicts(&r.last, r.hashes[len(r.hashes)-1], c) {
		r.find(TypeConsistency, ReasonBroken)
	}
	if r.trial.rules != nil {
		r.trial.rules.add(r, c)
	}
	r.hashes, r.last, r.start = append(r.hashes, hash), *c, cmp.Or(r.start, hash)
	if r.trial.judged[hash] {
		r.begin()
	}
}

// begin begins anew after what has counted. Calls of tools stay known: their results can come later.
func (r *Record) begin() {
	r.found, r.start, r.timing = "", "", timing{}
	clear(r.answers)
	clear(r.calls.returned)
	for _, c := range r.challenges {
		r.broken[c.Nonce] = r.measured.Broke(c)
	}
}

// Other looks at a receipt of the session that the target's sidecar has signed, and that is not in the chain: the node has kept it as a fork, or the
// challenger has brought it.
func (r *Record) Other(hash string, c *interaction.Receipt) {
	r.others = append(r.others, other{hash, c.Chain.SequenceNumber})
}

// find notes what was found by the rules of a type, if they are those of the dispute.
func (r *Record) find(of, reason string) {
	if r.found == "" && r.trial.of.Type == of {
		r.found = reason
	}
}

// forks returns the receipts that contradict the chain: another one has their place, or they come after its end.
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

// Judge ends the trial: all that there is was added. It reports false if more could come: receipts that the node does not hold, or the end of a
// session. late says that there is no more time to wait for it; what is there is then judged as it is.
//
// Who has kept something back does not win by that, and neither does who accuses another because something was lost: then nobody wins.
func (t *Trial) Judge(late bool) (f Finding, ended bool) {
	doubt, open := "", false
	var inputs []string
	for _, r := range t.sessions {
		forks := r.forks()
		inputs = append(inputs, r.inputs()...)
		inputs = append(inputs, forks[:min(len(forks), max(0, maxBrought-len(t.forged)))]...)
		if len(forks) > 0 {
			r.find(TypeConsistency, ReasonForked)
			doubt = cmp.Or(doubt, ReasonForked) // of two chains none says anything about the rest
		}
		open = open || !r.closed()
		found, unsure := "", ""
		if t.rules != nil {
			found, unsure = t.rules.end(r)
		}
		if r.closed() || late || t.of.Type != TypeKnowledge {
			r.found = cmp.Or(r.found, found)
		}
		doubt = cmp.Or(doubt, unsure)
	}
	for _, r := range t.sessions {
		if r.found != "" { // not by what was forged: its hash could be that of a receipt which is still to come
			return Finding{Outcome: accrual.ChallengerWins, Reason: r.found, Fault: r.start, Inputs: sortedHashes(inputs)}, true
		}
	}
	f.Inputs = sortedHashes(append(inputs, t.forged[:min(len(t.forged), maxBrought)]...))
	switch {
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

// sortedHashes returns hashes in their order, each once, and at most as many as a finding can have.
func sortedHashes(hashes []string) []string {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	return hashes[:min(len(hashes), maxInputs)]
}
