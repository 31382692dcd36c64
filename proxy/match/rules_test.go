package match_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/upstream"
)

func parse(t testing.TB, url string, methods ...string) match.Match {
	t.Helper()
	m, err := match.Parse(url, methods)
	must(t, err)
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if !errors.Is(err, refusal.New(code, "")) {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func newRules(actions, egress []match.Rule) (*match.Rules, error) {
	var all []*match.Rule
	for _, a := range actions {
		a.Post = true
		all = append(all, &a)
	}
	for _, e := range egress {
		all = append(all, &e)
	}
	return match.New(all)
}

func TestFind(t *testing.T) {
	rules, err := newRules([]match.Rule{
		{Name: "post", Match: parse(t, "https://api.example.com/posts", "POST")},
		{Name: "comment", Match: parse(t, "https://api.example.com/repos/{o}/{r}/comments", "POST")},
		{Name: "port", Match: parse(t, "https://api.example.com:8443/posts", "POST")},
	}, []match.Rule{
		{Name: "reads", Match: parse(t, "https://api.example.com/**", "GET", "HEAD")},
		{Name: "one", Match: parse(t, "https://api.example.com/one", "GET")},
		{Name: "inference", Match: parse(t, "https://api.example.com/v1/chat", "POST")},
		{Name: "domain", Match: parse(t, "https://*.example.com/**", "GET", "POST", "PUT")},
		{Name: "plain", Match: parse(t, "http://plain.example.org/**", "GET")},
	})
	must(t, err)
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
			scheme, rest, _ := strings.Cut(tt.url, "://")
			authority, path, _ := strings.Cut(rest, "/")
			target, err := upstream.ParseOrigin(scheme, authority)
			must(t, err)
			r, err := rules.Find(target, tt.method, "/"+path)
			switch {
			case err != nil:
				wantCode(t, err, tt.want)
			case r.Rules[0].Name != tt.want:
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestPathsOfOtherActions refuses a path that a pattern takes for a name, if lenient servers read an action's path in
// it.
func TestPathsOfOtherActions(t *testing.T) {
	rules, err := newRules([]match.Rule{
		{Name: "comment", Match: parse(t, "https://api.example.com/repos/{repo}/comments", "POST")},
		{Name: "issue", Match: parse(t, "https://api.example.com/issues/{id}", "POST")},
		{Name: "close", Match: parse(t, "https://api.example.com/issues/{id}/close", "POST")},
	}, []match.Rule{
		{Name: "search", Match: parse(t, "https://api.example.com/repos/{query}", "POST", "PUT")},
		{Name: "deep", Match: parse(t, "https://api.example.com/repos/{query}/x/{y}", "POST")},
	})
	must(t, err)
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
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			r, err := rules.Find(upstream.Target{Scheme: "https", Host: "api.example.com", Port: 443}, tt.method, tt.path)
			switch {
			case err != nil:
				wantCode(t, err, tt.want)
			case r.Rules[0].Name != tt.want:
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	post := match.Rule{Name: "post", Match: parse(t, "https://api.example.com/posts/{id}", "POST")}
	egress := func(url string, methods ...string) []match.Rule {
		return []match.Rule{{Name: url, Match: parse(t, url, methods...)}}
	}
	for name, tt := range map[string]struct {
		actions []match.Rule
		egress  []match.Rule
		want    string
	}{
		"a wildcard over an action": {[]match.Rule{post}, egress("https://api.example.com/**", "POST"), "spellings"},
		"a parameter over an action": {[]match.Rule{post}, egress("https://api.example.com/{x}/{y}", "POST"),
			"spellings"},
		"another case of an action": {[]match.Rule{post}, egress("https://api.example.com/POSTS/1", "POST"),
			"spellings"},
		"a slash after an action": {[]match.Rule{post}, egress("https://api.example.com/posts/1/", "POST"),
			"spellings"},
		"an encoded slash in an action": {[]match.Rule{post}, egress("https://api.example.com/posts%2F1", "POST"),
			"spellings"},
		"two actions but for a slash": {
			[]match.Rule{post, {Name: "b", Match: parse(t, "https://api.example.com/posts/{id}/", "POST")}}, nil,
			"same path pattern"},
		"an action that reads": {[]match.Rule{{Name: "a", Match: parse(t, "https://x.example/y", "GET")}}, nil,
			"not one that only reads"},
		"an answer that shows the call": {nil, egress("https://x.example/y", "GET", "TRACE"), "TRACE is for no rule"},
		"an action that is answered so": {[]match.Rule{{Name: "a", Match: parse(t, "https://x.example/y", "TRACE")}}, nil,
			"TRACE is for no rule"},
		"a tunnel": {nil, egress("https://x.example/y", "CONNECT"), "CONNECT is for no rule"},
		"an action with two methods": {[]match.Rule{{Name: "a", Match: parse(t, "https://x.example/y", "PUT", "POST")}},
			nil, "exactly one method"},
		"an action for a domain": {[]match.Rule{{Name: "a", Match: parse(t, "https://*.example.com/y", "POST")}},
			nil, "without * or **"},
		"an action with a wildcard": {[]match.Rule{{Name: "a", Match: parse(t, "https://x.example/**", "POST")}}, nil,
			"without * or **"},
		"a wildcard in the middle":        {nil, egress("https://x.example/**/y", "GET"), "not at the end"},
		"half a parameter":                {nil, egress("https://x.example/a{b}", "GET"), "neither literal"},
		"the same pattern twice":          {[]match.Rule{post, {Name: "b", Match: post.Match}}, nil, "same path pattern"},
		"an egress rule without a method": {nil, egress("https://x.example/"), "no method"},
		"the same egress pattern twice": {nil,
			[]match.Rule{{Name: "a", Match: parse(t, "https://x.example/a", "GET")},
				{Name: "b", Match: parse(t, "https://x.example/a", "GET")}}, "same path pattern"},
		"two actions of one name": {
			[]match.Rule{post, {Name: "post", Match: parse(t, "https://api.example.com/other", "POST")}}, nil,
			"post: another rule has this name"},
		"an action's name once more": {[]match.Rule{post},
			[]match.Rule{{Name: "post", Match: parse(t, "https://x.example/a", "GET")}}, "post: another rule has this name"},
		"a parameter with another name": {nil,
			append(egress("https://x.example/{a}", "GET"), egress("https://x.example/{b}", "GET")...), "same path pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newRules(tt.actions, tt.egress); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
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
	about := func(name, kind, url string, methods ...string) match.Rule {
		return match.Rule{Name: name, Kind: kind, Match: parse(t, url, methods...)}
	}
	const url = "https://api.example.com/mcp"
	post, other := about("post", "mcp", url, "POST"), about("other post", "mcp", url, "POST")
	reads, more := about("reads", "mcp", url, "GET", "POST", "DELETE"), about("more reads", "mcp", url, "POST")
	plain := []match.Rule{about("plain", "", "https://api.example.com/**", "GET")}
	rules, err := newRules([]match.Rule{post, other}, append(plain, reads, more))
	must(t, err)
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/mcp", "post, other post, reads, more reads"},
		{"GET", "/mcp", "post, other post, reads, more reads"},
		{"GET", "/MCP", "request_malformed"}, // some servers take it for the endpoint, and its messages would go unread
		{"POST", "/MCP", "action_unmatched"},
		{"PUT", "/mcp", "action_unmatched"},
	} {
		to, err := rules.Find(upstream.Target{Scheme: "https", Host: "api.example.com", Port: 443}, tt.method, tt.path)
		if err != nil {
			wantCode(t, err, tt.want)
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
	for name, tt := range map[string]struct {
		actions, egress []match.Rule
		want            string
	}{
		"a plain rule over an action": {[]match.Rule{post}, []match.Rule{about("a", "", url, "POST")},
			"spellings of an action's path"},
		"a plain rule over another spelling": {[]match.Rule{post},
			[]match.Rule{about("a", "", "https://api.example.com/Mcp/", "POST")}, "spellings of an action's path"},
		"a plain rule over all": {[]match.Rule{post},
			[]match.Rule{about("a", "", "https://api.example.com/**", "DELETE", "POST")}, "spellings of an action's path"},
		"a plain rule over message rules": {nil,
			[]match.Rule{about("a", "", "https://api.example.com/{x}", "POST"), reads}, "spellings of an egress rule's path"},
		"a plain rule by another method": {[]match.Rule{post},
			[]match.Rule{about("a", "", "https://api.example.com/**", "PUT")}, "about messages"},
		"by a method of its own": {nil,
			[]match.Rule{reads, about("a", "", "https://api.example.com/{x}", "QUERY")}, "about messages"},
		"another kind": {[]match.Rule{post}, []match.Rule{about("a", "graphql", url, "POST")},
			"spellings of an action's path"},
		"two kinds of reads": {nil, []match.Rule{reads, about("a", "graphql", url, "POST")},
			"spellings of an egress rule's path"},
		"another pattern of the same kind": {[]match.Rule{post},
			[]match.Rule{about("a", "mcp", "https://api.example.com/{x}", "POST")}, "spellings of an action's path"},
		"a plain action": {[]match.Rule{post, about("a", "", url, "POST")}, nil, "same path pattern"},
		"an action of another kind": {[]match.Rule{post, about("a", "graphql", url, "POST")}, nil,
			"same path pattern"},
		"a plain event stream": {nil, []match.Rule{reads, about("a", "", url, "GET")}, "same path pattern"},
		"a domain": {nil, []match.Rule{about("a", "mcp", "https://*.example.com/mcp", "POST")},
			"without * or **"},
		"any path": {nil, []match.Rule{about("a", "mcp", "https://api.example.com/**", "POST")},
			"without * or **"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newRules(tt.actions, tt.egress); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func FuzzFind(f *testing.F) {
	rules, err := newRules([]match.Rule{{Name: "post", Match: parse(f, "https://api.example.com/posts/{id}/x", "POST")}},
		nil)
	must(f, err)
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
		if err != nil || again.Scheme != m.Scheme || again.Host != m.Host || again.Port != m.Port || again.Path != m.Path {
			t.Errorf("%q is %+v, and %q is %+v, %v", url, m, written, again, err)
		}
		_, _ = newRules([]match.Rule{{Name: "a", Match: m}}, nil)
	})
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			var actions []match.Rule
			for i := range n {
				actions = append(actions,
					match.Rule{Name: fmt.Sprint(i), Match: parse(b, fmt.Sprintf("https://api.example.com/r%d/{id}", i), "POST")})
			}
			rules, err := newRules(actions, nil)
			must(b, err)
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
