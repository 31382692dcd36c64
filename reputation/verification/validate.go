package verification

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// The seven checks; together they have 105 points.
const (
	CheckTurns       = "minimum_turns"
	CheckDuration    = "minimum_duration"
	CheckTools       = "required_tools"
	CheckChain       = "hash_chain"
	CheckMerkle      = "merkle_root"
	CheckAttestation = "attestation"
	CheckFollowUp    = "follow_up"
)

var pointsOf = []struct {
	name   string
	points int64
}{
	{CheckTurns, 25}, {CheckDuration, 10}, {CheckTools, 15}, {CheckChain, 20}, {CheckMerkle, 10}, {CheckAttestation, 10},
	{CheckFollowUp, 15},
}

// MaxScore is the score of a faultless trace. Only such a trace passes: each missing point is a violation.
const MaxScore = 105

// How a check is known. A failed one that the trace does not support either has none.
const (
	BasisObserved = "observed" // by the node's own record
	BasisDeclared = "declared" // by the agent's trace alone
)

// Violations: see docs/verification.md.
const (
	ViolationTurnsMissing     = "turns_missing"
	ViolationTurnsNotServed   = "turns_not_served"
	ViolationCanaryUnused     = "canary_unused"
	ViolationTraceAltered     = "trace_altered"
	ViolationTooFast          = "too_fast"
	ViolationTimeForged       = "time_forged"
	ViolationToolsMissing     = "tools_missing"
	ViolationChainBroken      = "hash_chain_broken"
	ViolationMerkle           = "merkle_root_mismatch"
	ViolationAttestation      = "attestation_mismatch"
	ViolationFollowUpMissing  = "follow_up_missing"
	ViolationReasoningShort   = "reasoning_short"
	ViolationReasoningOff     = "reasoning_off_topic"
	ViolationReasoningRefused = "reasoning_rejected"
	ViolationOrchestration    = "orchestration_rejected"
	ViolationGovernance       = "governance_rejected"
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"check"`
	Basis  string `json:"basis,omitempty"`
	Points int64  `json:"points"`
	Most   int64  `json:"most"`
}

// Verdict is the judgement of a trace.
type Verdict struct {
	Checks     []Check
	Score      int64
	Violations []string
	Coverage   int64
	Band       string
}

// Passed reports whether the verification is passed.
func (v Verdict) Passed() bool { return len(v.Violations) == 0 && v.Score == MaxScore }

// judge validates a trace against the node's record of its session (original: validateTrace). The trace must have the
// turns that came, in both modes. A check passes if it is observed. In ModeSeed it also passes as declared if the trace
// alone supports it.
func judge(s Session, t Trace, mode Mode, gates asked) Verdict {
	k := newKnown(s, t, s.Task.base(gates.privileged), mode)
	var v Verdict
	for _, want := range pointsOf {
		seen, declared, fault := k.check(want.name)
		check := Check{Name: want.name, Most: want.points, Points: share(seen, want.points)}
		switch {
		case seen == whole:
			check.Basis = BasisObserved
		case declared == whole:
			check.Basis = BasisDeclared
		}
		if mode == ModeSeed && k.came {
			check.Points = share(max(seen, declared), want.points)
		}
		if check.Points < check.Most {
			v.Violations = append(v.Violations, fault)
		}
		v.Score += check.Points
		v.Checks = append(v.Checks, check)
	}
	v.Violations = append(v.Violations, gates.violations...)
	var reasoning []string
	for _, turn := range t.Turns {
		reasoning = append(reasoning, turn.Reasoning)
	}
	if slices.ContainsFunc(reasoning, func(r string) bool { return length(r) < enoughReasoning }) {
		v.Violations = append(v.Violations, ViolationReasoningShort)
	}
	v.Coverage = Coverage(s.Task.Prompt, reasoning...)
	v.Band = band(v.Coverage, gates.privileged)
	if v.Band == BandLow && !gates.evaluated {
		v.Violations = append(v.Violations, ViolationReasoningOff)
	}
	slices.Sort(v.Violations)
	v.Violations = slices.Compact(v.Violations)
	return v
}

// whole is the measure of a passed check. Required tools can pass in part.
const whole = 1000

func share(holds, points int64) int64 { return (holds*points + whole/2) / whole }

// known is a trace and the node's record of its session.
type known struct {
	s    Session
	t    Trace
	base int
	mode Mode
	// came says that the trace has exactly the turns that came, by hash and tool. received says that their content came
	// too, so that what was observed holds for the trace. chained and rooted say that the hashes and the root are right.
	came, received, chained, rooted bool
}

func newKnown(s Session, t Trace, base int, mode Mode) known {
	k := known{s: s, t: t, base: base, mode: mode}
	k.came = slices.EqualFunc(t.Turns, s.Turns, func(said Turn, took Taken) bool {
		return said.Hash == took.Hash && said.ToolCall == took.Tool
	})
	k.chained = len(t.Turns) > 0
	previous := ChainSeed
	for _, turn := range t.Turns {
		k.chained = k.chained && turn.Hash == turn.HashAfter(previous)
		previous = turn.Hash
	}
	k.rooted = len(t.Turns) > 0 && t.MerkleRoot == MerkleRoot(t.Hashes())
	k.received = k.came && k.chained && k.each(func(t Taken) bool { return t.Chained })
	return k
}

// check returns how far a check holds by the node's record and by the trace alone, and the violation if it does not.
func (k known) check(name string) (seen, declared int64, fault string) {
	turns := len(k.t.Turns)
	enough := turns > k.base
	switch name {
	case CheckTurns:
		fault = ViolationCanaryUnused
		switch {
		case !enough:
			fault = ViolationTurnsMissing
		case !k.each(func(t Taken) bool { return t.Served }):
			fault = ViolationTurnsNotServed
		}
		seen, declared = all(k.received && enough && k.each(Taken.told)), all(enough)
	case CheckDuration:
		long, forged := k.passed() >= k.s.Task.MinDurationMS, k.received && k.forged()
		fault = ViolationTooFast
		if long && forged && k.mode != ModeSeed {
			fault = ViolationTimeForged
		}
		seen, declared = all(k.received && long && !forged), all(turns > 1 && k.claimed() >= k.s.Task.MinDurationMS)
	case CheckTools:
		seen, declared, fault = k.tools(k.called()), k.tools(k.named()), ViolationToolsMissing
	case CheckChain:
		seen, declared, fault = all(k.received), all(k.chained), ViolationChainBroken
	case CheckMerkle:
		seen, declared, fault = all(k.received && k.rooted), all(k.rooted), ViolationMerkle
	case CheckAttestation:
		right := turns > 0 && k.t.Attestation == Attestation(k.t.MerkleRoot, k.s.ID)
		seen, declared, fault = all(k.received && right && k.rooted), all(right), ViolationAttestation
	case CheckFollowUp:
		seen, declared = all(k.received && enough && k.s.Answered.Observed), all(enough && k.s.Answered.Step > 0)
		fault = ViolationFollowUpMissing
	}
	known := k.received || k.mode == ModeSeed && k.came
	if turns > 0 && !known && (name != CheckChain || k.chained) {
		fault = ViolationTraceAltered
	}
	return seen, declared, fault
}

func (t Taken) told() bool { return t.Chained && t.Served && t.Used }

func (k known) each(is func(Taken) bool) bool {
	return !slices.ContainsFunc(k.s.Turns, func(t Taken) bool { return !is(t) })
}

// passed is the time between the first and the last turn by the node's clock, in milliseconds.
func (k known) passed() int64 {
	if len(k.s.Turns) == 0 {
		return -1
	}
	return k.s.Turns[len(k.s.Turns)-1].At - k.s.Turns[0].At
}

func (k known) claimed() int64 {
	return k.t.Turns[len(k.t.Turns)-1].Timestamp - k.t.Turns[0].Timestamp
}

// forged reports whether the trace's time ran backwards, or claims more than passed since the session's start.
func (k known) forged() bool {
	const tolerance = 1000
	backwards := !slices.IsSortedFunc(k.t.Turns, func(a, b Turn) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return backwards || k.claimed() > k.s.Turns[len(k.s.Turns)-1].At-k.s.Opened+tolerance
}

func (k known) called() (tools []string) {
	for _, turn := range k.s.Turns {
		if k.received && turn.Served {
			tools = append(tools, turn.Tool)
		}
	}
	return tools
}

func (k known) named() (tools []string) {
	for _, turn := range k.t.Turns {
		tools = append(tools, turn.ToolCall)
	}
	return tools
}

func (k known) tools(there []string) int64 {
	n := 0
	for _, tool := range k.s.Task.RequiredTools {
		if slices.Contains(there, tool) {
			n++
		}
	}
	return int64(n * whole / len(k.s.Task.RequiredTools))
}

func all(holds bool) int64 {
	if holds {
		return whole
	}
	return 0
}

// Bands of reasoning coverage.
const (
	BandLow      = "low"      // a violation, unless a server evaluates the reasoning
	BandMarginal = "marginal" // neither a bonus nor a violation
	BandFull     = "full"
)

// Thresholds of reasoning coverage, in thousandths.
const (
	leastCoverage           = 250
	leastCoveragePrivileged = 125
	fullCoverage            = 400
	termPrefix              = 5 // letters compared, since plurals and tenses differ at the end
)

// stopWords are longer than four letters but carry no meaning.
var stopWords = strings.Fields(`
	about above after again against almost along already although always among another around because before being
	below between cannot could during either every everything first further having however itself least maybe might
	nobody other others ought rather really second shall should since something still their theirs themselves there
	these thing things third those though through together toward under unless until using where whether which while
	whose within without would yours`)

// Coverage returns the share of the prompt's terms that the reasoning names, in thousandths (original:
// computeReasoningCoverage). Terms are words of more than four letters, compared by the first five. Echoing the prompt
// covers everything, so this is only a fallback without an evaluating server.
func Coverage(prompt string, reasoning ...string) int64 {
	wanted := terms(prompt)
	if len(wanted) == 0 {
		return 0
	}
	said := make(map[string]bool)
	for _, text := range reasoning {
		for _, word := range words(text) {
			said[prefix(word)] = true
		}
	}
	named := 0
	for _, term := range wanted {
		if said[term] {
			named++
		}
	}
	return int64(named * 1000 / len(wanted))
}

func band(coverage int64, privileged bool) string {
	least := int64(leastCoverage)
	if privileged {
		least = leastCoveragePrivileged
	}
	switch {
	case coverage < least:
		return BandLow
	case coverage < fullCoverage:
		return BandMarginal
	}
	return BandFull
}

func terms(prompt string) []string {
	var all []string
	for _, word := range words(prompt) {
		if len([]rune(word)) > 4 && !slices.Contains(stopWords, word) && !slices.Contains(all, prefix(word)) {
			all = append(all, prefix(word))
		}
	}
	return all
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

func prefix(word string) string {
	runes := []rune(word)
	return string(runes[:min(termPrefix, len(runes))])
}
