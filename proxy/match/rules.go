// Package match finds the rule for a call by its origin, method and path.
//
//	rules.go    the rules and the search
//	pattern.go  patterns of paths
//	path.go     refuses paths that two servers could read differently
package match

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Own is the mediator's own name. Rules for subdomains do not cover it.
const Own = "mediator.internal"

// Match describes the calls of a rule.
type Match struct {
	// Scheme is "https" unless a rule says "http".
	Scheme string
	// Host is a host name in its normal form, or "*." and a domain for its subdomains (egress rules only).
	Host string
	// Port is 443 for https and 80 for http unless given.
	Port uint16
	// Methods are upper-case; an egress rule may name several.
	Methods []string
	// Path is a pattern of segments: literal text, {name} for one non-empty segment, and ** at the end for any rest
	// (egress rules only).
	Path string
}

// Rule is one rule.
type Rule struct {
	Name  string
	Match Match
	// Post says that the rule's calls post. No other rule may match a spelling of such a call.
	Post bool
	// Kind is empty for a rule about origin, method and path alone. A rule with a kind also judges the call's message;
	// several may share one URL.
	Kind string
	// WebSocket says that a call may become a WebSocket, which no message rule can read.
	WebSocket bool
}

// Endpoint is one rule, or all rules of one kind with the same origin and path pattern: the message chooses among them.
type Endpoint struct {
	Kind  string
	Rules []*Rule
}

// guarded reports whether no other rule may match a spelling of a call by this method, because such calls post or are
// told apart by their messages.
func (r *Rule) guarded(method string) bool { return r.Post || r.Kind != "" && !IsRead(method) }

// check refuses a rule about posts or messages that is too wide.
func (r *Rule) check() error {
	wide := strings.HasPrefix(r.Match.Host, "*.") || strings.HasSuffix(r.Match.Path, "**")
	switch {
	case r.Kind != "" && wide:
		return fmt.Errorf("a rule about messages must name its host and its path, without * or **; {id} matches a segment")
	case !r.Post:
		return nil
	case wide:
		return fmt.Errorf("an action must name its host and its path, without * or **; {id} matches a segment")
	case len(r.Match.Methods) != 1 || IsRead(r.Match.Methods[0]):
		return fmt.Errorf("an action must have exactly one method, and not one that only reads")
	}
	return nil
}

// Rules finds the rule for a call. It never changes once built.
type Rules struct {
	exact     map[origin]*methods
	suffix    map[origin]*methods // by the domain after "*."
	endpoints []*Endpoint
}

type origin struct {
	scheme, host string
	port         uint16
}

type methods struct {
	trees map[string]*node
	// guarded has the guarded endpoints of this origin by method. readings has those, and the other message endpoints,
	// by their paths as lenient servers read them.
	guarded  map[string][]guard
	readings map[string]*node
	messages map[string]*Endpoint // with a kind, by path pattern
	about    []*Rule              // with a kind
}

type guard struct {
	rule *Rule
	to   *Endpoint
}

func (r *Rule) kind() string {
	if r.Post {
		return "action"
	}
	return "egress rule"
}

