package learn_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/learn"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/rulesfile"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/test/check"
)

// rulesOf returns the rules of a configuration that has these and no others.
func rulesOf(t testing.TB, rules []byte) *rules.Rules {
	t.Helper()
	base, _, _ := bytes.Cut(configs.Dev["mediator.yaml"], []byte("# Calls that post:"))
	merged, err := rulesfile.Merge(base, rules)
	check.Must(t, err)
	c, err := config.CheckSidecar(filepath.Join(t.TempDir(), "mediator.yaml"), merged)
	check.Must(t, err)
	all, err := c.Rules()
	check.Must(t, err)
	return all
}

// judge judges by rules.
func judge(rules *rules.Rules) learn.Judge {
	return func(r ledger.Record) error { _, err := rules.Judge(r); return err }
}

// accepted returns the rules of all proposals at a width, each action with a subject.
func accepted(t testing.TB, proposals []*learn.Proposal, width learn.Width) *rules.Rules {
	t.Helper()
	var rules []learn.Rule
	for _, p := range proposals {
		rules = append(rules, p.Rules(width)...)
	}
	for i := range rules {
		if rules[i].Post {
			rules[i].Subject = "agent:worker-1"
		}
	}
	text, err := learn.YAML(rules, func(int) string { return "" })
	check.Must(t, err)
	return rulesOf(t, text)
}

// known are the rules that the sessions of TestLearnBack obey. {id} is a number, {key} another id, [a|b] one of words.
const known = `GET api.example.com/users/{id}
GET api.example.com/users/me
HEAD api.example.com/users/{id}
GET api.example.com/v2/projects/{key}/issues/{id}/comments
POST api.example.com/v2/projects/{key}/issues
PATCH api.example.com/v2/projects/{key}/issues/{id}
DELETE api.example.com/v2/projects/{key}
GET files.example.org:8443/2010-04-01/blobs/{key}
PUT files.example.org:8443/2010-04-01/blobs/{key}
POST hooks.example.net/T/{key}/B/{key}
GET docs.example.net/guide/install.html
mcp mcp.example.com/mcp initialize
mcp mcp.example.com/mcp tools/list
mcp mcp.example.com/mcp tools/call create_issue
mcp mcp.example.com/mcp tools/call search
GET mcp.example.com/mcp
mcp tools.example.org/v1/sse initialize
mcp tools.example.org/v1/sse tools/call send-mail
query graph.example.com/graphql viewer,issues
query graph.example.com/graphql issues
mutation graph.example.com/graphql addComment
fetch git.example.org/team/app.git/git-upload-pack`

const knownRules = `
actions:
  - {name: a1, subject: "agent:worker-1", action: a,
     match: {url: "https://api.example.com/v2/projects/{p}/issues", methods: [POST]}}
  - {name: a2, subject: "agent:worker-1", action: a,
     match: {url: "https://api.example.com/v2/projects/{p}/issues/{i}", methods: [PATCH]}}
  - {name: a3, subject: "agent:worker-1", action: a,
     match: {url: "https://api.example.com/v2/projects/{p}", methods: [DELETE]}}
  - {name: a4, subject: "agent:worker-1", action: a,
     match: {url: "https://files.example.org:8443/2010-04-01/blobs/{b}", methods: [PUT]}}
  - {name: a5, subject: "agent:worker-1", action: a,
     match: {url: "https://hooks.example.net/T/{t}/B/{b}", methods: [POST]}}
  - {name: a6, subject: "agent:worker-1", action: a,
     match: {url: "https://mcp.example.com/mcp", mcp: {tools: [create_issue, search]}}}
  - {name: a7, subject: "agent:worker-1", action: a,
     match: {url: "https://tools.example.org/v1/sse", mcp: {tools: [send-mail]}}}
  - {name: a8, subject: "agent:worker-1", action: a,
     match: {url: "https://graph.example.com/graphql", graphql: {type: mutation, fields: [addComment]}}}
egress:
  - {name: e1, match: {url: "https://api.example.com/users/{u}", methods: [GET, HEAD]}}
  - {name: e2, match: {url: "https://api.example.com/users/me", methods: [GET]}}
  - {name: e3, match: {url: "https://api.example.com/v2/projects/{p}/issues/{i}/comments", methods: [GET]}}
  - {name: e4, match: {url: "https://files.example.org:8443/2010-04-01/blobs/{b}", methods: [GET]}}
  - {name: e5, match: {url: "https://docs.example.net/guide/install.html", methods: [GET]}}
  - {name: e6, match: {url: "https://mcp.example.com/mcp", mcp: {}}}
  - {name: e7, match: {url: "https://tools.example.org/v1/sse", mcp: {}}}
  - {name: e8, match: {url: "https://graph.example.com/graphql", graphql: {type: query, fields: [viewer, issues]}}}
  - {name: e9, match: {url: "https://git.example.org/team/app.git/git-upload-pack", methods: [POST]}}
`

