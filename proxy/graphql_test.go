package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
)

// asked keeps the last request to the control plane.
type asked struct {
	Control
	request policy.Request
}

func (a *asked) Decide(ctx context.Context, r policy.Request) (policy.Decision, error) {
	a.request = r
	return a.Control.Decide(ctx, r)
}

// newGraphQLRig has a rule for the mutations addComment and addReaction, one for reads of the whole host, and perhaps
// one for queries.
func newGraphQLRig(t *testing.T, queries bool) (*postRig, *asked) {
	t.Helper()
	control := &asked{}
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		control.Control = o.Control
		o.Control = control
		comment := actions[0]
		comment.Name, comment.Match, comment.GraphQL = "comment", matchAt(actions[0], "/graphql", "POST"),
			&graphql.Rule{Type: graphql.Mutation, Fields: []string{"addComment", "addReaction"}}
		egress := []rules.Egress{{Name: "reads", Match: matchAt(actions[0], "/**", "GET", "HEAD")}}
		if queries {
			egress = append(egress,
				rules.Egress{Name: "queries", Match: matchAt(actions[0], "/graphql", "GET", "HEAD", "POST"),
					Credential: comment.Credential,
					GraphQL:    &graphql.Rule{Type: graphql.Query}})
		}
		o.Rules = rulesFor(t, []rules.Action{comment}, egress)
	})
	return p, control
}

const (
	viewer  = `{"query":"{ viewer { login } }"}`
	comment = `{ "query": "mutation($i: X!) { __typename b: addReaction(input: $i) { id } ` +
		`a: addComment(input: $i) { id } }",` + "\n" + `"variables": {"i": 1} }`
)

func TestGraphQL(t *testing.T) {
	p, control := newGraphQLRig(t, true)
	p.want(http.StatusCreated, "POST", "/graphql", viewer)
	if p.body[0] != viewer || p.sent[0].Header.Get("Authorization") != "Bearer "+secretToken {
		t.Errorf("the upstream got %q", p.body)
	}
	read := ledger.Record{Flow: flowEgress, Rule: "queries", Message: "query viewer", State: ledger.StateForwarded}
	p.wantLast(1, read)
	p.want(http.StatusCreated, "GET", "/graphql?query="+url.QueryEscape("{ viewer { login } }"), "")
	p.wantLast(2, read)
	p.want(http.StatusCreated, "POST", "/graphql", comment)
	if p.body[2] != comment {
		t.Errorf("the upstream got %q", p.body)
	}
	hash, err := evidence.HashJSON([]byte(comment))
	must(t, err)
	const resource = "POST /graphql mutation __typename,addComment,addReaction"
	p.wantLast(3, ledger.Record{Flow: flowPost, Rule: "comment", Resource: resource, ContentHash: hash,
		Message: "mutation __typename,addComment,addReaction"})
	want := &policy.GraphQL{Type: "mutation", Fields: []string{"__typename", "addComment", "addReaction"}}
	if got := control.request; got.Binding.Resource != resource || got.Binding.ContentHash != hash ||
		got.Call.Message == nil || !reflect.DeepEqual(got.Call.Message.GraphQL, want) {
		t.Errorf("the control plane was asked %+v", got)
	}
}

