package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
)

// judgeRules returns warnings about rules that expire, and about egress rules that are wide, or that change nothing.
// Only checks of files have them: they cost much with many rules.
func (c *Sidecar) judgeRules(now time.Time) []Warning {
	all := c.expiring(now)
	for i, e := range c.EgressRules {
		key := fmt.Sprintf("egress[%d]", i)
		if why := wide(e); why != "" {
			all = append(all, Warning{"rule_wide", key + ".match", fmt.Sprintf("the rule %s allows %s", e.Name, why)})
		}
		if other := c.shadows(i); other != "" {
			all = append(all, Warning{"rule_shadowed", key,
				fmt.Sprintf("the rule %s allows all calls of the rule %s too: without this one, nothing changes", other,
					e.Name)})
		}
	}
	return all
}

// wide says what a rule allows if that is more than one can mean.
func wide(e rules.Egress) string {
	domain, wildcard := strings.CutPrefix(e.Match.Host, "*.")
	suffix, icann := publicsuffix.PublicSuffix(domain)
	writes := slices.ContainsFunc(e.Match.Methods, func(m string) bool { return !match.IsRead(m) })
	switch {
	case wildcard && suffix == domain && (icann || strings.Contains(domain, ".")):
		return "hosts of many owners: anyone can have a name below " + domain
	case wildcard && writes:
		return "writes to every subdomain of " + domain + " without evidence"
	case writes && e.Match.Path == "/**":
		return "every write to " + e.Match.Host + " without evidence"
	}
	return ""
}

// isPlain reports whether a rule is about origin, method and path alone, and does nothing else with its calls.
func isPlain(e rules.Egress) bool {
	return e.MCP == nil && e.GraphQL == nil && e.Observe == nil && e.Generate == nil && !e.WebSocket
}

// shadows returns the name of another plain egress rule that allows every call of the rule with this index, with the
// same credential, client certificate and way. It judges one call of the rule's own pattern, with names that no other
// rule has.
func (c *Sidecar) shadows(i int) string {
	e := c.EgressRules[i]
	if !isPlain(e) {
		return ""
	}
	var others []rules.Egress
	for at, o := range c.EgressRules {
		if at != i && isPlain(o) && o.Match.Port == e.Match.Port && match.CoversHost(o.Match.Host, e.Match.Host) &&
			reflect.DeepEqual(c.Egress[at].Credential, c.Egress[i].Credential) &&
			reflect.DeepEqual(c.Egress[at].ClientCertificate, c.Egress[i].ClientCertificate) && o.Via == e.Via {
			others = append(others, o)
		}
	}
	if len(others) == 0 {
		return ""
	}
	rules, err := rules.New(nil, others, nil)
	if err != nil {
		return ""
	}
	name := ""
	for _, method := range e.Match.Methods {
		v, err := rules.Judge(ledger.Record{Scheme: e.Match.Scheme, Method: method, Path: match.Witness(e.Match.Path),
			Host: fmt.Sprintf("%s:%d", strings.Replace(e.Match.Host, "*", "a-name-of-its-own", 1), e.Match.Port)})
		if err != nil {
			return ""
		}
		name = v.Rule
	}
	return name
}

// Warning is a risk that a configuration takes. Its code is stable.
type Warning struct {
	Code     string `json:"code"`
	Key      string `json:"key"`
	Sentence string `json:"sentence"`
}

func (w Warning) String() string { return fmt.Sprintf("%s: %s (%s)", w.Key, w.Sentence, w.Code) }

func (c *Sidecar) warn() {
	add := func(code, key, format string, args ...any) {
		c.Warnings = append(c.Warnings, Warning{code, key, fmt.Sprintf(format, args...)})
	}
	for i, e := range c.EgressRules {
		if !e.WebSocket {
			continue
		}
		for _, a := range c.ActionRules {
			if match.CoversHost(e.Match.Host, a.Match.Host) {
				add("websocket_beside_action", fmt.Sprintf("egress[%d].websocket", i),
					"the rule %s allows WebSockets to %s, where the action %s posts: messages in a WebSocket need no "+
						"evidence", e.Name, a.Match.Host, a.Name)
				break
			}
		}
	}
	for i, a := range c.Actions {
		if a.Gate == "api" && a.Match.messages() != "" {
			add("api_gate_resource", fmt.Sprintf("actions[%d].gate", i),
				"the action %s is about %s: its resource ends with the operation in the message, "+
					"and the API must say the same in gate.Protect.Resource, or it refuses every post", a.Name,
				a.Match.messages())
		}
	}
}
