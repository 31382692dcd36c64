package learn

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
)

// Width is the breadth of a proposal's rules.
type Width int

// Widths. Narrow is exactly what was seen. Normal has {id} for ids. Wide is, for reads, all that the host answers.
const (
	Narrow Width = iota
	Normal
	Wide
)

// Proposal is rules for calls that no rule allows. The widths may be equal.
type Proposal struct {
	// Post says that the calls may post. Its rules are actions, for which a person names the subject.
	Post bool `json:"post"`
	// Model says that the calls look like calls to a model.
	Model bool `json:"model,omitempty"`
	// WebSocket says that the rules allow WebSockets, in which an agent can post unread.
	WebSocket bool      `json:"webSocket,omitempty"`
	Host      string    `json:"host"` // with scheme, and the port if it is not the usual one
	About     string    `json:"about"`
	Calls     int       `json:"calls"`
	Refused   int       `json:"refused"` // of the calls
	Sessions  int       `json:"sessions"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Example   string    `json:"example"`
	Narrow    []Rule    `json:"narrow"`
	Normal    []Rule    `json:"normal"`
	Wide      []Rule    `json:"wide"`

	seen []*seen
}

// Rules returns the rules of a width.
func (p *Proposal) Rules(w Width) []Rule { return [...][]Rule{p.Narrow, p.Normal, p.Wide}[w] }

// Open reports whether, by judge, still no rule allows some call of the proposal.
func (p *Proposal) Open(judge Judge) bool {
	return slices.ContainsFunc(p.seen, func(s *seen) bool { return IsUnruled(judge(s.whole().call)) })
}

// Reads returns the rules of a width as egress rules: a person knows that the calls post nothing. There is none for
// mutations of GraphQL.
func (p *Proposal) Reads(w Width) (rules []Rule, ok bool) {
	for _, r := range p.Rules(w) {
		if r.Match.GraphQL != nil && r.Post {
			return nil, false
		}
		r.Post, r.Subject, r.Action, r.Content, r.Query = false, "", "", "", false
		if m := r.Match.MCP; m != nil && m.Methods == nil { // another rule has the usual ones
			tools := *m
			tools.Methods, r.Match.MCP = new([]string), &tools
		}
		rules = append(rules, r)
	}
	return rules, true
}

// Asks reports whether only a person who has read the rules may accept them: HTTP does not say that the calls only
// read. What looks like a message to an MCP server or GraphQL may be a post to another API.
func (p *Proposal) Asks() bool {
	m := p.Wide[0].Match
	return p.Post || p.WebSocket || m.MCP != nil || m.GraphQL != nil || slices.Contains(m.Methods, http.MethodPost)
}

// maxExact bounds the rules of a narrow proposal: with more paths it is as wide as the normal one.
const maxExact = 32

// Propose returns the proposals by host. taken are the names that other rules have.
func (c *Calls) Propose(taken []string) []*Proposal {
	groups := make(map[string][]*seen)
	servers := make(map[string]map[string]string) // hashes of tools, by the URLs of MCP servers
	all := c.fit()
	for _, s := range all {
		if s.any().MCP != nil {
			if servers[s.url()] == nil {
				servers[s.url()] = make(map[string]string)
			}
			maps.Copy(servers[s.url()], s.whole().hashes)
		}
	}
	for _, s := range all {
		key := s.group(servers[s.url()] != nil)
		groups[key] = append(groups[key], s)
	}
	var out []*Proposal
	names := namer{}
	for _, name := range taken {
		names[name] = true
	}
	templates := make(map[string][]string) // of posts, by origin and method
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		s := groups[key][0]
		if r := s.whole().call; s.isPlain() && !match.IsRead(r.Method) {
			at := s.origin + " " + r.Method
			templates[at] = append(templates[at], template(r.Path))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		for _, calls := range apart(groups[key]) {
			out = append(out, propose(calls, servers, templates, names))
		}
	}
	slices.SortStableFunc(out, func(a, b *Proposal) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

// whole returns the call of all sessions.
func (s *seen) whole() *span {
	all := new(span)
	for _, session := range slices.Sorted(maps.Keys(s.by)) {
		all.add(s.by[session])
	}
	return all
}

func (s *seen) any() ledger.Record {
	for _, by := range s.by {
		return by.call
	}
	return ledger.Record{}
}

func (s *seen) url() string { return s.origin + s.any().Path }

// isPlain reports whether the call is about no message.
func (s *seen) isPlain() bool { r := s.any(); return r.MCP == nil && len(r.GraphQL) == 0 }

// group is equal for calls of one proposal.
func (s *seen) group(server bool) string {
	r := s.any()
	switch {
	case r.MCP != nil && r.MCP.Tool != "":
		return strings.Join([]string{s.origin, "3", r.Path, r.MCP.Tool}, "\x00")
	case r.MCP != nil, server && streams(r.Method):
		return strings.Join([]string{s.origin, "2", r.Path}, "\x00")
	case len(r.GraphQL) > 0:
		return strings.Join([]string{s.origin, "4", r.Path, fmt.Sprint(mutates(r))}, "\x00")
	case fetched(r) != "":
		return strings.Join([]string{s.origin, "5", fetched(r)}, "\x00")
	case match.IsRead(r.Method):
		return strings.Join([]string{s.origin, "0", template(r.Path)}, "\x00")
	}
	return strings.Join([]string{s.origin, "1", template(r.Path), r.Method}, "\x00")
}

// streams reports whether an MCP client opens a stream or ends a session by a method.
func streams(method string) bool { return method == http.MethodGet || method == http.MethodDelete }

func mutates(r ledger.Record) bool {
	return slices.ContainsFunc(r.GraphQL, func(o ledger.Operation) bool { return o.Type != "query" })
}

// apart splits mutations that share no field, so that a person decides about each. Two rules cannot name one field.
func apart(calls []*seen) (groups [][]*seen) {
	if r := calls[0].any(); len(r.GraphQL) == 0 || !mutates(r) {
		return [][]*seen{calls}
	}
	for _, call := range calls {
		joined := []*seen{call}
		groups = slices.DeleteFunc(groups, func(group []*seen) bool {
			shares := slices.ContainsFunc(fieldsOf(group), func(f string) bool {
				return slices.Contains(fieldsOf([]*seen{call}), f)
			})
			if shares {
				joined = append(joined, group...)
			}
			return shares
		})
		groups = append(groups, joined)
	}
	return groups
}

// fieldsOf returns the fields of GraphQL operations, sorted and unique: at least one, because a rule without fields
// allows all.
func fieldsOf(calls []*seen) (fields []string) {
	for _, s := range calls {
		for _, o := range s.any().GraphQL {
			fields = append(fields, o.Fields...)
		}
	}
	slices.Sort(fields)
	if fields = slices.Compact(fields); len(fields) > 1 {
		fields = slices.DeleteFunc(fields, func(f string) bool { return f == "__typename" })
	}
	return fields
}

func propose(calls []*seen, servers map[string]map[string]string, templates map[string][]string,
	names namer) *Proposal {
	all, sessions := new(span), make(map[string]bool)
	for _, s := range calls {
		all.add(s.whole())
		for session := range s.by {
			sessions[session] = true
		}
	}
	r := all.call
	p := &Proposal{
		Host: calls[0].origin, Calls: all.calls, Refused: all.refused, Sessions: len(sessions), First: all.first,
		Last:    all.last,
		Example: strings.TrimSpace(r.Method + " " + calls[0].origin + r.Path), seen: calls,
	}
	switch {
	case r.MCP != nil && r.MCP.Tool != "":
		p.tool(r, servers[calls[0].url()][r.MCP.Tool], names)
	case r.MCP != nil || servers[calls[0].url()] != nil && streams(r.Method):
		p.server(r.Path, names)
	case len(r.GraphQL) > 0:
		p.graphQL(r, names)
	case fetched(r) != "":
		p.fetch(fetched(r), names)
	case match.IsRead(r.Method):
		p.reads(names)
	case dialect(r) != "":
		p.model(r, names)
	default:
		p.post(r, templates[calls[0].origin+" "+r.Method], names)
	}
	return p
}

func (p *Proposal) tool(r ledger.Record, hash string, names namer) {
	p.Post, p.About = true, fmt.Sprintf("the tool %s of the MCP server %s%s", r.MCP.Tool, p.Host, r.Path)
	p.Example += " tools/call " + r.MCP.Tool
	rule := Rule{Post: true, Name: names.name(p.Host, r.MCP.Tool), Action: word(r.MCP.Tool),
		Match: Match{URL: p.Host + r.Path, MCP: &MCP{Tools: []string{r.MCP.Tool}}}}
	p.Normal, p.Wide, p.Narrow = []Rule{rule}, []Rule{rule}, []Rule{rule}
	if hash != "" {
		pinned := rule
		pinned.Match.MCP = &MCP{Tools: rule.Match.MCP.Tools, Pin: map[string]string{r.MCP.Tool: hash}}
		p.Narrow = []Rule{pinned}
	}
}

// server proposes the messages of an MCP server that call no tool.
func (p *Proposal) server(path string, names namer) {
	var methods []string
	for _, s := range p.seen {
		if m := s.any().MCP; m != nil && !slices.Contains(methods, m.Method) {
			methods = append(methods, m.Method)
		}
	}
	slices.Sort(methods)
	p.About = fmt.Sprintf("sessions, lists and reads of the MCP server %s%s, by GET, POST and DELETE", p.Host, path)
	rule := Rule{Name: names.name(p.Host, "mcp"), Match: Match{URL: p.Host + path, MCP: &MCP{}}}
	exact := rule
	exact.Match.MCP = &MCP{Methods: &methods}
	p.Narrow, p.Normal, p.Wide = []Rule{exact}, []Rule{rule}, []Rule{rule}
	if other := slices.DeleteFunc(slices.Clone(methods), mcp.IsUsual); len(other) > 0 {
		p.About = strings.Join(other, ", ") + ", which may post, and " + p.About
		p.Normal, p.Wide = p.Narrow, p.Narrow
	}
}

func (p *Proposal) graphQL(r ledger.Record, names namer) {
	fields := fieldsOf(p.seen)
	p.Post = mutates(r)
	rule := Rule{Post: p.Post, Match: Match{URL: p.Host + r.Path, GraphQL: &GraphQL{Type: "query", Fields: fields}}}
	if p.Post {
		rule.Match.GraphQL.Type, rule.Action = "mutation", word(strings.Join(fields[:min(1, len(fields))], ""))
	}
	p.About = fmt.Sprintf("the %s %s of %s%s", rule.Match.GraphQL.Type, strings.Join(fields, ", "), p.Host, r.Path)
	p.Example = p.About
	rule.Name = names.name(p.Host, "graphql "+rule.Match.GraphQL.Type)
	all := rule
	if !p.Post {
		all.Match.GraphQL = &GraphQL{Type: "query"}
	}
	p.Narrow, p.Normal, p.Wide = []Rule{rule}, []Rule{rule}, []Rule{all}
}

// methods returns the methods by which a path was seen, or any path for "".
func (p *Proposal) methods(path string) (methods []string) {
	for _, s := range p.seen {
		if r := s.any(); (path == "" || r.Path == path) && !slices.Contains(methods, r.Method) {
			methods = append(methods, r.Method)
		}
	}
	slices.Sort(methods)
	return methods
}

// exact returns rule for each path by itself, or rule alone if there are too many.
func (p *Proposal) exact(rule Rule, names namer) (rules []Rule) {
	var paths []string
	for _, s := range p.seen {
		paths = append(paths, s.any().Path)
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); len(paths) > maxExact {
		return []Rule{rule}
	}
	for i, path := range paths {
		r := rule
		r.WebSocket, r.Content = p.sockets(path), p.content(path)
		if r.Match.URL, r.Match.Methods = p.Host+path, p.methods(path); i > 0 {
			r.Name = names.unique(rule.Name)
		}
		rules = append(rules, r)
	}
	return rules
}

// carried returns what the calls carry to a path, or to any for "".
func (p *Proposal) carried(path string) (all []string) {
	for _, s := range p.seen {
		if r := s.any(); path == "" || r.Path == path {
			all = append(all, r.Carries)
		}
	}
	return all
}

func (p *Proposal) sockets(path string) bool {
	return slices.Contains(p.carried(path), ledger.WebSocket)
}

// content is raw for bodies that are no JSON.
func (p *Proposal) content(path string) string {
	if p.Post && slices.ContainsFunc(p.carried(path), func(c string) bool { return c != "" && c != ledger.WebSocket }) {
		return "raw"
	}
	return ""
}

func (p *Proposal) reads(names namer) {
	path := template(p.seen[0].any().Path)
	p.About = "reads of " + p.Host + path
	rule := Rule{Name: names.name(p.Host, words(path)+" reads"),
		Match: Match{URL: p.Host + path, Methods: p.methods("")}, WebSocket: p.sockets("")}
	if p.WebSocket = rule.WebSocket; p.WebSocket {
		p.About = "WebSockets, in which the agent can post unread, and " + p.About
	}
	p.Narrow, p.Normal = p.exact(rule, names), []Rule{rule}
	if p.WebSocket {
		p.Wide = p.Normal
		return
	}
	wide := Rule{Name: rule.Name, Match: Match{URL: p.Host + "/**", Methods: []string{http.MethodGet, http.MethodHead}}}
	if slices.Contains(rule.Match.Methods, http.MethodOptions) {
		wide.Match.Methods = append(wide.Match.Methods, http.MethodOptions)
	}
	p.Wide = []Rule{wide}
}

func (p *Proposal) post(r ledger.Record, others []string, names namer) {
	path := template(r.Path)
	p.Post, p.About = true, fmt.Sprintf("%s %s%s", r.Method, p.Host, path)
	rule := Rule{Post: true, Name: names.name(p.Host, words(path)+" "+strings.ToLower(r.Method)),
		Action: operation(r.Method, path),
		Query:  slices.ContainsFunc(p.seen, func(s *seen) bool { return len(s.any().QueryNames) > 0 }),
		Match:  Match{URL: p.Host + path, Methods: []string{r.Method}}, Content: p.content("")}
	p.Narrow, p.Normal = p.exact(rule, names), []Rule{rule}
	wide := rule
	wide.Match.URL = p.Host + common(slices.DeleteFunc(slices.Concat([]string{path}, others), func(t string) bool {
		return !alike(path, t) && t != path
	}))
	p.Wide = []Rule{wide}
}

func (p *Proposal) model(r ledger.Record, names namer) {
	p.Model, p.About = true,
		fmt.Sprintf("calls to a model (mediator preset list may have its rules), %s %s%s", r.Method, p.Host, r.Path)
	rule := Rule{Name: names.name(p.Host, "model"), Observe: dialect(r),
		Match: Match{URL: p.Host + r.Path, Methods: []string{r.Method}}}
	p.Narrow, p.Normal, p.Wide = []Rule{rule}, []Rule{rule}, []Rule{rule}
}