type traffic struct{ *rand.Rand }

func (g traffic) id() string { return fmt.Sprint(1 + g.IntN(9_999_999)) }

func (g traffic) key() string {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(g.id())))
	return []string{
		sum[:40], sum[:8] + "-" + sum[8:12] + "-4" + sum[13:16] + "-a" + sum[17:20] + "-" + sum[20:32],
		"cus_" + "1" + strings.ToUpper(sum[:13]), fmt.Sprint(100_000 + g.IntN(1e9)),
	}[g.IntN(4)]
}

// call makes a call of a known form, recorded as by a learning session.
func (g traffic) call(form string) ledger.Record {
	method, url, message := cut3(form)
	host, path, _ := strings.Cut(url, "/")
	for strings.Contains(path, "{id}") || strings.Contains(path, "{key}") {
		path = strings.Replace(strings.Replace(path, "{id}", g.id(), 1), "{key}", g.key(), 1)
	}
	if !strings.Contains(host, ":") {
		host += ":443"
	}
	r := ledger.Record{Scheme: "https", Host: host, Path: "/" + path, Method: method, State: ledger.StateForwarded,
		Learning: true, Started: time.Unix(1.8e9+g.Int64N(1e6), 0)}
	switch method {
	case "mcp":
		name, tool, _ := strings.Cut(message, " ")
		r.Method, r.MCP = "POST", &ledger.MCPMessage{Method: name, Tool: tool}
	case "fetch":
		r.Method, r.Carries = "POST", "application/x-git-upload-pack-request"
	case "query", "mutation":
		r.Method, r.GraphQL = "POST", []ledger.Operation{{Type: method, Fields: strings.Split(message, ",")}}
	}
	if !slices.Contains([]string{"GET", "HEAD", "query"}, method) && (r.MCP == nil || r.MCP.Tool != "") {
		r.State, r.Code = ledger.StateRefused, "learning_refused"
	}
	return r
}

func cut3(s string) (a, b, c string) {
	a, b, _ = strings.Cut(s, " ")
	b, c, _ = strings.Cut(b, " ")
	return a, b, c
}

// other changes a call in one place.
func (g traffic) other(r ledger.Record) ledger.Record {
	segments := strings.Split(r.Path, "/")
	at := 1 + g.IntN(len(segments)-1)
	switch g.IntN(6) {
	case 0:
		r.Method = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}[g.IntN(7)]
	case 1:
		segments[at] = "admin"
	case 2:
		segments = append(segments, "delete")
	case 3:
		segments = segments[:max(2, len(segments)-1)]
	case 4:
		r.Host = "www." + r.Host
	case 5:
		switch {
		case r.MCP != nil:
			r.MCP = &ledger.MCPMessage{Method: "tools/call", Tool: r.MCP.Tool + "x"}
		case r.GraphQL != nil:
			r.GraphQL = []ledger.Operation{{Type: r.GraphQL[0].Type, Fields: []string{"deleteAll"}}}
		default:
			r.Scheme, r.Host = "http", strings.ReplaceAll(r.Host, ":443", ":80")
		}
	}
	r.Path = strings.Join(segments, "/")
	return r
}

