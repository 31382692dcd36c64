package match_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

func parse(t testing.TB, url string, methods ...string) match.Match {
	t.Helper()
	m, err := match.Parse(url, methods)
	check.Must(t, err)
	return m
}

// wantFound finds the rule of a call by its name, or the code of its refusal.
func wantFound(t *testing.T, rules *match.Rules, method, url, want string) {
	t.Helper()
	scheme, rest, _ := strings.Cut(url, "://")
	authority, path, _ := strings.Cut(rest, "/")
	target, err := upstream.ParseOrigin(scheme, authority)
	check.Must(t, err)
	switch r, err := rules.Find(target, method, "/"+path); {
	case err != nil:
		check.WantCode(t, err, want)
	case r.Rules[0].Name != want:
		t.Errorf("got %+v", r)
	}
}

// rulesOf reads rules that "; " separates. Each is "METHOD,METHOD URL", after a kind and "=", or a name and ":". A URL
// may be a path at https://api.example.com.
func rulesOf(t testing.TB, text string, post bool) (all []*match.Rule) {
	t.Helper()
	for part := range strings.SplitSeq(text, "; ") {
		if part == "" {
			continue
		}
		r := &match.Rule{Name: part, Post: post}
		if name, rest, ok := strings.Cut(part, ": "); ok {
			r.Name, part = name, rest
		}
		if kind, rest, ok := strings.Cut(part, "="); ok {
			r.Kind, part = kind, rest
		}
		methods, url, _ := strings.Cut(part, " ")
		if strings.HasPrefix(url, "/") {
			url = "https://api.example.com" + url
		}
		r.Match = parse(t, url, strings.FieldsFunc(methods, func(r rune) bool { return r == ',' })...)
		all = append(all, r)
	}
	return all
}

func newRules(t testing.TB, actions, egress string) (*match.Rules, error) {
	t.Helper()
	return match.New(append(rulesOf(t, actions, true), rulesOf(t, egress, false)...))
}

func TestFind(t *testing.T) {
	rules, err := newRules(t,
		"post: POST /posts; comment: POST /repos/{o}/{r}/comments; port: POST https://api.example.com:8443/posts",
		"reads: GET,HEAD /**; one: GET /one; inference: POST /v1/chat; "+
			"domain: GET,POST,PUT https://*.example.com/**; plain: GET http://plain.example.org/**")
	check.Must(t, err)
	for _, tt := range []struct{ method, url, want string }{
		{"POST", "https://api.example.com/posts", "post"},
		{"POST", "https://api.example.com/repos/a/b/comments", "comment"},
		{"POST", "https://api.example.com/repos/a/b%2Fc/comments", "comment"},
		{"POST", "https://api.example.com:8443/posts", "port"},
		{"POST", "https://api.example.com/v1/chat", "inference"},
		{"GET", "https://api.example.com/posts", "reads"},
		{"GET", "https://api.example.com/", "reads"},
		{"GET", "https://api.example.com/one", "one"},
		{"HEAD", "https://api.example.com/one", "reads"},
		{"GET", "https://other.example.com/x", "domain"},
		{"POST", "https://deep.other.example.com/x", "domain"},
		{"PUT", "https://api.example.com/x", "domain"}, // no action of this host has the method
		{"GET", "http://plain.example.org/x", "plain"},

		// the host's actions go before the domain's rule
		{"POST", "https://api.example.com/other", "action_unmatched"},
		{"POST", "https://api.example.com/Posts", "action_unmatched"},
		{"POST", "https://api.example.com/posts/", "action_unmatched"},
		{"POST", "https://api.example.com/repos/a//comments", "request_malformed"},
		{"POST", "https://api.example.com/repos/a/comments", "action_unmatched"},
		{"DELETE", "https://api.example.com/posts", "action_unmatched"},
		{"GET", "https://example.com/x", "egress_denied"},
		{"GET", "http://api.example.com/x", "egress_denied"},
		{"GET", "https://api.example.com:444/x", "egress_denied"},
		{"GET", "https://plain.example.org/x", "egress_denied"},
		{"GET", "https://api.example.com/a/../posts", "request_malformed"},
		{"GET", "https://api.example.com/./x", "request_malformed"},
		{"GET", "https://api.example.com/%2e%2E/x", "request_malformed"},
		{"GET", "https://api.example.com//x", "request_malformed"},
		{"GET", "https://api.example.com/%41", "request_malformed"},
		{"GET", "https://api.example.com/%5Cx", "request_malformed"},
		{"GET", "https://api.example.com/%00", "request_malformed"},
		{"GET", "https://api.example.com/x/..%252fposts", "request_malformed"},
		{"GET", "https://api.example.com/x/..%25252Fposts", "request_malformed"},
		{"GET", "https://api.example.com/x/..%255cposts", "request_malformed"},
		{"GET", "https://api.example.com/x/%25252e%25252e/posts", "request_malformed"},
		{"GET", "https://api.example.com/x/..%253b/posts", "request_malformed"},
		{"GET", "https://api.example.com/100%25/a%252Fb", "reads"},
		{"GET", "https://api.example.com/%zz", "request_malformed"},
		{"GET", "https://api.example.com/%4", "request_malformed"},
		{"GET", `https://api.example.com/a\b`, "request_malformed"},
		{"GET", "https://api.example.com/\u00e9", "request_malformed"},
	} {
		t.Run(tt.method+" "+tt.url, func(t *testing.T) {
			wantFound(t, rules, tt.method, tt.url, tt.want)
		})
	}
}

