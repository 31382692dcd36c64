package proxy

import (
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Content kinds of an action: how its body is normalised before it is hashed.
const (
	ContentJSON = "json" // RFC 8785 canonical JSON
	ContentRaw  = "raw"  // the bytes as they are
)

// Action is a rule for calls that post: each is forwarded only with the whole chain of evidence.
type Action struct {
	Name  string
	Match Match
	// Subject and Action go into the binding. The resource is the method, the path and the query of the call itself.
	Subject, Action string
	Content         string // ContentJSON or ContentRaw
	// MaxBody bounds the body, in bytes.
	MaxBody int64
	// AllowQuery admits a query; it then is part of the resource.
	AllowQuery bool
	// Headers are the agent's headers that go out besides usualHeaders, in canonical form: a call with another is refused. Nil takes all; no
	// evidence covers any of them.
	Headers []string
	// Credential is injected in place of whatever the agent sent; nil injects none.
	Credential *Credential
	// Gate issues the challenge and verifies the chain.
	Gate Gate
	// AgentSolves leaves the challenge to the agent; otherwise the runtime, which owns the whole autonomous path, solves it.
	AgentSolves bool
}

// Egress is a rule for calls that are no posts: reads, and writes named as such. They need a session and leave a record, but
// no evidence.
type Egress struct {
	Name       string
	Match      Match
	Credential *Credential
}

// Match says which calls a rule is for.
type Match struct {
	// Scheme is "https" unless a rule says "http".
	Scheme string
	// Host is a host name in its normal form, or "*." and a domain for its subdomains (egress rules only).
	Host string
	// Port is 443 for https and 80 for http unless given.
	Port uint16
	// Methods are upper-case; an egress rule may name several.
	Methods []string
	// Path is a pattern over the path's segments: literal text, {name} for one non-empty segment, and ** at the end for any
	// rest (egress rules only).
	Path string
}

// rule is what a match leads to: exactly one of the two.
type rule struct {
	action *Action
	egress *Egress
}

// Rules finds the rule for a call. It is built once and never changes.
type Rules struct {
	exact  map[origin]*methods
	suffix map[origin]*methods // by the domain after "*."
}

type origin struct {
	scheme, host string
	port         uint16
}

type methods struct {
	trees map[string]*node
	// posts holds, by method, the path patterns of this origin's actions, and readings the actions by how lenient servers read those.
	posts    map[string][]string
	readings map[string]*node
}

// NewRules builds the rules and refuses those that contradict each other or leave a way around an action.
func NewRules(actions []Action, egress []Egress) (*Rules, error) {
	r := &Rules{exact: make(map[origin]*methods), suffix: make(map[origin]*methods)}
	names := make(map[string]bool, len(actions)+len(egress))
	named := func(name string) error {
		if names[name] && name != "" {
			return fmt.Errorf("proxy: two rules have the name %s, by which the record and the policy tell them apart", name)
		}
		names[name] = true
		return nil
	}
	for i := range actions {
		a := &actions[i]
		if err := named(a.Name); err != nil {
			return nil, err
		}
		if strings.HasPrefix(a.Match.Host, "*.") || strings.HasSuffix(a.Match.Path, "**") {
			return nil, fmt.Errorf("proxy: action %s: an action names its host and its path, without * or **", a.Name)
		}
		if len(a.Match.Methods) != 1 || isRead(a.Match.Methods[0]) {
			return nil, fmt.Errorf("proxy: action %s: an action has exactly one method, and not one that only reads", a.Name)
		}
		if err := r.add(a.Match, rule{action: a}); err != nil {
			return nil, fmt.Errorf("proxy: action %s: %w", a.Name, err)
		}
	}
	for i := range egress {
		e := &egress[i]
		if err := named(e.Name); err != nil {
			return nil, err
		}
		if err := r.add(e.Match, rule{egress: e}); err != nil {
			return nil, fmt.Errorf("proxy: egress rule %s: %w", e.Name, err)
		}
	}
	return r, nil
}

func (r *Rules) add(m Match, target rule) error {
	index, host := r.exact, m.Host
	if domain, ok := strings.CutPrefix(m.Host, "*."); ok {
		index, host = r.suffix, domain
	}
	o := origin{m.Scheme, host, m.Port}
	ms := index[o]
	if ms == nil {
		ms = &methods{trees: make(map[string]*node), posts: make(map[string][]string), readings: make(map[string]*node)}
		index[o] = ms
	}
	if len(m.Methods) == 0 {
		return fmt.Errorf("it names no method")
	}
	for _, method := range m.Methods {
		if method == http.MethodTrace || method == http.MethodConnect {
			return fmt.Errorf("%s is for no rule: CONNECT is not forwarded, and the answer to TRACE shows the injected credential", method)
		}
		if target.action != nil {
			ms.posts[method] = append(ms.posts[method], m.Path)
			if ms.readings[method] == nil {
				ms.readings[method] = &node{}
			}
			if err := ms.readings[method].add(reading(m.Path), target); err != nil {
				return err
			}
		} else if i := slices.IndexFunc(ms.posts[method], func(post string) bool { return overlap(post, m.Path) }); i >= 0 {
			// Another spelling of the action's path would get through as a plain write.
			return fmt.Errorf("%s %s also matches spellings of an action's path %s: name its paths one by one", method, m.Path, ms.posts[method][i])
		}
		if ms.trees[method] == nil {
			ms.trees[method] = &node{}
		}
		if err := ms.trees[method].add(m.Path, target); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the rule for a call to target, or why there is none. escapedPath is the path as it will be sent.
func (r *Rules) Find(target upstream.Target, method, escapedPath string) (rule, error) {
	if err := checkPath(escapedPath); err != nil {
		return rule{}, err
	}
	segments := strings.Split(strings.TrimPrefix(escapedPath, "/"), "/")
	if ms := r.exact[origin{target.Scheme, target.Host, target.Port}]; ms != nil {
		if found := ms.find(method, segments); found != nil {
			// An encoded slash makes one segment of several: what a pattern takes for a name may be the rest of an action's path.
			if posts := ms.readings[method]; posts != nil {
				if other := posts.find(strings.Split(reading(escapedPath)[1:], "/")); other != nil && other.action != found.action {
					return rule{}, ambiguousPath(escapedPath, "is to some servers a path of the action "+other.action.Name)
				}
			}
			return *found, nil
		}
		if len(ms.posts[method]) > 0 {
			// A wider rule for the whole domain must not take what this host's actions did not.
			return rule{}, unmatched(target, method, escapedPath)
		}
	}
	for domain := range domainsAbove(target.Host) {
		if ms := r.suffix[origin{target.Scheme, domain, target.Port}]; ms != nil {
			if found := ms.find(method, segments); found != nil {
				return *found, nil
			}
		}
	}
	return rule{}, unmatched(target, method, escapedPath)
}

func unmatched(target upstream.Target, method, path string) error {
	if isRead(method) {
		return refusal.New("egress_denied", "no egress rule allows %.32s %s://%s%.1024s", method, target.Scheme, target.Authority(), path)
	}
	return refusal.New("action_unmatched", "no action rule names %.32s %s://%s%.1024s", method, target.Scheme, target.Authority(), path)
}

func (m *methods) find(method string, segments []string) *rule { return m.trees[method].find(segments) }

// Knows reports whether any rule could match a call to target: whether a CONNECT to it makes sense.
func (r *Rules) Knows(scheme, host string, port uint16) bool {
	if r.exact[origin{scheme, host, port}] != nil {
		return true
	}
	for domain := range domainsAbove(host) {
		if r.suffix[origin{scheme, domain, port}] != nil {
			return true
		}
	}
	return false
}

// domainsAbove are the domains that host is a subdomain of, the nearest first.
func domainsAbove(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, domain, ok := strings.Cut(host, "."); ok && yield(domain); {
			_, domain, ok = strings.Cut(domain, ".")
		}
	}
}

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// ParseMatch reads a rule's URL, "https://host[:port]/path/{pattern}", and its methods.
func ParseMatch(url string, list []string) (Match, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	authority, path, slash := strings.Cut(rest, "/")
	if !ok || !slash || scheme != "https" && scheme != "http" {
		return Match{}, fmt.Errorf("%q is not of the form https://host/path", url)
	}
	if strings.ContainsAny(path, "?#") {
		return Match{}, fmt.Errorf("%q has a query or a fragment; a rule is about the path", url)
	}
	domain, wildcard := strings.CutPrefix(authority, "*.")
	target, err := upstream.ParseOrigin(scheme, domain)
	if err != nil {
		return Match{}, err
	}
	m := Match{Scheme: scheme, Host: target.Host, Port: target.Port, Path: "/" + path, Methods: list}
	if wildcard {
		m.Host = "*." + target.Host
	}
	for _, method := range list {
		if method == "" || method != strings.ToUpper(method) {
			return Match{}, fmt.Errorf("the method %q is not in upper case", method)
		}
	}
	return m, nil
}
