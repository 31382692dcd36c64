package config

import (
	"fmt"
	"iter"
	"time"

	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Rule is what actions and egress rules have in common.
type Rule struct {
	// Name appears in records and metrics.
	Name string `yaml:"name" need:"yes"`
	// Match selects the calls.
	Match Match `yaml:"match" need:"yes"`
	// Comment says why the rule is there. Agents read it, with `owner` and `expires`, in refusals
	// and at /v1/rules: write no secret into them.
	Comment string `yaml:"comment" to:"500"`
	// Owner answers for the rule.
	Owner string `yaml:"owner" to:"200"`
	// Expires is a date (its start in UTC) or an RFC 3339 time. From then on, calls are refused (rule_expired), and open
	// streams and WebSockets end.
	Expires Time `yaml:"expires"`
	// Credential replaces the agent's own credential. Default: none in actions; in egress rules, the agent's own
	// passes.
	Credential *secrets.Credential `yaml:"credential"`
	// ClientCertificate authenticates the mediator by mutual TLS.
	ClientCertificate *secrets.ClientCertificate `yaml:"clientCertificate"`
	// Sign signs requests (Web Bot Auth): none, web-bot-auth, or web-bot-auth-legacy for verifiers of earlier drafts.
	Sign string `yaml:"sign" one:"none web-bot-auth web-bot-auth-legacy"`
	// Via overrides upstreamProxy.noProxy: direct or proxy.
	Via upstream.Via `yaml:"via"`
}

// AllRules yields what the actions, and then the egress rules, have in common, each with its key in the file.
func (c *Sidecar) AllRules() iter.Seq2[string, *Rule] {
	return func(yield func(string, *Rule) bool) {
		for i := range c.Actions {
			if !yield(fmt.Sprintf("actions[%d]", i), &c.Actions[i].Rule) {
				return
			}
		}
		for i := range c.Egress {
			if !yield(fmt.Sprintf("egress[%d]", i), &c.Egress[i].Rule) {
				return
			}
		}
	}
}

// Matches yields the calls that the rules are about, with the names of the rules.
func (c *Sidecar) Matches() iter.Seq2[string, match.Match] {
	return func(yield func(string, match.Match) bool) {
		for _, a := range c.ActionRules {
			if !yield(a.Name, a.Match) {
				return
			}
		}
		for _, e := range c.EgressRules {
			if !yield(e.Name, e.Match) {
				return
			}
		}
	}
}

// Purpose says what the rule is for. It may have expired: the other rules must still apply.
func (r *Rule) Purpose() match.Purpose {
	return match.Purpose{Comment: r.Comment, Owner: r.Owner, Expires: r.Expires.Time()}
}

// checkRule checks what a rule needs of other sections. m is its match.
func (c *Sidecar) checkRule(key string, r *Rule, m match.Match, f *findings) {
	if m.Host == proxy.InternalHost {
		c.checkForNode(key, r, f)
	}
	if r.Credential != nil {
		c.checkCredential(key+".credential", r.Credential, f)
	}
	if cert := r.ClientCertificate; cert != nil {
		if c.Custody.Vault == nil && cert.Vault != nil {
			f.Add(key+".clientCertificate.vault", "needs custody.type: vault")
		}
		if m.Scheme == "http" {
			f.Add(key+".clientCertificate", "needs an https URL in match")
		}
	}
	if r.Sign != "none" && c.Keys.WebBotAuth == nil {
		f.Add(key+".sign", "needs keys.webBotAuth, the key that signs requests")
	}
	switch {
	case r.Via != "" && r.Via != upstream.ViaDirect && r.Via != upstream.ViaProxy:
		f.Add(key+".via", "%.40q is none of direct, proxy", r.Via)
	case r.Via != "" && c.UpstreamProxy == nil:
		f.Add(key+".via", "needs upstreamProxy")
	}
}

// expiresSoon is the time before the end of a rule in which a check of the file warns.
const expiresSoon = 14 * 24 * time.Hour

// expiring returns warnings about rules that have expired, or will soon.
func (c *Sidecar) expiring(now time.Time) (all []Warning) {
	for key, r := range c.AllRules() {
		t := r.Expires.Time()
		if t.IsZero() || now.Add(expiresSoon).Before(t) {
			continue
		}
		code, when := "rule_expires", "expires"
		if !now.Before(t) {
			code, when = "rule_expired", "expired"
		}
		sentence := fmt.Sprintf("the rule %s %s at %s", r.Name, when, t.Format(time.RFC3339))
		if r.Owner != "" {
			sentence += "; its owner is " + r.Owner
		}
		all = append(all, Warning{code, key + ".expires", sentence})
	}
	return all
}
