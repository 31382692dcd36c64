package rules

import (
	"errors"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Verdict is what rules decide about a call.
type Verdict struct {
	Rule string // that allows the call; empty if none does
	Post bool   // the rule is an action: the call needs evidence
}

// ErrUnjudged is the error for a call whose record says too little to judge it by rules.
var ErrUnjudged = errors.New("the record does not say enough about the call")

// Judge judges a recorded call by these rules, as the pipeline would, and returns the refusal otherwise. It knows what
// the record says: not the content of a request to a model, nor the session's state. It ignores when rules expire. The
// error is [ErrUnjudged] if the record lacks the call's target, or the message that would choose among the rules.
func (r *Rules) Judge(c ledger.Record) (Verdict, error) {
	target, err := upstream.ParseOrigin(c.Scheme, c.Host)
	if err != nil || c.Method == "" || c.Method == http.MethodConnect || !strings.HasPrefix(c.Path, "/") ||
		strings.HasSuffix(c.Path, "…") {
		return Verdict{}, ErrUnjudged
	}
	to, err := r.Find(target, c.Method, c.Path)
	if err != nil {
		return Verdict{}, err
	}
	chosen, err := to.judge(c)
	switch {
	case c.Carries == ledger.WebSocket && !to.WebSocket():
		return Verdict{}, refusal.New("egress_denied", "no rule allows WebSockets to this URL")
	case err != nil:
		return Verdict{}, err
	case chosen.Action != nil:
		return Verdict{chosen.Action.Name, true}, nil
	}
	return Verdict{chosen.Egress.Name, false}, nil
}

func (e *Endpoint) judge(c ledger.Record) (Rule, error) {
	switch e.Kind {
	case MCP:
		return judgeMCP(e.Rules, c)
	case GraphQL:
		if len(c.GraphQL) == 0 || !IsWhole(c.GraphQL) {
			return Rule{}, ErrUnjudged
		}
		operations := make([]graphql.Operation, len(c.GraphQL))
		for i, o := range c.GraphQL {
			operations[i] = graphql.Operation{Type: o.Type, Fields: o.Fields}
		}
		return OfOperations(e.Rules, operations, c.Method)
	}
	return e.Rules[0], nil
}

func judgeMCP(rules []Rule, c ledger.Record) (Rule, error) {
	switch {
	case c.Method != http.MethodPost:
		return OfStream(rules, c.Method)
	case c.MCP == nil || c.MCP.Method == "": // an answer's rule depends on the question
		return Rule{}, ErrUnjudged
	}
	i, err := mcp.Choose(&mcp.Message{Method: c.MCP.Method, Name: c.MCP.Tool}, Of(rules, Rule.MCP))
	if err != nil {
		return Rule{}, err
	}
	return rules[i], nil
}