// Nothing is sent, even with a rule for reads of the host.
func TestGraphQLThatIsRefused(t *testing.T) {
	mutation := "?query=" + url.QueryEscape("mutation { addComment(input: {}) { id } }")
	for _, queries := range []bool{true, false} {
		p, _ := newGraphQLRig(t, queries)
		for _, tt := range []struct {
			name, method, path, body string
			header                   []string
			want                     string
		}{
			{"a mutation that no rule names", "POST", "/graphql",
				`{"query":"mutation { deleteRepository(input: {}) { id } }"}`, nil, "action_unmatched"},
			{"a batch", "POST", "/graphql", "[" + viewer + "]", nil, "message_malformed"},
			{"a persisted query", "POST", "/graphql", `{"extensions":{"persistedQuery":{}}}`, nil, "graphql_refused"},
			{"a subscription", "POST", "/graphql", `{"query":"subscription { a }"}`, nil, "action_unmatched"},
			{"two types", "POST", "/graphql", viewer, []string{"Content-Type", "application/graphql"},
				"content_malformed"},
			{"no document", "POST", "/graphql", "", []string{"Content-Type", "application/json"}, "message_malformed"},
			{"a document in the URL", "POST", "/graphql" + mutation, comment, nil, "override_refused"},
			{"a mutation by GET", "GET", "/graphql" + mutation, "", nil, "graphql_refused"},
			{"one with a body", "GET", "/graphql" + mutation, comment, nil, "message_malformed"},
			{"another spelling of the path", "GET", "/graphql/" + mutation, "", nil, "request_malformed"},
			{"in capitals", "GET", "/GraphQL" + mutation, "", nil, "request_malformed"},
			{"a compressed body", "POST", "/graphql", viewer, []string{"Content-Encoding", "gzip"},
				"content_malformed"},
			{"a WebSocket", "GET", "/graphql", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"},
				"egress_denied"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				p.T = t
				p.record.t = t
				p.wantRefused(tt.want, tt.method, tt.path, tt.body, tt.header...)
			})
		}
		p.T, p.record.t = t, t
		p.want(map[bool]int{true: http.StatusCreated, false: http.StatusForbidden}[queries], "POST", "/graphql", viewer)
	}
	p, _ := newGraphQLRig(t, false)
	resp, text := p.send("POST", "/graphql", viewer)
	var d struct {
		problem.Details
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil || resp.Header.Get("Content-Type") != "application/json" ||
		len(d.Errors) != 1 || !strings.HasPrefix(d.Errors[0].Message,
		"action_unmatched: no rule names the query viewer") {
		t.Errorf("got %v %s", resp.Header, text)
	}
	p.wantLast(1, ledger.Record{Message: "query viewer", Code: "action_unmatched", ID: d.Post})
}

// A rule for the whole host lets no GraphQL in a URL pass, for all methods that the GraphQL rule names.
func TestGraphQLMethods(t *testing.T) {
	viewer := "?query=" + url.QueryEscape("{ viewer { login } }")
	mutation := "?query=" + url.QueryEscape("mutation { addComment(input: {}) { id } }")
	for _, methods := range [][]string{{"POST"}, {"GET", "POST"}, {"HEAD", "POST"}} {
		p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
			o.Rules = rulesFor(t, nil, []rules.Egress{{Name: "reads", Match: matchAt(actions[0], "/**", "GET", "HEAD")},
				{Name: "queries", Match: matchAt(actions[0], "/graphql", methods...),
					GraphQL: &graphql.Rule{Type: graphql.Query}}})
		})
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(fmt.Sprint(method, " under ", methods), func(t *testing.T) {
				p.T, p.record.t = t, t
				resp, _ := p.send(method, "/graphql"+mutation, "")
				if resp.StatusCode != http.StatusForbidden {
					t.Errorf("a mutation: %d", resp.StatusCode)
				}
				resp, _ = p.send(method, "/graphql"+viewer, "")
				if passed := resp.StatusCode == http.StatusCreated; passed != slices.Contains(methods, method) {
					t.Errorf("a query: %d", resp.StatusCode)
				}
			})
		}
	}
}

// Some servers run a mutation in the URL, or a message in the body, also if an OPTIONS brings it.
func TestGraphQLByOptions(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		comment := actions[0]
		comment.Match = matchAt(comment, "/graphql", "POST")
		comment.GraphQL = &graphql.Rule{Type: graphql.Mutation, Fields: []string{"addComment"}}
		o.Rules = rulesFor(t, []rules.Action{comment},
			[]rules.Egress{{Name: "reads", Match: matchAt(comment, "/**", "GET", "OPTIONS")}})
	})
	mutation := "?query=" + url.QueryEscape("mutation { addComment(input: {}) { id } }")
	for _, path := range []string{"/graphql", "/GraphQL/", "/graphql;a=b"} {
		p.wantRefused("message_malformed", "OPTIONS", path+mutation, "")
		p.wantRefused("message_malformed", "OPTIONS", path, comment)
		p.want(http.StatusCreated, "OPTIONS", path, "")
	}
	p.want(http.StatusCreated, "OPTIONS", "/graphql?query="+url.QueryEscape("{ viewer { login } }"), "")
	p.want(http.StatusCreated, "OPTIONS", "/other"+mutation, "")
}