// TestLearnBack learns rules from sessions that obey known ones. The learnt rules must decide every call as those do:
// the recorded ones, new ones of the same forms, and ones changed in a place.
func TestLearnBack(t *testing.T) {
	g, want := traffic{rand.New(rand.NewPCG(1, 2))}, rulesOf(t, []byte(knownRules))
	forms := strings.Split(known, "\n")
	calls := learn.New(judge(rulesOf(t, []byte("{}"))))
	var recorded []ledger.Record
	for session := range 200 {
		for range 1 + g.IntN(20) {
			r := g.call(forms[g.IntN(len(forms))])
			r.Session = fmt.Sprint("ses_", session)
			recorded = append(recorded, r)
			calls.Add(r)
		}
		if bad := g.other(recorded[len(recorded)-1]); session%10 == 0 { // nothing is learnt from it
			bad.Session, bad.Unfit = fmt.Sprint("bad_", session), "egress_address_refused"
			calls.Add(bad)
		}
	}
	proposals := calls.Propose(nil)
	got := accepted(t, proposals, learn.Normal)
	same := func(r ledger.Record) (allowed bool) {
		t.Helper()
		a, errA := want.Judge(r)
		b, errB := got.Judge(r)
		if (errA == nil) != (errB == nil) || a.Post != b.Post {
			t.Errorf("%s %s://%s%s %+v %+v: known %+v %v, learnt %+v %v", r.Method, r.Scheme, r.Host, r.Path, r.MCP,
				r.GraphQL, a, errA, b, errB)
		}
		return errA == nil
	}
	counts := map[string]int{}
	for _, r := range recorded {
		if !same(r) {
			t.Errorf("the generator made %+v", r)
		}
	}
	for range 20_000 {
		r := g.call(forms[g.IntN(len(forms))])
		same(r)
		if same(g.other(r)) {
			counts["allowed"]++
		} else {
			counts["refused"]++
		}
	}
	t.Logf("%d calls in 200 sessions, %d proposals; 20000 new calls of the same forms allowed; of 20000 changed ones "+
		"%d allowed and %d refused, as by the known rules", len(recorded), len(proposals), counts["allowed"],
		counts["refused"])
}

// TestTemplates tells ids from names.
func TestTemplates(t *testing.T) {
	for paths, want := range map[string]string{
		"/users/1 /users/22":                                "/users/{id}",
		"/users/list /users/delete":                         "/users/delete /users/list",
		"/users/me /users/7":                                "/users/me /users/{id}",
		"/v1/x /v2/x /3/x":                                  "/3/x /v1/x /v2/x",
		"/2010-04-01/a/2026-01-31":                          "/2010-04-01/a/{id}",
		"/c/0f8fad5b-d9cb-469f-a165-70867728950e/s":         "/c/{id}/s",
		"/c/defaced /c/decade /c/3f2a9bc":                   "/c/decade /c/defaced /c/{id}",
		"/hash/sha-256 /hash/sha-512":                       "/hash/sha-256 /hash/sha-512",
		"/k/cus_NffrFeUfNV2Hib /k/evt_06H0B6F94I1D":         "/k/{id}",
		"/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms":   "/d/{id}",
		"/a/listS3BucketsByOwner /a/deleteS3BucketsByOwner": "/a/deleteS3BucketsByOwner /a/listS3BucketsByOwner",
		"/a/get_oauth2tokens /a/delete_oauth2tokens":        "/a/delete_oauth2tokens /a/get_oauth2tokens",
		"/** /{x} /a*":                                      "", // an agent may call them, and a rule would mean more
		"/":                                                 "/",
	} {
		calls := learn.New(judge(rulesOf(t, []byte("{}"))))
		for path := range strings.FieldsSeq(paths) {
			calls.Add(ledger.Record{Session: "s", Scheme: "https", Host: "a.test:443", Method: "GET", Path: path,
				State: ledger.StateForwarded})
		}
		var got []string
		for _, p := range calls.Propose(nil) {
			got = append(got, strings.TrimPrefix(p.Normal[0].Match.URL, "https://a.test"))
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", paths, got, want)
		}
	}
}