// TestPathsOfOtherActions refuses a path that a pattern takes for a name, if lenient servers read an action's path in
// it.
func TestPathsOfOtherActions(t *testing.T) {
	rules, err := newRules(t,
		"comment: POST /repos/{repo}/comments; issue: POST /issues/{id}; close: POST /issues/{id}/close; "+
			"lock: POST /issues/lock",
		"search: POST,PUT /repos/{query}; deep: POST /repos/{query}/x/{y}")
	check.Must(t, err)
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/repos/a", "search"},
		{"POST", "/repos/a%2Fb", "search"},
		{"POST", "/repos/a%2Fb/comments", "comment"},
		{"PUT", "/repos/a%2Fcomments", "search"}, // no action has the method
		{"POST", "/repos/**/x/a%2Fb", "deep"},
		{"POST", "/issues/1", "issue"},
		{"POST", "/issues/1;v=2", "issue"},
		{"POST", "/issues/group%2F1", "issue"},

		{"POST", "/repos/a%2Fcomments", "request_malformed"},
		{"POST", "/repos/a%2fComments", "request_malformed"},
		{"POST", "/repos/a%252Fcomments", "request_malformed"},
		{"POST", "/repos/a%255ccomments", "request_malformed"},
		{"POST", "/repos/a%2F%2Fcomments%2F", "request_malformed"},
		{"POST", "/repos/a%2Fcomments;v=2", "request_malformed"},
		{"POST", "/issues/1%2Fclose", "request_malformed"},
		{"POST", "/repos/a%3Fb", "search"},
		{"POST", "/repos/a%2Fcomments%3Fx", "request_malformed"},
		{"POST", "/repos/a%23%2Fcomments", "request_malformed"}, // to Flask the comments of a#
		{"POST", "/repos/a%3Fb%2Fcomments", "request_malformed"},
		{"POST", "/repos/a%253F%2Fcomments", "request_malformed"},
		{"POST", "/repos/a%252Fb%2Fcomments", "request_malformed"}, // decoded once, the comments of a%2Fb
		{"POST", "/repos/a%2525252Fcomments", "request_malformed"}, // encoded too often
		{"POST", "/issues/lock.json", "request_malformed"},         // to Rails the issues' lock
		{"POST", "/issues/lock!x", "request_malformed"},            // to Struts the issues' lock
		{"POST", "/issues/lock%2521x", "request_malformed"},
		{"POST", "/issues/Lock.a.b", "request_malformed"},
		{"POST", "/issues/1%2Fclose.json", "request_malformed"},
		{"POST", "/issues/1.json", "issue"},
		{"POST", "/issues/locks.json", "issue"},
		{"POST", "/repos/a%2Fcomments%253F/x/y", "request_malformed"},
		{"POST", "/repos/comments%23/x/..%3Fy", "request_malformed"},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			wantFound(t, rules, tt.method, "https://api.example.com"+tt.path, tt.want)
		})
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	const post, reads = "mcp=POST /mcp", "mcp=GET,POST,DELETE /mcp"
	for name, tt := range map[string]struct{ actions, egress, want string }{
		"a wildcard over an action":       {"POST /posts/{id}", "POST /**", "spellings"},
		"a parameter over an action":      {"POST /posts/{id}", "POST /{x}/{y}", "spellings"},
		"another case of an action":       {"POST /posts/{id}", "POST /POSTS/1", "spellings"},
		"a slash after an action":         {"POST /posts/{id}", "POST /posts/1/", "spellings"},
		"an encoded slash in an action":   {"POST /posts/{id}", "POST /posts%2F1", "spellings"},
		"two actions but for a slash":     {"POST /posts/{id}; POST /posts/{id}/", "", "same path pattern"},
		"an action that reads":            {"GET /y", "", "not one that only reads"},
		"an answer that shows the call":   {"", "GET,TRACE /y", "no rule can have the method TRACE"},
		"an action that is answered so":   {"TRACE /y", "", "no rule can have the method TRACE"},
		"a tunnel":                        {"", "CONNECT /y", "no rule can have the method CONNECT"},
		"an action with two methods":      {"PUT,POST /y", "", "exactly one method"},
		"an action for a domain":          {"POST https://*.example.com/y", "", "without * or **; {id} matches a segment"},
		"an action with a wildcard":       {"POST /**", "", "without * or **; {id} matches a segment"},
		"a wildcard in the middle":        {"", "GET /**/y", "** before its end"},
		"half a parameter":                {"", "GET /a{b}", "neither literal"},
		"the same pattern twice":          {"POST /posts/{id}; b: POST /posts/{id}", "", "same path pattern"},
		"an egress rule without a method": {"", " https://x.example/", "no method"},
		"the same egress pattern twice":   {"", "a: GET /a; b: GET /a", "same path pattern"},
		"two actions of one name": {"post: POST /posts; post: POST /other", "",
			"post: another rule has this name"},
		"an action's name once more":    {"post: POST /posts", "post: GET /a", "post: another rule has this name"},
		"a parameter with another name": {"", "GET /{a}; GET /{b}", "same path pattern"},

		"a plain rule over a message action": {post, "POST /mcp", "spellings of an action's path"},
		"a plain rule over another spelling": {post, "POST /Mcp/", "spellings of an action's path"},
		"a plain rule over all":              {post, "DELETE,POST /**", "spellings of an action's path"},
		"a plain rule over message rules":    {"", "POST /{x}; " + reads, "spellings of an egress rule's path"},
		"a plain rule by another method":     {post, "PUT /**", "about messages"},
		"by a method of its own":             {"", reads + "; QUERY /{x}", "about messages"},
		"another kind":                       {post, "graphql=POST /mcp", "spellings of an action's path"},
		"two kinds of reads":                 {"", reads + "; graphql=POST /mcp", "spellings of an egress rule's path"},
		"another pattern of the same kind":   {post, "mcp=POST /{x}", "spellings of an action's path"},
		"a plain action":                     {post + "; POST /mcp", "", "same path pattern"},
		"an action of another kind":          {post + "; graphql=POST /mcp", "", "same path pattern"},
		"a plain event stream":               {"", reads + "; GET /mcp", "same path pattern"},
		"a domain":                           {"", "mcp=POST https://*.example.com/mcp", "without * or **"},
		"any path":                           {"", "mcp=POST /**", "without * or **"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newRules(t, tt.actions, tt.egress); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	for _, url := range []string{"api.example.com/x", "ftp://x.example/", "https://x.example", "https://x.example/a?b",
		"https://x.example/a#b", "https://u@x.example/", "https:///x", "https://0x7f.1/"} {
		if _, err := match.Parse(url, []string{"GET"}); err == nil {
			t.Errorf("%s was accepted", url)
		}
	}
	if _, err := match.Parse("https://x.example/", []string{"get"}); err == nil {
		t.Error("a lower-case method was accepted")
	}
}

func TestMessageRules(t *testing.T) {
	rules, err := newRules(t, "post: mcp=POST /mcp; other post: mcp=POST /mcp",
		"plain: GET /**; reads: mcp=GET,POST,DELETE /mcp; more reads: mcp=POST /mcp; "+
			"domain: POST,PUT,QUERY https://*.example.com/**")
	check.Must(t, err)
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/mcp", "post, other post, reads, more reads"},
		{"GET", "/mcp", "post, other post, reads, more reads"},
		{"GET", "/MCP", "request_malformed"}, // some servers take it for the endpoint, and its messages would go unread
		{"POST", "/MCP", "action_unmatched"},
		{"PUT", "/mcp", "action_unmatched"}, // some servers read messages sent by other methods
		{"QUERY", "/MCP/", "action_unmatched"},
		{"PUT", "/other", "domain"},
	} {
		to, err := rules.Find(upstream.Target{Scheme: "https", Host: "api.example.com", Port: 443}, tt.method, tt.path)
		if err != nil {
			check.WantCode(t, err, tt.want)
			continue
		}
		var names []string
		for _, r := range to.Rules {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, ", "); got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.method, tt.path, got, tt.want)
		}
	}
}

