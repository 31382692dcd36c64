package verification

import (
	"cmp"
	"context"
	"slices"
)

const (
	GateOrchestrate = "orchestrate"
	GateGovern      = "govern"
	GateEnforce     = "enforce"
)

var gateNames = []string{GateOrchestrate, GateGovern, GateEnforce}

// Statuses of a gate. A gate that is not configured does not degrade the result.
const (
	GatePassed        = "passed"
	GateFailed        = "failed"
	GateUnavailable   = "unavailable"
	GateNotConfigured = "not_configured"
)

// Gate is the result of one gate.
type Gate struct {
	Name   string `json:"gate"`
	Status string `json:"status" form:"passed|unavailable|not_configured"` // or, in no signed result, failed
	Reason string `json:"reason,omitempty" form:"name:64"`                 // a short word, if unavailable
	Score  int64  `json:"score"`                                           // of enforce; 100 without an answer
}

// Question is what the gates judge.
type Question struct {
	DID    string
	Prompt string
	Turns  []Turn // none before the registration
}

// Answer is a gate's answer. The zero Answer means that the gate is not configured.
type Answer struct {
	Status    string
	Reason    string
	Resonance int64 // of govern: prior resonance, in thousandths
	Score     int64
}

// Gates asks the server of a gate. It takes a bounded time and reports failures in its answer.
type Gates func(ctx context.Context, gate string, q Question) Answer

const (
	privilegedResonance = 800 // thousandths
	leastEnforcement    = 75  // of 100; a lower score rejects
	fullEnforcement     = 100 // a lower score warns; also the default without an answer
)

type asked struct {
	gates      []Gate
	privileged bool
	evaluated  bool // by a server, so keywords do not count
	warned     bool
	violations []string
}

var violationOf = map[string]string{
	GateOrchestrate: ViolationOrchestration, GateGovern: ViolationGovernance, GateEnforce: ViolationReasoningRefused,
}

func ask(ctx context.Context, gates Gates, q Question) (a asked) {
	for _, name := range gateNames {
		answer := gates(ctx, name, q)
		violated := answer.Status == GateFailed
		switch name {
		case GateGovern:
			a.privileged = privileged(answer)
		case GateEnforce:
			if a.evaluated = answer.Status == GatePassed || violated; !a.evaluated {
				answer.Score = fullEnforcement
			}
			a.warned = answer.Score < fullEnforcement
			if violated = answer.Score < leastEnforcement; violated {
				answer.Status = GateFailed
			}
		}
		if violated {
			a.violations = append(a.violations, violationOf[name])
		}
		a.gates = append(a.gates, Gate{name, cmp.Or(answer.Status, GateNotConfigured), answer.Reason, answer.Score})
	}
	return a
}

// privileged reports whether prior governance earns the privileged path.
func privileged(govern Answer) bool {
	return govern.Status == GatePassed && govern.Resonance >= privilegedResonance
}

func (a *asked) degraded() bool {
	return slices.ContainsFunc(a.gates, func(g Gate) bool { return g.Status == GateUnavailable })
}
