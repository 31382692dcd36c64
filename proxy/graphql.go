package proxy

import (
	"net/http"
	"slices"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/graphql"
)

var kindGraphQL = kind{
	name:  "graphql",
	is:    func(r rule) bool { return r.graphQL() != nil },
	check: func(rules []rule) (int, error) { return graphql.CheckRules(of(rules, rule.graphQL)) },
	begin: func(c *call) conversation { return graphQLCall{plain{c}} },
}

// graphQLReads are methods with the query in the URL. Some servers accept mutations there too.
var graphQLReads = []string{http.MethodGet, http.MethodHead}

type graphQLCall struct{ plain }

func (m graphQLCall) choose(rules []rule) (rule, error) {
	operations, err := m.read()
	if err != nil {
		return rule{}, err
	}
	m.record.Message, m.record.GraphQL = clip(graphql.Does(operations), maxMessage), operationsOf(operations)
	chosen, err := graphQLRule(rules, operations, m.r.Method)
	if err != nil {
		return rule{}, err
	}
	if chosen.action != nil {
		fields := graphql.Fields(operations)
		m.does = &policy.Message{GraphQL: &policy.GraphQL{Type: chosen.action.GraphQL.Type, Fields: fields}}
		m.record.Message = m.does.Does() // as bound
	}
	return chosen, nil
}

// graphQLRule returns the rule that names all operations of a document that came by a method.
func graphQLRule(rules []rule, operations []graphql.Operation, method string) (rule, error) {
	i, err := graphql.Choose(operations, of(rules, rule.graphQL))
	if err != nil {
		return rule{}, err
	}
	if !slices.Contains(rules[i].match().Methods, method) {
		return rule{},
			refusal.New("graphql_refused", "the rule that allows the operation does not allow the method %s", method)
	}
	return rules[i], nil
}

func (m graphQLCall) refuse(w http.ResponseWriter, d problem.Details, _ error) {
	graphql.WriteProblem(w, d)
}

// maxOperations and maxFields bound what a record names of a document.
const maxOperations, maxFields = 8, 32

func operationsOf(operations []graphql.Operation) (all []ledger.Operation) {
	for _, o := range operations[:min(len(operations), maxOperations)] {
		all = append(all, ledger.Operation{Type: o.Type, Fields: o.Fields[:min(len(o.Fields), maxFields)]})
	}
	return all
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
