package config

import (
	"fmt"
	"time"

	"github.com/actionproof/mediator/proxy/match"
)

// Purpose says what a rule is for. Agents read it in refusals and at /v1/rules: write no secret into it.
type Purpose struct {
	// Comment says why the rule is there (at most 500 bytes).
	Comment string `yaml:"comment"`
	// Owner answers for the rule (at most 200 bytes).
	Owner string `yaml:"owner"`
	// Expires is a date (its start in UTC) or an RFC 3339 time. Then calls are refused (rule_expired), and open streams
	// and WebSockets end.
	Expires Time `yaml:"expires"`
}

// purpose checks a rule's purpose. A rule may have expired: the others must still apply.
func (p Purpose) purpose(key string, f *findings) match.Purpose {
	for _, text := range []struct {
		key, value string
		most       int
	}{{"comment", p.Comment, 500}, {"owner", p.Owner, 200}} {
		if len(text.value) > text.most {
			f.Add(key+"."+text.key, "has %d bytes, more than %d", len(text.value), text.most)
		}
	}
	return match.Purpose{Comment: p.Comment, Owner: p.Owner, Expires: p.Expires.Time()}
}

// Purposes returns what the rules are for, by the names of the rules.
func (c *Sidecar) Purposes() map[string]match.Purpose {
	all := make(map[string]match.Purpose)
	for _, a := range c.ActionRules {
		all[a.Name] = a.Purpose
	}
	for _, e := range c.EgressRules {
		all[e.Name] = e.Purpose
	}
	return all
}

// expiresSoon is the time before the end of a rule in which a check of the file warns.
const expiresSoon = 14 * 24 * time.Hour

// expiring returns warnings about rules that have expired, or will soon.
func (c *Sidecar) expiring(now time.Time) (all []Warning) {
	check := func(key, rule string, p Purpose) {
		t := p.Expires.Time()
		if t.IsZero() || now.Add(expiresSoon).Before(t) {
			return
		}
		code, when := "rule_expires", "expires"
		if !now.Before(t) {
			code, when = "rule_expired", "expired"
		}
		sentence := fmt.Sprintf("the rule %s %s at %s", rule, when, t.Format(time.RFC3339))
		if p.Owner != "" {
			sentence += "; its owner is " + p.Owner
		}
		all = append(all, Warning{code, key + ".expires", sentence})
	}
	for i, a := range c.Actions {
		check(fmt.Sprintf("actions[%d]", i), a.Name, a.Purpose)
	}
	for i, e := range c.Egress {
		check(fmt.Sprintf("egress[%d]", i), e.Name, e.Purpose)
	}
	return all
}
