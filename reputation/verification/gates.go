package verification

import "context"

// The three gates, by the names of the calls that ask them.
const (
	GateOrchestrate = "orchestrate"
	GateGovern      = "govern"
	GateEnforce     = "enforce"
)

var gateNames = []string{GateOrchestrate, GateGovern, GateEnforce}

// What a gate says. A gate that is not configured is no degradation: the deployment never had it.
const (
	GatePassed        = "passed"
	GateFailed        = "failed"
	GateUnavailable   = "unavailable"
	GateNotConfigured = "not_configured"
)

const maxGateReason = 64 // bytes

// Gate is what one gate said, as the result has it.
type Gate struct {
	Name   string `json:"gate"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"` // of unavailable: a short word
	Score  int64  `json:"score"`            // of enforce: 0 to 100, 100 where it did not answer; of the others zero
}

// Question is what the gates are asked about.
type Question struct {
	DID     string
	Prompt  string
	Payload string
	Turns   []Turn // none where the agent has only asked for a verification
}

// Answer is what a server says to a question. The zero Answer is that of a gate that is not configured.
type Answer struct {
	Status    string // one of the four
	Reason    string // of unavailable
	Resonance int64  // of govern: prior resonance, in thousandths
	Score     int64  // of enforce: 0 to 100
}

// Gates asks the servers of the xray bridge. Each call ends within a bounded time and says by its answer what was wrong.
type Gates interface {
	Orchestrate(ctx context.Context, q Question) Answer
	Govern(ctx context.Context, q Question) Answer
	Enforce(ctx context.Context, q Question) Answer
}

const (
	privilegedResonance = 800 // thousandths
	leastEnforcement    = 75  // of 100; a lower score rejects
	fullEnforcement     = 100 // a lower score warns; also the score where no server answers
)

// asked is what the gates said to one question.
type asked struct {
	gates      []Gate
	privileged bool
	evaluated  bool
	warned     bool
	violations []string
}

// ask asks the gates in their order.
func ask(ctx context.Context, gates Gates, q Question) asked {
	var a asked
	a.add(GateOrchestrate, gates.Orchestrate(ctx, q))
	govern := gates.Govern(ctx, q)
	a.add(GateGovern, govern)
	a.privileged = privileged(govern)
	if govern.Status == GateFailed {
		a.violations = append(a.violations, ViolationGovernance)
	}
	enforce := gates.Enforce(ctx, q)
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

// degraded reports whether a gate that is configured did not answer.
func (a *asked) degraded() bool {
	for _, g := range a.gates {
		if g.Status == GateUnavailable {
			return true
		}
	}
	return false
}

// noGates is a deployment without the xray bridge.
type noGates struct{}

func (noGates) Orchestrate(context.Context, Question) Answer { return Answer{} }
func (noGates) Govern(context.Context, Question) Answer      { return Answer{} }
func (noGates) Enforce(context.Context, Question) Answer     { return Answer{} }