func TestGraphQLRulesThatAreRefused(t *testing.T) {
	at := func(url string, methods ...string) match.Match { return matching(t, url, methods...) }
	const endpoint = "https://api.example.com/graphql"
	mutation := func(name string, fields ...string) rules.Action {
		return rules.Action{Name: name, Match: at(endpoint, "POST"),
			GraphQL: &graphql.Rule{Type: graphql.Mutation, Fields: fields}}
	}
	query := rules.Egress{Name: "queries", Match: at(endpoint, "GET", "HEAD", "POST"),
		GraphQL: &graphql.Rule{Type: graphql.Query}}
	again := query
	again.Name = "again"
	for _, tt := range []struct {
		name    string
		actions []rules.Action
		egress  []rules.Egress
		want    string
	}{
		{"both", []rules.Action{mutation("a", "x"), mutation("b", "y")}, []rules.Egress{query}, ""},
		{"a read of the host beside", []rules.Action{mutation("a", "x")},
			[]rules.Egress{{Name: "reads", Match: at("https://api.example.com/**", "GET", "HEAD")}}, ""},
		{"a WebSocket beside", []rules.Action{mutation("a", "x")},
			[]rules.Egress{{Name: "w", Match: at("https://api.example.com/socket", "GET"), WebSocket: true}}, ""},
		{"one field twice", []rules.Action{mutation("a", "x"), mutation("b", "x")}, nil, "name the mutation x"},
		{"queries twice", nil, []rules.Egress{query, again}, "one of them names every field"},
		{"a plain POST", []rules.Action{mutation("a", "x")},
			[]rules.Egress{{Name: "p", Match: at("https://api.example.com/{any}", "POST")}},
			"spellings of an action's path"},
		{"a plain POST over queries", nil,
			[]rules.Egress{query, {Name: "p", Match: at("https://api.example.com/**", "POST")}},
			"spellings of an egress rule's path"},
		{"a plain GET there", []rules.Action{mutation("a", "x")},
			[]rules.Egress{{Name: "p", Match: at(endpoint, "GET")}}, "same path pattern"},
		{"a WebSocket there", []rules.Action{mutation("a", "x")},
			[]rules.Egress{{Name: "w", Match: at(endpoint, "GET"), WebSocket: true}}, "is about messages"},
		{"a WebSocket of the host", []rules.Action{mutation("a", "x")},
			[]rules.Egress{{Name: "w", Match: at("https://api.example.com/**", "GET"), WebSocket: true}},
			"is about messages"},
		{"a WebSocket of the domain", nil,
			[]rules.Egress{query, {Name: "w", Match: at("https://*.example.com/**", "GET"), WebSocket: true}},
			"is about messages"},
		{"a WebSocket of another spelling", nil,
			[]rules.Egress{query, {Name: "w", Match: at("https://api.example.com/GraphQL/", "GET"), WebSocket: true}},
			"is about messages"},
		{"a WebSocket in the clear", nil,
			[]rules.Egress{query, {Name: "w", Match: at("http://api.example.com:443/graphql", "GET"), WebSocket: true}},
			"is about messages"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := rules.New(tt.actions, tt.egress, nil); (err == nil) != (tt.want == "") || err != nil &&
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// An agent names any field, and can be refused as often as it likes.
func TestRecordsOfFieldsAreSmall(t *testing.T) {
	p, _ := newGraphQLRig(t, true)
	for _, kind := range []string{"query", "mutation"} {
		p.send("POST", "/graphql", fmt.Sprintf(`{"query":"%s{a %s}"}`, kind, strings.Repeat("b", 40<<10)))
		rec, _ := p.record.last()
		if text, err := json.Marshal(rec); err != nil || len(text) > 4<<10 || len(rec.GraphQL) != 1 {
			t.Errorf("a %s left a record of %d bytes: %v", kind, len(text), err)
		}
	}
}

// Judging a URL or a message of a few KiB takes long enough that the calls of one session, all at once, would keep the
// processors from others.
func TestCallsAreJudgedInTurn(t *testing.T) {
	p, _ := newGraphQLRig(t, true)
	long := strings.Repeat("a ", 3<<10)
	for name, call := range map[string][3]string{"a path": {"GET", "/" + strings.ReplaceAll(long, " ", "/") + "a", ""},
		"a query":   {"GET", "/a?" + strings.ReplaceAll(long, " ", "&"), ""},
		"a message": {"POST", "/graphql", `{"query":"{` + long + `}"}`}} {
		turn, err := p.pipeline.bodies.Turn(t.Context(), p.session.ID, len(long))
		must(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.send(call[0], call[1], call[2])
		}()
		p.want(http.StatusCreated, "GET", "/short", "")
		select {
		case <-done:
			t.Errorf("%s did not wait for its turn", name)
		case <-time.After(100 * time.Millisecond):
		}
		turn()
		<-done
	}
}
