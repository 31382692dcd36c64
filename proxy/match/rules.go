// Package match finds the rule for a call, by its origin, its method and its path.
//
//	rules.go    the rules, and which of them a call matches
//	pattern.go  the patterns of paths
//	path.go     refuses what two servers could read differently
package match

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

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

// Rule is one rule: the calls that it is for, and whether those post.
type Rule struct {
	Name  string
	Match Match
	// Post says that the calls of this rule post. No rule for other calls may take a spelling of one of them.
	Post bool
}

// check refuses a rule for posts that leaves open what it is for.
func (r *Rule) check() error {
	switch {
	case !r.Post:
		return nil
	case strings.HasPrefix(r.Match.Host, "*.") || strings.HasSuffix(r.Match.Path, "**"):
		return fmt.Errorf("an action names its host and its path, without * or **")
	case len(r.Match.Methods) != 1 || isRead(r.Match.Methods[0]):
		return fmt.Errorf("an action has exactly one method, and not one that only reads")
	}
	return nil
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

// RuleError says what is wrong with a rule.
type RuleError struct {
	Rule *Rule
	Err  error
}

func (e *RuleError) Error() string {
	if e.Rule.Post {
		return fmt.Sprintf("action %s: %v", e.Rule.Name, e.Err)
	}
	return fmt.Sprintf("egress rule %s: %v", e.Rule.Name, e.Err)
}

// Unwrap returns what is wrong.
func (e *RuleError) Unwrap() error { return e.Err }

// New builds the rules and refuses those that contradict each other or leave a way around a post. It reads the rules for posts first.
func New(rules []*Rule) (*Rules, error) {
	rs := &Rules{exact: make(map[origin]*methods), suffix: make(map[origin]*methods)}
	names := make(map[string]bool, len(rules))
	for _, posts := range []bool{true, false} {
		for _, r := range rules {
			if r.Post != posts {
				continue
			}
			if names[r.Name] && r.Name != "" {
				return nil, &RuleError{r, errors.New("another rule has this name, by which the record and the policy tell them apart")}
			}
			names[r.Name] = true
			if err := rs.add(r); err != nil {
				return nil, &RuleError{r, err}
			}
		}
	}
	return rs, nil
}

func (r *Rules) add(target *Rule) error {
	if err := target.check(); err != nil {
		return err
	}
	m := target.Match
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
		if target.Post {
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
func (r *Rules) Find(target upstream.Target, method, escapedPath string) (*Rule, error) {
	if err := checkPath(escapedPath); err != nil {
		return nil, err
	}
	segments := strings.Split(strings.TrimPrefix(escapedPath, "/"), "/")
	if ms := r.exact[origin{target.Scheme, target.Host, target.Port}]; ms != nil {
		if found := ms.find(method, segments); found != nil {
			// An encoded slash makes one segment of several: what a pattern takes for a name may be the rest of an action's path.
			if posts := ms.readings[method]; posts != nil {
				if other := posts.find(strings.Split(reading(escapedPath)[1:], "/")); other != nil && other != found {
					return nil, ambiguousPath(escapedPath, "is to some servers a path of the action "+other.Name)
				}
			}
			return found, nil
		}
		if len(ms.posts[method]) > 0 {
			// A wider rule for the whole domain must not take what this host's actions did not.
			return nil, unmatched(target, method, escapedPath)
		}
	}
	for domain := range domainsAbove(target.Host) {
		if ms := r.suffix[origin{target.Scheme, domain, target.Port}]; ms != nil {
			if found := ms.find(method, segments); found != nil {
				return found, nil
			}
		}
	}
	return nil, unmatched(target, method, escapedPath)
}

func unmatched(target upstream.Target, method, path string) error {
	if isRead(method) {
		return refusal.New("egress_denied", "no egress rule allows %.32s %s://%s%.1024s", method, target.Scheme, target.Authority(), path)
	}
	return refusal.New("action_unmatched", "no action rule names %.32s %s://%s%.1024s", method, target.Scheme, target.Authority(), path)
}

func (m *methods) find(method string, segments []string) *Rule { return m.trees[method].find(segments) }

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

// Parse reads a rule's URL, "https://host[:port]/path/{pattern}", and its methods.
func Parse(url string, list []string) (Match, error) {
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
