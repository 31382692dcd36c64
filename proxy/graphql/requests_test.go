package graphql_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/test/check"
)

// rules are the rules of testdata/requests.txt.
var rules = []*graphql.Rule{
	{Type: graphql.Mutation, Fields: []string{"addComment", "addReaction"}},
	{Type: graphql.Mutation, Fields: []string{"createIssue"}},
	{Type: graphql.Query},
}

type request struct {
	name, method, url, contentType, body, want string
}

func readRequests(t testing.TB) []request {
	t.Helper()
	text, err := os.ReadFile("testdata/requests.txt")
	check.Must(t, err)
	var all []request
	for _, part := range strings.Split(string(text), "\n== ")[1:] {
		lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
		r := request{name: lines[0]}
		if len(lines) < 4 || !strings.HasPrefix(lines[1], "# ") || slices.ContainsFunc(all, func(o request) bool {
			return o.name == r.name
		}) {
			t.Fatalf("%s is not in order", r.name)
		}
		line, contentType, _ := strings.Cut(lines[2], " ")
		r.method, r.contentType = line, contentType
		if method, query, ok := strings.Cut(line, "?"); ok {
			r.method, r.url = method, "?"+query
		}
		if r.method != http.MethodPost {
			r.url, r.contentType = contentType, ""
		}
		want, ok := strings.CutPrefix(lines[len(lines)-1], "< ")
		if !ok {
			t.Fatalf("%s has no verdict", r.name)
		}
		r.want = want
		r.body = strings.NewReplacer(`\r\n[`, "\r\n[", `--x\r\n`,
			"--x\r\n").Replace(strings.Join(lines[3:len(lines)-1], "\n"))
		all = append(all, r)
	}
	return all
}

func (r request) judge() (int, []graphql.Operation, error) {
	u, err := url.Parse("https://api.example.com/graphql" + r.url)
	if err != nil {
		return 0, nil, err
	}
	var operations []graphql.Operation
	if r.method == http.MethodPost {
		operations, err = graphql.ReadPost(http.Header{"Content-Type": {r.contentType}}, u, []byte(r.body))
	} else {
		operations, err = graphql.ReadGet(u)
	}
	if err != nil {
		return 0, nil, err
	}
	i, err := graphql.Choose(operations, rules)
	if err == nil && rules[i].Type == graphql.Mutation && r.method != http.MethodPost {
		err = refusal.New("graphql_refused", "")
	}
	return i, operations, err
}

func TestRequests(t *testing.T) {
	all := readRequests(t)
	if len(all) < 90 {
		t.Errorf("only %d requests", len(all))
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			i, operations, err := r.judge()
			if err != nil {
				check.WantCode(t, err, r.want)
				return
			}
			if got := fmt.Sprintf("%d %s", i, graphql.Does(operations)); got != r.want {
				t.Errorf("got %s, want %s", got, r.want)
			}
		})
	}
}

func TestCodesAreCovered(t *testing.T) {
	all := readRequests(t)
	for _, code := range []string{"message_malformed", "message_ambiguous", "graphql_refused", "action_unmatched"} {
		if !slices.ContainsFunc(all, func(r request) bool { return r.want == code }) {
			t.Errorf("no request is refused as %s", code)
		}
	}
}

