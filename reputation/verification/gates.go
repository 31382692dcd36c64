package verification

import (
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

type Gate struct {
	Name   string `json:"gate"`
	Status string `json:"status" form:"passed|unavailable|not_configured"` // or, in no signed result, failed
	Reason string `json:"reason,omitempty" form:"name:64"`                 // a short word, if unavailable
	Score  int64  `json:"score"`                                           // of enforce; 100 without an answer
}

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
	evaluated  bool
	warned     bool
	violations []string
}

func ask(ctx context.Context, gates Gates, q Question) asked {
	var a asked
	orchestrate := gates(ctx, GateOrchestrate, q)
	a.add(GateOrchestrate, orchestrate)
	if orchestrate.Status == GateFailed {
		a.violations = append(a.violations, ViolationOrchestration)
	}
	govern := gates(ctx, GateGovern, q)
	a.add(GateGovern, govern)
	a.privileged = privileged(govern)
	if govern.Status == GateFailed {
		a.violations = append(a.violations, ViolationGovernance)
	}
	enforce := gates(ctx, GateEnforce, q)
	a.evaluated = enforce.Status == GatePassed || enforce.Status == GateFailed
	if !a.evaluated {
		enforce.Score = fullEnforcement
	}
	a.warned = enforce.Score < fullEnforcement
	if enforce.Score < leastEnforcement {
		enforce.Status = GateFailed
		a.violations = append(a.violations, ViolationReasoningRefused)
	}
	a.add(GateEnforce, enforce)
	return a
}

// privileged reports whether prior governance earns the privileged path.
func privileged(govern Answer) bool {
	return govern.Status == GatePassed && govern.Resonance >= privilegedResonance
}

func (a *asked) add(name string, answer Answer) {
	if answer.Status == "" {
		answer.Status = GateNotConfigured
	}
	a.gates = append(a.gates, Gate{Name: name, Status: answer.Status, Reason: answer.Reason, Score: answer.Score})
}

func (a *asked) degraded() bool {
	return slices.ContainsFunc(a.gates, func(g Gate) bool { return g.Status == GateUnavailable })
}