// TestMutations wants one proposal for mutations that share fields, and others apart.
func TestMutations(t *testing.T) {
	calls := learn.New(judge(rulesOf(t, []byte("{}"))))
	for _, fields := range []string{"a,b", "d", "c,e", "b,c,__typename", "__typename"} {
		r := traffic{rand.New(rand.NewPCG(5, 6))}.call("mutation graph.example.com/graphql " + fields)
		r.Session = "s"
		calls.Add(r)
	}
	var got []string
	for _, p := range calls.Propose(nil) {
		got = append(got, strings.Join(p.Normal[0].Match.GraphQL.Fields, ""))
	}
	if slices.Sort(got); !slices.Equal(got, []string{"__typename", "abce", "d"}) {
		t.Errorf("got %q", got)
	}
}

// TestWidths wants each width to allow what was seen, and the narrow one nothing else.
func TestWidths(t *testing.T) {
	g := traffic{rand.New(rand.NewPCG(3, 4))}
	for form := range strings.SplitSeq(known, "\n") {
		calls, seen := learn.New(judge(rulesOf(t, []byte("{}")))), g.call(form)
		seen.Session = "s"
		calls.Add(seen)
		proposals := calls.Propose([]string{"taken"})
		for _, width := range []learn.Width{learn.Narrow, learn.Normal, learn.Wide} {
			rules := accepted(t, proposals, width)
			if _, err := rules.Judge(seen); err != nil {
				t.Errorf("%s, %d: %v", form, width, err)
			}
			if _, err := rules.Judge(g.call(form)); width == learn.Narrow && strings.Contains(form, "{") && err == nil {
				t.Errorf("%s: the narrow rule allows another call", form)
			}
		}
		reads, ok := proposals[0].Reads(learn.Normal)
		if ok != !strings.HasPrefix(form, "mutation") || ok && slices.ContainsFunc(reads, func(r learn.Rule) bool {
			return r.Post
		}) {
			t.Errorf("%s: reads %+v", form, reads)
		}
	}
	if _, err := rulesOf(t, []byte("{}")).Judge(g.call("GET a.test/x")); refusal.CodeOf(err) != "egress_denied" {
		t.Errorf("got %v", err)
	}
}

// TestCarried proposes rules that allow what calls carry, and nothing of it to other paths.
func TestCarried(t *testing.T) {
	record := func(method, path, carries string) ledger.Record {
		return ledger.Record{Session: "s", Scheme: "https", Host: "a.test:443", Method: method, Path: path,
			Carries: carries}
	}
	calls := learn.New(judge(rulesOf(t, []byte("{}"))))
	for _, r := range []ledger.Record{record("GET", "/rooms/12345", ledger.WebSocket),
		record("GET", "/rooms/67890", ""),
		record("POST", "/files", "multipart/form-data"), record("POST", "/notes", "")} {
		calls.Add(r)
	}
	proposals := calls.Propose(nil)
	var got []string
	for _, p := range proposals {
		for _, r := range append(p.Narrow, p.Wide...) {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %t %t %s",
				strings.TrimPrefix(r.Match.URL, "https://a.test"), p.WebSocket, r.WebSocket, r.Content)))
		}
	}
	want := []string{"/rooms/12345 true true", "/rooms/67890 true false", "/rooms/{id} true true",
		"/files false false raw",
		"/files false false raw", "/notes false false", "/notes false false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	rules := accepted(t, proposals, learn.Narrow)
	if _, err := rules.Judge(record("GET", "/rooms/12345", ledger.WebSocket)); err != nil {
		t.Error(err)
	}
	if _, err := rules.Judge(record("GET", "/rooms/67890", ledger.WebSocket)); !learn.IsUnruled(err) {
		t.Errorf("a read's rule allows a WebSocket: %v", err)
	}
}

// TestFetches wants one proposal for each git repository, apart from other calls to the same address. It has both calls
// of a fetch, once the first was made.
func TestFetches(t *testing.T) {
	calls := learn.New(judge(rulesOf(t, []byte("{}"))))
	for _, call := range []string{"/12345/git-upload-pack", "/67890/git-upload-pack", "/12345/git-upload-pack json",
		"/67890/info/refs service", "/app/info/refs service", "/docs/info/refs json"} {
		path, other, _ := strings.Cut(call, " ")
		r := ledger.Record{Session: "s", Scheme: "https", Host: "a.test:443", Method: "POST", Path: path,
			Carries: "application/x-git-upload-pack-request"}
		if other != "" {
			r.Carries = ""
		}
		if strings.HasSuffix(path, "/info/refs") {
			r.Method, r.QueryNames = "GET", []string{other}
		}
		calls.Add(r)
	}
	var got []string
	for _, p := range calls.Propose(nil) {
		text := fmt.Sprint(p.Post)
		for _, r := range p.Normal {
			text += " " + strings.TrimPrefix(r.Match.URL, "https://a.test")
		}
		got = append(got, text)
	}
	want := []string{"true /{id}/git-upload-pack", "false /12345/git-upload-pack",
		"false /67890/git-upload-pack /67890/info/refs", "false /app/git-upload-pack /app/info/refs",
		"false /docs/info/refs"}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("got %q", got)
	}
}

