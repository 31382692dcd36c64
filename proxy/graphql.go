package proxy

import (
	"net/http"
	"slices"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/rules"
)

// graphQLReads are methods with the query in the URL. Some servers accept mutations there too.
var graphQLReads = []string{http.MethodGet, http.MethodHead}

type graphQLCall struct{ plain }

func (m graphQLCall) choose(among []rules.Rule) (rules.Rule, error) {
	operations, err := m.read()
	if err != nil {
		return rules.Rule{}, err
	}
	m.record.Message, m.record.GraphQL = clip(graphql.Does(operations), maxMessage), rules.Recorded(operations)
	chosen, err := rules.OfOperations(among, operations, m.r.Method)
	if err != nil {
		return rules.Rule{}, err
	}
	if chosen.Action != nil {
		fields := graphql.Fields(operations)
		m.does = &policy.Message{GraphQL: &policy.GraphQL{Type: chosen.Action.GraphQL.Type, Fields: fields}}
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
	return nil, refusal.New("message_malformed", "a GraphQL request must be a POST with a body, or a GET without one")
}