func FuzzFind(f *testing.F) {
	rules, err := newRules(f, "POST /posts/{id}/x", "")
	check.Must(f, err)
	f.Add("/posts/1/x")
	f.Add("/posts/%2e/x")
	f.Fuzz(func(t *testing.T, path string) {
		r, err := rules.Find(upstream.Target{Scheme: "https", Host: "api.example.com", Port: 443}, "POST", path)
		if err == nil &&
			(!r.Rules[0].Post || !strings.HasPrefix(path, "/posts/") || !strings.HasSuffix(path, "/x") ||
				strings.Count(path, "/") != 3) {
			t.Errorf("%q matches", path)
		}
	})
}

// FuzzParse checks that an accepted rule keeps its meaning when it is written out.
func FuzzParse(f *testing.F) {
	f.Add("https://api.example.com/posts/{id}/x", "POST")
	f.Add("https://API.example.com.:8443/**", "GET")
	f.Add("http://[::1]/a%2fb/*", "PUT")
	f.Fuzz(func(t *testing.T, url, method string) {
		m, err := match.Parse(url, []string{method})
		if err != nil {
			return
		}
		authority := m.Host
		if strings.Contains(authority, ":") {
			authority = "[" + authority + "]"
		}
		written := m.Scheme + "://" + authority + ":" + strconv.Itoa(int(m.Port)) + m.Path
		again, err := match.Parse(written, m.Methods)
		if err != nil || again.Scheme != m.Scheme || again.Host != m.Host || again.Port != m.Port ||
			again.Path != m.Path {
			t.Errorf("%q is %+v, and %q is %+v, %v", url, m, written, again, err)
		}
		_, _ = match.New([]*match.Rule{{Name: "a", Match: m, Post: true}})
	})
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			var actions []string
			for i := range n {
				actions = append(actions, fmt.Sprintf("POST /r%d/{id}", i))
			}
			rules, err := newRules(b, strings.Join(actions, "; "), "")
			check.Must(b, err)
			path := fmt.Sprintf("/r%d/7", n/2)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rules.Find(upstream.Target{Scheme: "https", Host: "api.example.com", Port: 443}, "POST", path); err !=
					nil {
					b.Fatal(err)
				}
			}
		})
	}
}
