package rules

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/mcp"
)

// Kind is a kind of endpoint at which the message chooses the rule. Rules of no kind match origin, method and path
// alone.
type Kind string

// The kinds.
const (
	MCP     Kind = "mcp"
	GraphQL Kind = "graphql"
	Model   Kind = "model"
)

func (r Rule) kind() Kind {
	switch {
	case r.MCP() != nil:
		return MCP
	case r.GraphQL() != nil:
		return GraphQL
	case r.Egress != nil && r.Egress.Observe != nil:
		return Model
	}
	return ""
}

// check refuses two rules for one message and returns the second's index.
func (e *Endpoint) check() (int, error) {
	switch e.Kind {
	case MCP:
		return mcp.CheckRules(Of(e.Rules, Rule.MCP))
	case GraphQL:
		return graphql.CheckRules(Of(e.Rules, Rule.GraphQL))
	case Model:
		if len(e.Rules) > 1 {
			return 1, errors.New("another rule observes the same URL")
		}
	}
	return 0, nil
}

// Of returns the part that say selects of each rule, if any.
func Of[T any](rules []Rule, say func(Rule) *T) []*T {
	all := make([]*T, len(rules))
	for i, r := range rules {
		all[i] = say(r)
	}
	return all
}

// OfStream returns the rule of a request without a message to an MCP server.
func OfStream(rules []Rule, method string) (Rule, error) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return slices.Contains(r.Match().Methods, method) })
	if i < 0 {
		return Rule{}, refusal.New("mcp_method_refused", "no rule of this MCP server names the method %s", method)
	}
	return rules[i], nil
}

// OfOperations returns the rule that names all operations of a GraphQL document that came by a method.
func OfOperations(rules []Rule, operations []graphql.Operation, method string) (Rule, error) {
	i, err := graphql.Choose(operations, Of(rules, Rule.GraphQL))
	if err != nil {
		return Rule{}, err
	}
	if !slices.Contains(rules[i].Match().Methods, method) {
		return Rule{},
			refusal.New("graphql_refused", "the rule that allows the operation does not allow the method %s", method)
	}
	return rules[i], nil
}

// These bound what a record names of a document. No rule names a longer field.
const maxOperations, maxFields, maxFieldName = 8, 32, 128

// IsWhole reports whether a record names all of a GraphQL document.
func IsWhole(recorded []ledger.Operation) bool {
	return len(recorded) < maxOperations &&
		!slices.ContainsFunc(recorded, func(o ledger.Operation) bool { return len(o.Fields) >= maxFields })
}

// Recorded returns what a record names of a GraphQL document.
func Recorded(operations []graphql.Operation) (all []ledger.Operation) {
	for _, o := range operations[:min(len(operations), maxOperations)] {
		fields := slices.Clone(o.Fields[:min(len(o.Fields), maxFields)])
		for i, f := range fields {
			if fields[i] = strings.Clone(f); len(f) > maxFieldName { // kept longer than the document
				fields[i] = f[:maxFieldName] + "…"
			}
		}
		all = append(all, ledger.Operation{Type: o.Type, Fields: fields})
	}
	return all
}

// CheckHeader refuses a header that the action does not list, because a header can change a post's effect.
func (a *Action) CheckHeader(h http.Header) error {
	if a.Headers == nil {
		return nil
	}
	for name := range h {
		if a.MCP != nil && mcp.IsHeader(name) {
			continue
		}
		if !forward.IsUsual(name) && !slices.Contains(a.Headers, name) && !a.Credential.Takes(name) {
			return refusal.New("override_refused", "the action %s does not allow the header %.100s", a.Name, name)
		}
	}
	return nil
}
