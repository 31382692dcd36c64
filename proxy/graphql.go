package proxy

import (
	"net/http"
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
)

// kindGraphQL is the kind of a GraphQL endpoint.
const kindGraphQL = "graphql"

// graphQLReads are the methods by which a GraphQL server takes queries in a URL. It should take no mutations by them, and some do.
var graphQLReads = []string{http.MethodGet, http.MethodHead}

// readsByGraphQL returns rules that lead calls by graphQLReads to the GraphQL endpoints of which no rule names those methods. There they are
// refused. Otherwise a rule for reads of the whole host would let a mutation in a URL pass.
func readsByGraphQL(rules []*match.Rule) []*match.Rule {
	type url struct {
		scheme, host, path string
		port               uint16
	}
	at := func(m match.Match) url { return url{m.Scheme, m.Host, m.Path, m.Port} }
	named := make(map[url]bool)
	for _, r := range rules {
		if r.Kind == kindGraphQL && slices.Contains(r.Match.Methods, http.MethodGet) {
			named[at(r.Match)] = true
		}
	}
	var guards []*match.Rule
	for _, r := range rules {
		if r.Kind != kindGraphQL || named[at(r.Match)] {
			continue
		}
		named[at(r.Match)] = true
		m := r.Match
		m.Methods = graphQLReads
		guards = append(guards, &match.Rule{Match: m, Kind: kindGraphQL})
	}
	return guards
}

// graphQLJudge reads calls to GraphQL endpoints.
type graphQLJudge struct{}

func (graphQLJudge) read(c *call, rules []rule) (rule, error) {
	c.refusal = graphql.WriteProblem
	operations, err := readGraphQL(c)
	if err != nil {
		return rule{}, err
	}
	c.record.Message = clip(graphql.Does(operations), maxMessage)
	i, err := graphql.Choose(operations, of(rules, rule.graphQL))
	if err != nil {
		return rule{}, err
	}
	chosen := rules[i]
	if chosen.action != nil {
		if c.r.Method != http.MethodPost {
			return rule{}, refusal.New("graphql_get_refused", "a mutation is sent by POST, not in a URL")
		}
		c.message = &policy.Message{GraphQL: &policy.GraphQL{Type: chosen.action.GraphQL.Type, Fields: graphql.Fields(operations)}}
		c.record.Message = c.message.Does() // as it is bound
	}
	return chosen, nil
}

// maxMessage bounds what a record says of a message, in bytes.
const maxMessage = 1024

// readGraphQL reads the operations of a call.
func readGraphQL(c *call) ([]graphql.Operation, error) {
	switch {
	case c.r.Method == http.MethodPost && c.held != nil:
		return graphql.ReadPost(c.r.Header, c.r.URL, c.held.Text)
	case slices.Contains(graphQLReads, c.r.Method) && c.held == nil:
		return graphql.ReadGet(c.r.URL)
	}
	return nil, refusal.New("graphql_malformed", "a GraphQL request is a POST with a body, or a GET without one")
}
