package decide

import (
	"time"

	"cel.dev/cel-go/cel"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
)

// facts are what a decision rests on. The binding and the origin proof are verified; the call is what the sidecar says
// of it.
type facts struct {
	binding   evidence.Binding
	call      policy.Call
	args      map[string]any // of a tool; nil where there are none to judge
	origin    evidence.TriggerOriginProof
	runtimeID string
	sessionID string
	now       time.Time
	autonomy  appraised
}

// variable is one name that a condition may use. Where of returns nil it has no value, and a condition that rests on it
// cannot be evaluated.
type variable struct {
	name string
	t    *cel.Type
	of   func(*facts) any
}

// variables are all of them, each with its type, so that a misspelt name or a comparison of a number with a text does
// not compile. Nothing loops over one: there are no macros. Those of messages are empty for a call without one, and
// args has no value there: a condition on an argument that is not there, or is of another type, is an error. Those of
// the agent's reputation have a value if its token is valid, but for autonomy.known, which says that; of an agent that
// has to be verified and is not, none has one. Those of its verification have one if the agent counts as verified, but
// for autonomy.verified; and those of its rating if there is enough to rate it by.
var variables = []variable{
	{"request.method", cel.StringType, func(f *facts) any { return f.call.Method }},
	{"request.scheme", cel.StringType, func(f *facts) any { return f.call.Scheme }},
	{"request.host", cel.StringType, func(f *facts) any { return f.call.Host }},
	{"request.path", cel.StringType, func(f *facts) any { return f.call.Path }},
	{"request.rule", cel.StringType, func(f *facts) any { return f.call.Rule }},
	{"request.contentKind", cel.StringType, func(f *facts) any { return f.call.ContentKind }},
	{"request.size", cel.IntType, func(f *facts) any { return f.call.Size }},
	{"binding.subject", cel.StringType, func(f *facts) any { return f.binding.Subject }},
	{"binding.action", cel.StringType, func(f *facts) any { return f.binding.Action }},
	{"binding.resource", cel.StringType, func(f *facts) any { return f.binding.Resource }},
	{"binding.contentHash", cel.StringType, func(f *facts) any { return f.binding.ContentHash }},
	{"trigger.kind", cel.StringType, func(f *facts) any { return f.origin.Kind }},
	{"trigger.source", cel.StringType, func(f *facts) any { return f.origin.Source }},
	{"trigger.eventId", cel.StringType, func(f *facts) any { return f.origin.EventID }},
	{"trigger.method", cel.StringType, func(f *facts) any { return f.origin.VerificationMethod }},
	{"runtime.id", cel.StringType, func(f *facts) any { return f.runtimeID }},
	{"session.id", cel.StringType, func(f *facts) any { return f.sessionID }},
	{"mcp.server", cel.StringType, func(f *facts) any { return f.call.MCP().Server }},
	{"mcp.tool", cel.StringType, func(f *facts) any { return f.call.MCP().Tool }},
	{"graphql.type", cel.StringType, func(f *facts) any { return f.call.GraphQL().Type }},
	{"graphql.fields", cel.ListType(cel.StringType), func(f *facts) any { return f.call.GraphQL().Fields }},
	{"args", cel.MapType(cel.StringType, cel.DynType), func(f *facts) any {
		if f.args == nil {
			return nil
		}
		return f.args
	}},
	{"autonomy.known", cel.BoolType, func(f *facts) any { return f.autonomy.whether() }},
	{"autonomy.score", cel.DoubleType, reputation(func(c *accrual.Claims) any { return c.CurrentScore })},
	{"autonomy.lower", cel.DoubleType, reputation(func(c *accrual.Claims) any { return c.Lower })},
	{"autonomy.provisional", cel.BoolType, reputation(func(c *accrual.Claims) any { return c.Provisional })},
	{"autonomy.tier", cel.StringType, reputation(func(c *accrual.Claims) any { return c.Tier })},
	{"autonomy.tierRank", cel.IntType, reputation(func(c *accrual.Claims) any { return accrual.Rank(c.Tier) })},
	{"autonomy.interactions", cel.IntType, reputation(func(c *accrual.Claims) any { return c.Counted() })},
	{"autonomy.coverage", cel.DoubleType, reputation(func(c *accrual.Claims) any { return c.Coverage })},
	{"autonomy.verified", cel.BoolType, func(f *facts) any {
		return f.autonomy.value(func(*accrual.Claims) any { return f.autonomy.unverified() == nil })
	}},
	{"autonomy.verifiedAge", cel.DurationType, func(f *facts) any {
		return f.autonomy.ofVerification(func(v *accrual.Verified) any { return v.Age(f.now) })
	}},
	{"autonomy.degraded", cel.BoolType, func(f *facts) any {
		return f.autonomy.ofVerification(func(v *accrual.Verified) any { return v.Degraded })
	}},
	{"autonomy.disputed", cel.BoolType, reputation(func(c *accrual.Claims) any { return c.Disputed })},
	{"autonomy.disputesPending", cel.IntType, reputation(func(c *accrual.Claims) any { return c.DisputesPending })},
	{"autonomy.r", cel.DoubleType, rating(func(r *accrual.Rated) any { return r.R })},
	{"autonomy.q", cel.DoubleType, rating(func(r *accrual.Rated) any { return r.Q })},
	{"now", cel.TimestampType, func(f *facts) any { return f.now }},
}

// reputation returns what of says of the agent's reputation.
func reputation(of func(c *accrual.Claims) any) func(*facts) any {
	return func(f *facts) any { return f.autonomy.value(of) }
}

// rating returns what of says of the agent's rating.
func rating(of func(r *accrual.Rated) any) func(*facts) any {
	return func(f *facts) any { return f.autonomy.ofRating(of) }
}

// activation gives a program the values of the variables that it asks for, and computes no other.
type activation struct{ facts *facts }

var _ cel.Activation = activation{}

// ResolveName returns the value of a variable.
func (a activation) ResolveName(name string) (any, bool) {
	for i := range variables {
		if variables[i].name == name {
			v := variables[i].of(a.facts)
			return v, v != nil
		}
	}
	return nil, false
}

// Parent returns nil: there is nothing else to ask.
func (activation) Parent() cel.Activation { return nil }