func TestBounds(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "f%d ", i)
		}
		return b.String()
	}
	for _, tt := range []struct{ name, document, want string }{
		{"bytes", "{ a(x: \"" + strings.Repeat("x", 256<<10) + "\") }", "content_too_large"},
		{"bytes that are taken", "{ a(x: \"" + strings.Repeat("x", 255<<10) + "\") }", ""},
		{"tokens", "{ a { " + strings.Repeat("b ", 20_000) + "} }", "content_too_large"},
		{"comments", "{ a } " + strings.Repeat("#\n", 30_000), "content_too_large"},
		{"fields", "{" + fields(257) + "}", "content_too_large"},
		{"fields that are taken", "{" + fields(256) + "}", ""},
		{"depth", strings.Repeat("{ a ", 6000) + strings.Repeat("}", 6000), "message_malformed"},
		{"depth of a value", "{ a(x: " + strings.Repeat("[", 6000) + strings.Repeat("]", 6000) + ") }",
			"message_malformed"},
		{"depth of an object", "{ a(x: " + strings.Repeat("{a:", 6000) + "1" + strings.Repeat("}", 6000) + ") }",
			"message_malformed"},
		{"depth of a type", "query($x: " + strings.Repeat("[", 6000) + "Int" + strings.Repeat("]", 6000) + ") { a }",
			"message_malformed"},
		{"inline fragments", "{" + strings.Repeat("...{", 3000) + "a" + strings.Repeat("}", 3000) + "}",
			"message_malformed"},
		{"spreads of spreads", spreads(600), ""},
		{"bytes that are no UTF-8", "", "message_malformed"},
		{"spreads of spreads, in many operations", strings.Repeat("query A { ...F0 } ", 900) + spreads(900),
			"content_too_large"},
		{"operations", strings.Repeat("query A { a } ", 3000), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, err := json.Marshal(map[string]string{"query": tt.document})
			check.Must(t, err)
			if tt.document == "" {
				body = []byte("{\"query\":\"{ a(x: \\\"\xc0\xa2\\\") }\", \"variables\": null}")
			}
			_, err = graphql.ReadPost(http.Header{"Content-Type": {"application/json"}}, &url.URL{}, body)
			if (err == nil) != (tt.want == "") || err != nil && check.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// It would expand to 2^n fields.
func spreads(n int) string {
	var b strings.Builder
	b.WriteString("{ ...F0 }")
	for i := range n {
		fmt.Fprintf(&b, " fragment F%d on Query { ...F%d ...F%d }", i, i+1, i+1)
	}
	fmt.Fprintf(&b, " fragment F%d on Query { a }", n)
	return b.String()
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule graphql.Rule
		post bool
		want string
	}{
		{"an action", graphql.Rule{Type: "mutation", Fields: []string{"addComment"}}, true, ""},
		{"an egress rule", graphql.Rule{Type: "query"}, false, ""},
		{"an egress rule with fields", graphql.Rule{Type: "query", Fields: []string{"viewer", "__schema"}}, false, ""},
		{"another type", graphql.Rule{Type: "subscription"}, false, "neither query nor mutation"},
		{"no type", graphql.Rule{}, false, "neither query nor mutation"},
		{"mutations without evidence", graphql.Rule{Type: "mutation", Fields: []string{"a"}}, false,
			"an action is for mutations"},
		{"queries that post", graphql.Rule{Type: "query", Fields: []string{"a"}}, true, "an action is for mutations"},
		{"any mutation", graphql.Rule{Type: "mutation"}, true, "must name its fields"},
		{"an empty list", graphql.Rule{Type: "query", Fields: []string{}}, false, "names 0 fields"},
		{"too many", graphql.Rule{Type: "query", Fields: strings.Split(strings.Repeat("a,", 60)+"a", ",")}, false,
			"names 61 fields"},
		{"a wildcard", graphql.Rule{Type: "query", Fields: []string{"*"}}, false, "not the name of a field"},
		{"one twice", graphql.Rule{Type: "query", Fields: []string{"a", "a"}}, false, "twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.rule.Check(tt.post); (err == nil) != (tt.want == "") || err != nil &&
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	comments, more, queries, viewer := rules[0], &graphql.Rule{Type: "mutation", Fields: []string{"addReaction"}},
		rules[2], &graphql.Rule{Type: "query", Fields: []string{"viewer"}}
	for _, tt := range []struct {
		rules []*graphql.Rule
		want  string
	}{
		{rules, ""},
		{[]*graphql.Rule{comments, more}, "name the mutation addReaction"},
		{[]*graphql.Rule{queries, viewer}, "one of them names every field"},
		{[]*graphql.Rule{viewer, queries}, "one of them names every field"},
	} {
		if i, err := graphql.CheckRules(tt.rules); (err == nil) != (tt.want == "") || err != nil &&
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		} else if err != nil && i != 1 {
			t.Errorf("rule %d is the second of the two", i)
		}
	}
	// A list of queries allows no others, introspection included.
	for field, want := range map[string]bool{"viewer": true, "__typename": true, "__schema": false, "repository": false} {
		if _, err := graphql.Choose([]graphql.Operation{{Type: "query", Fields: []string{field}}},
			[]*graphql.Rule{viewer}); (err == nil) != want {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := graphql.Choose(nil, rules); err == nil {
		t.Error("nothing fits a rule")
	}
	if _, err := graphql.Choose([]graphql.Operation{{Type: "query", Fields: []string{"a"}}}, nil); err == nil {
		t.Error("no rule names something")
	}
}

func TestWriteProblem(t *testing.T) {
	w := httptest.NewRecorder()
	graphql.WriteProblem(w, problem.DetailsOf(refusal.New("action_unmatched", "no rule names it")))
	var got struct {
		Code, Message string
		Status        int
		Errors        []struct {
			Message    string
			Extensions struct{ Code string }
		}
	}
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &got))
	const message = "action_unmatched: no rule names it"
	if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/json" ||
		got.Code != "action_unmatched" || got.Message != message ||
		len(got.Errors) != 1 || got.Errors[0].Message != message ||
		got.Errors[0].Extensions.Code != "action_unmatched" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func FuzzRequests(f *testing.F) {
	for _, r := range readRequests(f) {
		f.Add(r.method == http.MethodPost, r.url, r.body)
	}
	f.Fuzz(func(t *testing.T, post bool, query, body string) {
		r := request{method: http.MethodGet, url: query, contentType: "application/json", body: body}
		if post {
			r.method = http.MethodPost
		}
		i, operations, err := r.judge()
		var refused *refusal.Refusal
		var inURL *url.Error
		if err != nil {
			if !errors.As(err, &refused) && !errors.As(err, &inURL) {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		for _, o := range operations {
			if o.Type != rules[i].Type || len(o.Fields) == 0 {
				t.Fatalf("%+v fits the rule %+v", o, rules[i])
			}
			for _, field := range o.Fields {
				if rules[i].Fields != nil && field != "__typename" && !slices.Contains(rules[i].Fields, field) {
					t.Fatalf("%+v fits the rule %+v", o, rules[i])
				}
			}
		}
	})
}