// FuzzPropose wants correct rules that allow the call, whatever an agent called.
func FuzzPropose(f *testing.F) {
	f.Add("GET", "a.test:443", "/users/1", "", "")
	f.Add("POST", "[::1]:80", "/a%2Fb/**/{x}", "tool: #", "")
	f.Add("PUT", "*.a.test:1", "/%7Bx%7D/'\"\\", "", "f")
	f.Add("TRACE", "a.test:443", "//", "", "")
	f.Fuzz(func(t *testing.T, method, host, path, tool, field string) {
		r := ledger.Record{Session: "s", Scheme: "https", Host: host, Method: method, Path: path}
		if tool != "" {
			r.MCP = &ledger.MCPMessage{Method: "tools/call", Tool: tool}
		} else if field != "" {
			r.GraphQL = []ledger.Operation{{Type: "query", Fields: []string{field}}}
		}
		calls := learn.New(judge(rulesOf(t, []byte("{}"))))
		calls.Add(r)
		proposals := calls.Propose(nil)
		for _, width := range []learn.Width{learn.Narrow, learn.Normal, learn.Wide} {
			if rules := accepted(t, proposals, width); len(proposals) > 0 {
				if _, err := rules.Judge(r); err != nil {
					t.Errorf("%+v: %v", r, err)
				}
			}
		}
	})
}

// TestAsks wants a default key to accept only what HTTP says to read: an agent can make any URL look like an MCP
// server, and then end its session, by which another API deletes something.
func TestAsks(t *testing.T) {
	g := traffic{rand.New(rand.NewPCG(7, 8))}
	calls := learn.New(judge(rulesOf(t, []byte("{}"))))
	for form := range strings.SplitSeq(known+`
mcp bank.example.com/v1/accounts/42 initialize
DELETE bank.example.com/v1/accounts/42
mcp bank.example.com/rpc transfer`, "\n") {
		r := g.call(form)
		r.Session = "s"
		calls.Add(r)
	}
	var about []string
	for _, p := range calls.Propose(nil) {
		for _, r := range slices.Concat(p.Narrow, p.Normal, p.Wide) {
			if m := r.Match; !p.Asks() &&
				(m.MCP != nil || m.GraphQL != nil || !slices.ContainsFunc(m.Methods, match.IsRead) ||
					slices.ContainsFunc(m.Methods, func(name string) bool { return !match.IsRead(name) })) {
				t.Errorf("Enter accepts %s: %+v", p.About, r)
			}
		}
		if strings.Contains(p.Host, "bank") {
			about = append(about, p.About)
		}
	}
	const server = "sessions, lists and reads of the MCP server https://bank.example.com"
	if want := []string{"transfer, which may post, and " + server + "/rpc, by GET, POST and DELETE",
		server + "/v1/accounts/42, by GET, POST and DELETE"}; !slices.Equal(about, want) {
		t.Errorf("proposed %q, want %q", about, want)
	}
}

// TestLongPaths: what an agent calls does not take all memory of the one who learns from it.
func TestLongPaths(t *testing.T) {
	calls, long := learn.New(judge(rulesOf(t, []byte("{}")))), strings.Repeat("a", 60<<10)
	for i := range 2000 {
		calls.Add(ledger.Record{Session: "s", Scheme: "https", Host: "a.test:443", Method: "GET",
			State: ledger.StateForwarded,
			Path:  fmt.Sprintf("/%d%s", i, long)})
	}
	if calls.Left < 800 {
		t.Errorf("of 240 MB only %d calls are left out", calls.Left)
	}
}
