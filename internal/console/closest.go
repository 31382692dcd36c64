package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/learn"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/upstream"
)

type closest struct {
	Rule    own.Rule
	Differs []string // what a call that the rule allows would have; empty if the rule allows the call itself
}

// closestTo returns the rule whose call the refused one resembles most, or nil if none names its host.
func closestTo(r ledger.Record, rules []own.Rule) *closest {
	target, err := upstream.ParseOrigin(r.Scheme, r.Host)
	if err != nil {
		return nil
	}
	var best *closest
	least := 0
	for _, rule := range rules {
		if r.Rule != "" && rule.Name == r.Rule { // the call was refused later
			return &closest{Rule: rule}
		}
		m, err := match.Parse(rule.URL, rule.Methods)
		if err != nil || !match.CoversHost(m.Host, target.Host) {
			continue
		}
		differs, weight := differences(r, target, rule, m)
		if best == nil || weight < least {
			best, least = &closest{rule, differs}, weight
		}
	}
	return best
}

// differences says what differs between a call and those that a rule of its host allows, and how much.
func differences(r ledger.Record, target upstream.Target, rule own.Rule, m match.Match) (all []string, weight int) {
	differs := func(much int, format string, args ...any) {
		all, weight = append(all, fmt.Sprintf(format, args...)), weight+much
	}
	if m.Scheme != target.Scheme || m.Port != target.Port {
		differs(8, "scheme and port: the rule is for %s://…:%d, the call is to %s://…:%d", m.Scheme, m.Port,
			target.Scheme, target.Port)
	}
	if !covers(m.Path, r.Path) {
		differs(4+8/(1+sameSegments(m.Path, r.Path)), "path: the rule has %s, the call %s", m.Path, r.Path)
	}
	if !slices.Contains(m.Methods, r.Method) {
		differs(2, "method: the rule has %s, the call %s", strings.Join(m.Methods, ", "), r.Method)
	}
	if r.Carries == ledger.WebSocket && !rule.WebSocket {
		differs(1, "WebSocket: the rule does not allow one")
	}
	if r.MCP != nil && r.MCP.Tool != "" && !slices.Contains(rule.Tools, r.MCP.Tool) {
		differs(1, "tool: the rule has %s, the call %s", orNone(rule.Tools), r.MCP.Tool)
	}
	for _, o := range r.GraphQL {
		missing := slices.DeleteFunc(slices.Clone(o.Fields),
			func(f string) bool { return slices.Contains(rule.Fields, f) })
		if rule.GraphQL != o.Type || len(rule.Fields) > 0 && len(missing) > 0 {
			differs(1, "GraphQL: the rule has %s %s, the call %s %s", orNone([]string{rule.GraphQL}),
				strings.Join(rule.Fields, ", "), o.Type, strings.Join(o.Fields, ", "))
		}
	}
	return all, weight
}

func orNone(names []string) string {
	if text := strings.Join(names, ", "); text != "" {
		return text
	}
	return "none"
}

func covers(pattern, path string) bool {
	at := match.Match{Scheme: "https", Host: "host.test", Port: 443, Path: pattern, Methods: []string{"GET"}}
	rules, err := match.New([]*match.Rule{{Name: "rule", Match: at}})
	if err != nil {
		return false
	}
	_, err = rules.Find(upstream.Target{Scheme: "https", Host: at.Host, Port: at.Port}, "GET", path)
	return err == nil
}

// sameSegments counts the segments with which two paths begin alike.
func sameSegments(pattern, path string) (n int) {
	a, b := strings.Split(pattern, "/"), strings.Split(path, "/")
	for n < min(len(a), len(b)) && (a[n] == b[n] || strings.HasPrefix(a[n], "{")) {
		n++
	}
	return n
}

// proposal returns the rule that would allow a call, in the form of the configuration; empty if there is none to
// propose: the call was refused for another reason, or its session is unfit to learn from.
func proposal(r ledger.Record) string {
	refused := refusal.New(r.Code, "")
	if r.State != ledger.StateRefused || r.Rule != "" || !learn.IsUnruled(refused) {
		return ""
	}
	calls := learn.New(func(ledger.Record) error { return refused })
	calls.Add(r)
	for _, p := range calls.Propose(nil) {
		text, err := learn.YAML(p.Rules(learn.Normal), func(int) string { return "" })
		if err == nil {
			return string(text)
		}
	}
	return ""
}
