package sidecar

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
)

// Plan returns the plan of a configuration.
func Plan(c *config.Sidecar) (daemon.Plan, error) {
	p := daemon.Plan{
		File: c.File, Process: c.Process, Manifest: c.Manifest,
		Key: "admin", Endpoint: c.Admin.Endpoint, Tokens: c.Admin.Tokens, Descriptors: true,
		Grace:   c.Timeouts.Shutdown.Or(20 * time.Second),
		Listens: []endpoint.Place{{Key: "listen", Address: c.Listen}},
		Secret: []string{
			c.CA.Dir, c.Gate.SecretFile, filepath.Join(c.State, "ledger.db"),
		},
		Public:  []string{c.Trigger.Unix, c.Control.Unix},
		Write:   []string{c.State},
		Proc:    true,
		Connect: []string{daemon.DNS, c.Trigger.TCP, c.Control.TCP},
		Shown:   []look.Observation{observeGate(c)},
	}
	if c.Agents != nil {
		p.Listens = append(p.Listens, endpoint.Place{Key: "agents.tcp", Address: c.Agents.TCP})
	}
	if c.Transparent != nil {
		p.Listens = append(p.Listens, endpoint.Place{Key: "transparent.listen", Address: c.Transparent.Listen})
	}
	if c.Guard != nil {
		if o := c.GuardOptions(); len(o.Redirect) > 0 {
			p.Connect = append(p.Connect, daemon.Port(o.Redirect[0])) // guardWatch makes this connection
		}
	}
	if c.Session.Learning {
		p.Connect = append(p.Connect, "80", "443")
	}
	for _, m := range c.Matches() {
		p.Connect = append(p.Connect, daemon.Port(m.Port))
	}
	for _, u := range c.UpstreamHosts {
		if u.Address.IsValid() && u.Address.Port() != 0 {
			p.Connect = append(p.Connect, daemon.Port(u.Address.Port()))
		}
	}
	if u := c.UpstreamProxy; u != nil {
		p.Connect = append(p.Connect, daemon.Port(u.Proxy.Port))
		p.Public, p.Secret = append(p.Public, u.CA), append(p.Secret, u.CredentialFile)
	}
	for _, u := range c.Upstreams {
		p.Public = append(p.Public, u.CA)
	}
	for _, a := range c.Actions {
		if a.API != nil {
			p.Connect = append(p.Connect, a.API.Challenge, a.API.Verify)
		}
	}
	if n := c.Reputation; n != nil {
		p.Connect = append(p.Connect, n.TCP)
		p.Public = append(p.Public, n.Unix)
	}
	for _, r := range c.Credentials() {
		files, urls := r.Uses()
		p.Secret, p.Connect = append(p.Secret, files...), append(p.Connect, urls...)
	}
	for _, r := range c.Certificates() {
		certificate, key := r.Files()
		p.Secret = append(p.Secret, certificate, key)
	}
	if usesVault(c) {
		p.Secret = append(p.Secret, c.Custody.SecretFiles(credentialRole)...)
	}
	if t := c.TransparencyLog; t != nil {
		p.Listens = append(p.Listens, endpoint.Place{Key: "transparencyLog.listen", Address: t.Listen})
		p.Secret = append(p.Secret, LogKeyFile(c))
		p.Secret = append(p.Secret, c.Custody.SecretFiles(LogRole)...)
		p.Public = append(p.Public, t.Policy)
		if t.Accepts != nil {
			p.Connect = append(p.Connect, t.Accepts.URLs()...)
		}
	}
	if e := c.AuditExport; e != nil && e.OTLP != nil {
		p.Connect = append(p.Connect, e.OTLP.Endpoint)
		p.Secret, p.Public = append(p.Secret, e.OTLP.HeadersFile), append(p.Public, e.OTLP.CA)
	} else if e != nil {
		p.Write = append(p.Write, filepath.Dir(e.File))
	}
	err := p.UseDatabase(c.Ledger.Postgres, c.LedgerDSN)
	return p, err
}

// Plan implements [daemon.Service].
func (p *sidecar) Plan(c *config.Sidecar) (daemon.Plan, error) {
	if p.config == nil {
		p.config = c
	} else if err := p.checkHosts(c); err != nil {
		return daemon.Plan{}, err
	}
	plan, err := Plan(c)
	if err != nil {
		return plan, err
	}
	if plan.Environment, err = deployed.EnvironmentHash(c.Raw); err != nil {
		return plan, err
	}
	plan.CheckManifest = func(strict *policy.Strict) error { return p.checkManifest(c, plan.Environment, strict) }
	plan.Extra = func(ctx context.Context, maxAge time.Duration) (all []look.Observation) {
		if usesVault(c) { // this process also holds the token for credentials
			all = append(all, p.secrets.Look(ctx, maxAge))
		}
		if t := p.transparency; t != nil && t.key != nil { // and the log's key, which has no role of its own
			all = append(all, t.key.Observe(ctx, maxAge)...)
		}
		for i := range all {
			all[i] = all[i].For(evidence.PurposeRuntimeAttestation)
		}
		return all
	}
	return plan, nil
}

func usesVault(c *config.Sidecar) bool {
	for _, r := range c.Credentials() {
		if r.InVault() != "" {
			return true
		}
	}
	for _, r := range c.Certificates() {
		if r.Vault != nil {
			return true
		}
	}
	return false
}

func observeGate(c *config.Sidecar) look.Observation {
	var remote []string
	for _, a := range c.Actions {
		if a.API != nil {
			remote = append(remote, a.Name)
		}
	}
	if len(remote) > 0 {
		return look.New(look.Gate, look.NotObserved,
			"The APIs judge these actions, and this sidecar does not see how: "+strings.Join(remote, ", ")+".")
	}
	return look.New(look.Gate, look.Holds,
		fmt.Sprintf("Every action (%d) passes this sidecar's own gate, which demands "+
			"the whole chain and consumes it in the transaction of the post's intent.", len(c.Actions)))
}