// RuleError is an error about a rule.
type RuleError struct {
	Rule *Rule
	Err  error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Rule.kind(), e.Rule.Name, e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

// New builds the rules. It refuses rules that contradict each other, or that leave a way around a post or a message
// rule.
func New(rules []*Rule) (*Rules, error) {
	rs := &Rules{exact: make(map[origin]*methods), suffix: make(map[origin]*methods)}
	names := make(map[string]bool, len(rules))
	for _, pick := range []func(*Rule) bool{ // guarded rules first
		func(r *Rule) bool { return r.Post },
		func(r *Rule) bool { return !r.Post && r.Kind != "" },
		func(r *Rule) bool { return !r.Post && r.Kind == "" },
	} {
		for _, r := range rules {
			if !pick(r) {
				continue
			}
			if names[r.Name] && r.Name != "" {
				return nil, &RuleError{r,
					errors.New("another rule has this name")}
			}
			names[r.Name] = true
			if err := cmp.Or(r.checkWebSocket(rules), rs.add(r)); err != nil {
				return nil, &RuleError{r, err}
			}
		}
	}
	return rs, nil
}

// checkWebSocket refuses a WebSocket rule that matches a spelling of a message rule's URL: the server may understand
// the same messages in a WebSocket.
func (r *Rule) checkWebSocket(rules []*Rule) error {
	if !r.WebSocket {
		return nil
	}
	for _, other := range rules {
		a, b := r.Match, other.Match
		domain, wild := strings.CutPrefix(a.Host, "*")
		if other.Kind != "" && a.Port == b.Port && (a.Host == b.Host || wild && strings.HasSuffix(b.Host, domain)) &&
			overlap(b.Path, a.Path) {
			return fmt.Errorf("it allows WebSockets at the URL of the %s %s, which is about messages: name "+
				"its paths one by one", other.kind(), other.Name)
		}
	}
	return nil
}

func (r *Rules) add(rule *Rule) error {
	if err := rule.check(); err != nil {
		return err
	}
	m := rule.Match
	index, host := r.exact, m.Host
	if domain, ok := strings.CutPrefix(m.Host, "*."); ok {
		index, host = r.suffix, domain
	}
	o := origin{m.Scheme, host, m.Port}
	ms := index[o]
	if ms == nil {
		ms = &methods{
			trees: make(map[string]*node), guarded: make(map[string][]guard), readings: make(map[string]*node),
			messages: make(map[string]*Endpoint),
		}
		index[o] = ms
	}
	if len(m.Methods) == 0 {
		return fmt.Errorf("it names no method")
	}
	if rule.Kind != "" {
		ms.about = append(ms.about, rule)
	}
	to := r.endpoint(ms, rule)
	for _, method := range m.Methods {
		if err := ms.add(method, rule, to); err != nil {
			return err
		}
	}
	return nil
}

// endpoint returns the rule's own endpoint, or, for a rule with a kind, the endpoint of its path pattern.
func (r *Rules) endpoint(ms *methods, rule *Rule) *Endpoint {
	to := ms.messages[rule.Match.Path]
	if rule.Kind == "" || to == nil || to.Kind != rule.Kind {
		to = &Endpoint{Kind: rule.Kind}
		r.endpoints = append(r.endpoints, to)
		if rule.Kind != "" && ms.messages[rule.Match.Path] == nil {
			ms.messages[rule.Match.Path] = to
		}
	}
	to.Rules = append(to.Rules, rule)
	return to
}

func (ms *methods) add(method string, rule *Rule, to *Endpoint) error {
	path := rule.Match.Path
	if method == http.MethodTrace || method == http.MethodConnect {
		return fmt.Errorf(
			"no rule can have the method %s: CONNECT is not forwarded, and the answer to TRACE shows the injected "+
				"credential", method)
	}
	for _, g := range ms.guarded[method] {
		if g.to != to && !rule.Post && overlap(g.rule.Match.Path, path) {
			// Otherwise another spelling of the guarded path would pass as a plain write.
			return fmt.Errorf("%s %s also matches spellings of an %s's path %s: name its paths one by one", method,
				path, g.rule.kind(), g.rule.Match.Path)
		}
	}
	if rule.Kind == "" && !rule.Post && !IsRead(method) {
		for _, other := range ms.about { // some servers read messages sent by other methods
			if overlap(other.Match.Path, path) {
				return fmt.Errorf(
					"%s %s also matches spellings of an %s's path %s, which is about messages: name "+
						"its paths one by one", method, path, other.kind(), other.Match.Path)
			}
		}
	}
	if rule.guarded(method) {
		ms.guarded[method] = append(ms.guarded[method], guard{rule, to})
	}
	if rule.Post || rule.Kind != "" {
		if ms.readings[method] == nil {
			ms.readings[method] = &node{}
		}
		if err := ms.readings[method].add(shortest(path), to); err != nil {
			return err
		}
	}
	if ms.trees[method] == nil {
		ms.trees[method] = &node{}
	}
	return ms.trees[method].add(path, to)
}

// Endpoints returns all endpoints.
func (r *Rules) Endpoints() []*Endpoint { return r.endpoints }

// Find returns the endpoint of a call, or why there is none. escapedPath is the path as it will be sent.
func (r *Rules) Find(target upstream.Target, method, escapedPath string) (*Endpoint, error) {
	if err := checkPath(escapedPath); err != nil {
		return nil, err
	}
	segments := strings.Split(strings.TrimPrefix(escapedPath, "/"), "/")
	if ms := r.exact[origin{target.Scheme, target.Host, target.Port}]; ms != nil {
		found := ms.find(method, segments)
		if found == nil && (len(ms.guarded[method]) > 0 || !IsRead(method) && ms.isAbout(escapedPath)) {
			// A rule for the whole domain must not allow what this host's actions did not.
			return nil, unmatched(target, method, escapedPath)
		}
		// An encoded slash turns several segments into one: what a pattern takes for a name may end in an action's
		// path.
		for read := range readings(escapedPath) {
			if other := ms.readings[method].read(read); other != nil && other != found {
				return nil, ambiguousPath(escapedPath,
					"is to some servers a path of the "+other.Rules[0].kind()+" "+other.Rules[0].Name)
			}
		}
		if found != nil {
			return found, nil
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
	if IsRead(method) {
		return refusal.New("egress_denied", "no egress rule allows %.32s %s://%s%.1024s", method, target.Scheme,
			target.Authority(), path)
	}
	return refusal.New("action_unmatched", "no action rule names %.32s %s://%s%.1024s", method, target.Scheme,
		target.Authority(), path)
}

func (ms *methods) find(method string, segments []string) *Endpoint {
	return ms.trees[method].find(segments)
}

// IsAbout reports whether some servers take a path of a host for the URL of a message rule, by any method.
func (r *Rules) IsAbout(t upstream.Target, escapedPath string) bool {
	ms := r.exact[origin{t.Scheme, t.Host, t.Port}]
	return ms != nil && ms.isAbout(escapedPath)
}

// isAbout reports whether some servers take a path for the URL of a message rule, by any method.
func (ms *methods) isAbout(escapedPath string) bool {
	for read := range readings(escapedPath) {
		for _, paths := range ms.readings {
			if to := paths.read(read); to != nil && to.Kind != "" {
				return true
			}
		}
	}
	return false
}

// Knows reports whether any rule could match a call to target, so that a CONNECT to it makes sense.
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

// domainsAbove yields the parent domains of host, the nearest first. The mediator's own name has none.
func domainsAbove(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if host == Own {
			return
		}
		for _, domain, ok := strings.Cut(host, "."); ok && yield(domain); {
			_, domain, ok = strings.Cut(domain, ".")
		}
	}
}

// IsRead reports whether a method reads, by HTTP: GET, HEAD or OPTIONS.
func IsRead(method string) bool {
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
