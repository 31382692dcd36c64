package proxy

import (
	"errors"
	"mime"
	"net/http"
	"slices"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/rules"
)

// learning is the rule of a learning session for what no rule names: reads, also those of MCP and GraphQL.
var learning = rules.Rule{Egress: &rules.Egress{
	Match: match.Match{Methods: []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost}},
	MCP:   &mcp.Rule{ListAll: true}, GraphQL: &graphql.Rule{Type: graphql.Query},
}}

// learns reports whether the call belongs to a learning session.
func (c *call) learns() bool { return c.session != nil && c.session.Learning }

// receipts returns nil for a learning session, which makes none.
func (c *call) receipts() *receipts.Keeper {
	if c.learns() {
		return nil
	}
	return c.p.o.Receipts
}

// kindLearnt is for messages at a URL that no rule names. The body shows their protocol.
const kindLearnt rules.Kind = "learnt"

func (c *call) beginLearnt() conversation {
	message, err := jsonread.Lenient(c.text(), 1)
	switch {
	case err != nil:
	case mcp.IsMessage(message):
		return c.begin(rules.MCP)
	case message.Get("query").Value != nil:
		if _, err := graphql.ReadPost(c.r.Header, c.r.URL, c.text()); err == nil { // other APIs have such a member too
			return c.begin(rules.GraphQL)
		}
	}
	return nameless{plain{c}}
}

// nameless refuses a write that no rule names.
type nameless struct{ plain }

func (m nameless) choose([]rules.Rule) (rules.Rule, error) { return rules.Rule{}, m.wouldWrite() }

func (c *call) wouldWrite() error {
	return refusal.New("learning_refused", "no rule names %.32s %s%.1024s, which could be a post", c.r.Method, c.target,
		c.r.URL.EscapedPath())
}

// learn returns the endpoint of a learning session's call, given what rules say. Reads that no rule names pass. The URL
// of a message may not be what the message says: an API may ignore an MCP body and post. So such a call goes without
// the agent's credentials.
func (c *call) learn(to *rules.Endpoint, err error) (*rules.Endpoint, error) {
	switch {
	case c.target.Host == InternalHost:
		return to, err
	case err == nil && (to.Kind == rules.MCP || to.Kind == rules.GraphQL):
		return &rules.Endpoint{Kind: to.Kind, Rules: append(slices.Clone(to.Rules), learning)}, nil
	case !errors.Is(err, refusal.New("egress_denied", "")) && !errors.Is(err, refusal.New("action_unmatched", "")):
		return to, err
	}
	if c.r.Header.Get("Mcp-Session-Id") != "" {
		c.record.MCP = &ledger.MCPMessage{} // until its message is read
	}
	empty := c.r.ContentLength == 0 // also over HTTP/2, where a body of unknown length has -1
	switch {
	case match.IsRead(c.r.Method):
		if empty && !graphql.MayMutate(c.r.URL) {
			return &rules.Endpoint{Kind: c.learntKind(), Rules: []rules.Rule{learning}}, nil
		}
	case c.r.Method == http.MethodPost:
		kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
		// a query may be a credential too
		if err == nil && kind == "application/json" && !empty && c.r.URL.RawQuery == "" {
			return &rules.Endpoint{Kind: kindLearnt, Rules: []rules.Rule{learning}}, nil
		}
	}
	return nil, c.wouldWrite()
}

// learntKind is GraphQL for a GET with a document of queries: the rule that it needs is GraphQL's.
func (c *call) learntKind() rules.Kind {
	if c.r.Method == http.MethodGet {
		if _, err := graphql.ReadGet(c.r.URL); err == nil {
			return rules.GraphQL
		}
	}
	return ""
}

// learnt returns the refusal of a message in a learning session, which no rule names or which is of no known protocol.
func learnt(to *rules.Endpoint, err error) error {
	unnamed := []string{"action_unmatched", "mcp_method_refused", "graphql_refused"}
	if to.Kind == kindLearnt {
		unnamed = append(unnamed, "content_too_large", "content_malformed")
	}
	if d := problem.DetailsOf(err); slices.Contains(unnamed, d.Code) {
		return refusal.New("learning_refused", "%s", d.Detail)
	}
	return err
}

// spoils are the codes after which a session is unfit to learn rules from.
var spoils = []string{"egress_address_denied", "answer_withheld", "message_malformed", "message_ambiguous"}

// unfit completes the record of a call, and reports whether this call makes its session unfit to learn rules from.
func (c *call) unfit() (now bool) {
	if c.session == nil {
		return false
	}
	code := c.record.Code
	if !slices.Contains(spoils, code) {
		code = ""
	}
	c.record.Unfit, now = c.session.Unfit(code)
	return now
}
