// Package learn proposes rules from the records of calls. It knows nothing of the sidecar: the caller says what rules
// allow.
//
//	learn.go    collects calls
//	propose.go  makes proposals from them
//	names.go    names of rules, operations and APIs of models
//	git.go      fetches from git repositories
//	path.go     templates of paths
//	rule.go     rules in the form of the configuration
package learn

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Judge returns nil if rules allow a recorded call, or the refusal: see [rules.Rules.Judge].
type Judge func(ledger.Record) error

// unruled are the codes of calls that were refused because no rule allows them, or because the session only learnt.
var unruled = []string{"egress_denied", "action_unmatched", "learning_refused", "mcp_method_refused"}

// IsUnruled reports whether a refusal, nil for none, says that no rule allows the call.
func IsUnruled(err error) bool {
	return err != nil && slices.ContainsFunc(unruled, func(code string) bool {
		return errors.Is(err, refusal.New(code, ""))
	})
}

// maxKept bounds what is kept of different calls of different sessions, in bytes: an agent chooses its paths. An entry
// takes about entrySize beside its texts.
const maxKept, entrySize = 128 << 20, 1 << 10

// Calls are the recorded calls that no rule allows.
type Calls struct {
	judge Judge
	seen  map[string]*seen
	unfit map[string]string // the sessions from which nothing may be learnt, with the code of what happened in each
	kept  int
	// Left counts the calls that were left out because there were too many different ones.
	Left int
}

// seen is one call as often as it was made, by session.
type seen struct {
	origin string
	by     map[string]*span
}

// span says how often a session made a call, and when.
type span struct {
	calls, refused int
	first, last    time.Time
	call           ledger.Record     // the last one, without its evidence
	hashes         map[string]string // of the tools that a server listed
}

func (s *span) add(o *span) {
	if s.calls == 0 || o.first.Before(s.first) {
		s.first = o.first
	}
	if s.calls == 0 || !o.last.Before(s.last) {
		s.last, s.call = o.last, o.call
	}
	if o.hashes != nil && s.hashes == nil {
		s.hashes = make(map[string]string)
	}
	maps.Copy(s.hashes, o.hashes)
	s.calls, s.refused = s.calls+o.calls, s.refused+o.refused
}

// spanOf returns a recorded call made once.
func spanOf(r ledger.Record) *span {
	s := &span{calls: 1, first: r.Started, last: r.Started, call: ledger.Record{
		Scheme: r.Scheme, Host: r.Host, Method: r.Method, Path: r.Path, QueryNames: r.QueryNames, MCP: r.MCP,
		GraphQL: r.GraphQL, Carries: r.Carries,
		Session: r.Session, Started: r.Started,
	}}
	if r.State == ledger.StateRefused {
		s.refused = 1
	}
	if len(r.Tools) > 0 {
		s.hashes = make(map[string]string)
	}
	for _, tool := range r.Tools {
		s.hashes[tool.Name] = tool.Hash
	}
	return s
}

// New returns an empty collection. Calls that judge allows are not collected.
func New(judge Judge) *Calls {
	return &Calls{judge: judge, seen: make(map[string]*seen), unfit: make(map[string]string)}
}

// Unfit returns the sessions from which nothing is learnt, each with the code of the first refused address, repeated
// credential or broken message in it.
func (c *Calls) Unfit() map[string]string { return c.unfit }

// Add adds the record of a call.
func (c *Calls) Add(r ledger.Record) {
	if r.Unfit != "" {
		c.unfit[r.Session] = r.Unfit
	}
	target, err := upstream.ParseOrigin(r.Scheme, r.Host)
	recorded := err == nil && r.Session != "" && isLiteral(r.Path) && !strings.HasSuffix(r.Path, "…") &&
		(r.State != ledger.StateRefused || slices.Contains(unruled, r.Code))
	if !recorded || target.Host == match.Own || !isNameable(r) || !IsUnruled(c.judge(r)) {
		return
	}
	key := callKey(r)
	s := c.seen[key]
	if s == nil {
		s = &seen{origin: target.String(), by: make(map[string]*span)}
	}
	if s.by[r.Session] == nil {
		if c.kept >= maxKept {
			c.Left++
			return
		}
		c.kept += entrySize + 2*len(key)
		s.by[r.Session], c.seen[key] = new(span), s
	}
	s.by[r.Session].add(spanOf(r))
}

// isNameable reports whether a rule can name the call's message, if it has one: an MCP request, or a GraphQL document
// of queries or of mutations that has been recorded whole.
func isNameable(r ledger.Record) bool {
	if m := r.MCP; m != nil && m.Tool != "" {
		return (&mcp.Rule{Tools: []string{m.Tool}, Post: true}).Check() == nil
	} else if m != nil {
		return m.Method != "" && m.Method[0] != '"' // quoted, because it is no name
	}
	return rules.IsWhole(r.GraphQL) && !slices.ContainsFunc(r.GraphQL, func(o ledger.Operation) bool {
		rule := &graphql.Rule{Type: r.GraphQL[0].Type, Fields: o.Fields}
		return o.Type != rule.Type || rule.Check(o.Type == graphql.Mutation) != nil
	})
}

// callKey is equal for calls that a rule cannot tell apart.
func callKey(r ledger.Record) string {
	parts := []string{r.Scheme, r.Host, r.Method, r.Path, r.Carries}
	if r.MCP != nil {
		parts = append(parts, "mcp", r.MCP.Method, r.MCP.Tool)
	}
	for _, o := range r.GraphQL {
		parts = append(append(parts, "graphql", o.Type), o.Fields...)
	}
	if len(r.QueryNames) > 0 {
		parts = append(parts, "query")
	}
	return strings.Join(parts, "\x00")
}

// fit returns the calls of sessions from which something may be learnt, in a fixed order.
func (c *Calls) fit() (all []*seen) {
	for _, key := range slices.Sorted(maps.Keys(c.seen)) {
		s := *c.seen[key]
		s.by = maps.Clone(s.by)
		maps.DeleteFunc(s.by, func(session string, _ *span) bool { return c.unfit[session] != "" })
		if len(s.by) > 0 {
			all = append(all, &s)
		}
	}
	return all
}
