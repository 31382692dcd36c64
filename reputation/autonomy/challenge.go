package autonomy

import (
	"math"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/strategy"
)

// Challenge is the node's record of one challenge. Times are Unix milliseconds by its clock.
type Challenge struct {
	Nonce      string             `json:"nonce"`
	Issued     int64              `json:"issued_ms"`
	Committed  int64              `json:"committed_ms,omitempty"`
	Commitment string             `json:"commitment_hash,omitempty"` // empty until the agent commits
	Salt       string             `json:"salt,omitempty"`            // once revealed
	Strategy   *strategy.Strategy `json:"strategy,omitempty"`        // once revealed
	Probes     [][2]string        `json:"probes,omitempty"`          // pairs of ids of probes that ask the same
}

type seen struct {
	early       bool // a model was called before a receipt named the commitment
	commitments []commitment
}

// commitment is what the receipts show since they first named a commitment.
type commitment struct {
	hash     string
	revealed bool
	trace    strategy.Trace
}

// Bounds on the challenges kept from receipts. A node issues fewer; a dishonest sidecar could make up more.
const (
	maxChallenges  = 64
	maxCommitments = 4
)

func (s *Session) addTrace(r *interaction.Receipt) {
	if ref := r.Challenge; ref != nil {
		at, ok := s.challenges[ref.ChallengeNonce]
		if !ok && len(s.challenges) < maxChallenges {
			at = &seen{}
			s.challenges[ref.ChallengeNonce] = at
		}
		if at != nil {
			at.name(ref, r.Model != nil)
		}
	}
	for _, at := range s.challenges {
		for i := range at.commitments {
			follow(&at.commitments[i].trace, r)
		}
	}
}

func (s *seen) name(ref *interaction.ChallengeRef, call bool) {
	if ref.CommitmentHash == "" {
		s.early = s.early || call
		return
	}
	if c := s.find(ref.CommitmentHash); c != nil {
		c.revealed = c.revealed || ref.CommitmentRevealed
	} else if len(s.commitments) < maxCommitments {
		s.commitments = append(s.commitments, commitment{hash: ref.CommitmentHash, revealed: ref.CommitmentRevealed})
	}
}

func (s *seen) find(hash string) *commitment {
	for i := range s.commitments {
		if s.commitments[i].hash == hash {
			return &s.commitments[i]
		}
	}
	return nil
}

func follow(t *strategy.Trace, r *interaction.Receipt) {
	if m := r.Model; m != nil {
		t.Call(m.Host, m.Model)
		for _, call := range m.ToolCalls {
			t.Tool(call.Tool)
		}
		for _, tool := range m.HostedTools {
			t.Tool(tool)
		}
		made := figureOf(m.Figures.ToolCallsMade)
		if made.value > float64(len(m.ToolCalls)) || !made.measured() && r.Outcome != interaction.OutcomeFailed ||
			len(m.HostedTools) == interaction.MaxHosted {
			t.Tool("")
		}
	}
	for _, relayed := range r.Relayed {
		t.Tool(relayed.Tool)
		t.Host(relayed.Host)
	}
	if r.RelayedCount > int64(len(r.Relayed)) {
		t.Tool("")
		t.Host("")
	}
}

func (s *Session) judge(c Challenge) (held strategy.Held, passed bool) {
	of := s.committed(c)
	if of == nil || !of.revealed {
		return held, false
	}
	held = c.Strategy.Judge(of.trace)
	called := slices.ContainsFunc(s.received, func(at float64) bool {
		return float64(c.Issued) <= at && at < float64(c.Committed)
	})
	return held, held.Count() == strategy.Predicates && !s.challenges[c.Nonce].early && !called
}

// Broke reports whether the agent broke a strategy that it committed to and revealed (see [strategy.Strategy.Broken]).
func (s *Session) Broke(c Challenge) bool {
	of := s.committed(c)
	return of != nil && c.Strategy.Broken(of.trace, s.closed)
}

// committed returns the commitment of a challenge, or nil unless the revealed strategy is the committed one.
func (s *Session) committed(c Challenge) *commitment {
	at := s.challenges[c.Nonce]
	if at == nil || c.Strategy == nil {
		return nil
	}
	if hash, err := strategy.Commitment(c.Nonce, c.Salt, *c.Strategy); err != nil || hash != c.Commitment {
		return nil
	}
	return at.find(c.Commitment)
}

type outcome struct {
	issued, passed  int64
	committed, held float64 // challenges with a commitment; predicates that held
}

func (s *Session) judgeAll(challenges []Challenge) outcome {
	out := outcome{issued: int64(len(challenges))}
	for _, c := range challenges {
		held, passed := s.judge(c)
		out.held += float64(held.Count())
		if c.Commitment != "" {
			out.committed++
		}
		if passed {
			out.passed++
		}
	}
	return out
}

func (o outcome) accuracy() float64 {
	if o.committed == 0 {
		return 0
	}
	return o.held / (formula.Challenge["commitments"].Predicates * o.committed)
}

// commitments is declared: the agent names its tools and model.
func (v *view) commitments(of *partOf) measure {
	o := v.issued
	value := wilson(float64(o.passed), float64(o.issued), of.Z) * o.accuracy()
	return measure{n: o.issued, value: value, points: of.Points * value, state: declared}
}

// wilson returns the lower bound of Wilson's interval for a share.
func wilson(passed, n, z float64) float64 {
	if passed == 0 {
		return 0
	}
	p, zz := passed/n, z*z
	return (p + zz/(2*n) - z*math.Sqrt(p*(1-p)/n+zz/(4*n*n))) / (1 + zz/n)
}
