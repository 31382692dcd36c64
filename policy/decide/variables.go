package decide

import (
	"time"

	"cel.dev/cel-go/cel"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
)

// facts are the input of a decision. The binding and the origin proof are verified; the call is the sidecar's word.
type facts struct {
	binding   evidence.Binding
	call      policy.Call
	args      map[string]any // a tool's; nil if there are none to judge
	origin    evidence.TriggerOriginProof
	runtimeID string
	sessionID string
	now       time.Time
	autonomy  appraised
}

// variable is a name that conditions may use. If of returns nil, the variable has no value, and conditions on it fail.
type variable struct {
	name string
	t    *cel.Type
	of   func(*facts) any
}

// variables are all names, with types, so that a misspelt name or a comparison of a number with a text does not
// compile. A call without a message has empty message variables and no args. The autonomy variables have values only if
// the token is valid, except autonomy.known. None has a value if the agent must be verified and is not. Those of the
// verification need a verified agent, except autonomy.verified; those of the rating need a rating.
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

func reputation(of func(c *accrual.Claims) any) func(*facts) any {
	return func(f *facts) any { return f.autonomy.value(of) }
}

func rating(of func(r *accrual.Rated) any) func(*facts) any {
	return func(f *facts) any { return f.autonomy.ofRating(of) }
}

// activation computes only the variables that a program asks for.
type activation struct{ facts *facts }

var _ cel.Activation = activation{}

func (a activation) ResolveName(name string) (any, bool) {
	for i := range variables {
		if variables[i].name == name {
			v := variables[i].of(a.facts)
			return v, v != nil
		}
	}
	return nil, false
}

func (activation) Parent() cel.Activation { return nil }
