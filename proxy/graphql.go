package proxy

import (
	"net/http"
	"slices"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
)

var kindGraphQL = kind{
	name:  "graphql",
	is:    func(r rule) bool { return r.graphQL() != nil },
	check: func(rules []rule) (int, error) { return graphql.CheckRules(of(rules, rule.graphQL)) },
	begin: func(c *call) conversation { return graphQLCall{plain{c}} },
}

// graphQLReads are methods with the query in the URL. Some servers accept mutations there too.
var graphQLReads = []string{http.MethodGet, http.MethodHead}

// readsByGraphQL returns rules that refuse graphQLReads at GraphQL endpoints without a rule for them. Otherwise a read
// rule for the whole host would let a mutation in a URL pass.
func readsByGraphQL(rules []*match.Rule) []*match.Rule {
	type url struct {
		scheme, host, path string
		port               uint16
	}
	at := func(m match.Match) url { return url{m.Scheme, m.Host, m.Path, m.Port} }
	named := make(map[url]bool)
	for _, r := range rules {
		if r.Kind == kindGraphQL.name && slices.Contains(r.Match.Methods, http.MethodGet) {
			named[at(r.Match)] = true
		}
	}
	var guards []*match.Rule
	for _, r := range rules {
		if r.Kind != kindGraphQL.name || named[at(r.Match)] {
			continue
		}
		named[at(r.Match)] = true
		m := r.Match
		m.Methods = graphQLReads
		guards = append(guards, &match.Rule{Match: m, Kind: kindGraphQL.name})
	}
	return guards
}

type graphQLCall struct{ plain }

func (m graphQLCall) choose(rules []rule) (rule, error) {
	operations, err := m.read()
	if err != nil {
		return rule{}, err
	}
	m.record.Message = clip(graphql.Does(operations), maxMessage)
	i, err := graphql.Choose(operations, of(rules, rule.graphQL))
	if err != nil {
		return rule{}, err
	}
	chosen := rules[i]
	if chosen.action != nil {
		if m.r.Method != http.MethodPost {
			return rule{}, refusal.New("graphql_refused", "a mutation is sent by POST, not in a URL")
		}
		fields := graphql.Fields(operations)
		m.does = &policy.Message{GraphQL: &policy.GraphQL{Type: chosen.action.GraphQL.Type, Fields: fields}}
		m.record.Message = m.does.Does() // as bound
	}
	return chosen, nil
}

func (m graphQLCall) refuse(w http.ResponseWriter, d problem.Details, _ error) {
	graphql.WriteProblem(w, d)
}

// maxMessage bounds a record's description of a message, in bytes.
const maxMessage = 1024

func (m graphQLCall) read() ([]graphql.Operation, error) {
	switch {
	case m.r.Method == http.MethodPost && m.held != nil:
		return graphql.ReadPost(m.r.Header, m.r.URL, m.held.Text)
	case slices.Contains(graphQLReads, m.r.Method) && m.held == nil:
		return graphql.ReadGet(m.r.URL)
	}
	return nil, refusal.New("message_malformed", "a GraphQL request is a POST with a body, or a GET without one")
}
