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
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
)

// Plan returns the plan of a configuration.
func Plan(c *config.Sidecar) (daemon.Plan, error) {
	p := daemon.PlanOf(c, c.File, c.Process, c.Admin.Endpoint)
	p.Manifest, p.Tokens, p.Descriptors, p.Proc = c.Manifest, c.Admin.Tokens, true, true
	p.Grace = c.Timeouts.Shutdown.Or(20 * time.Second)
	p.Secret = append(p.Secret, filepath.Join(c.State, "ledger.db"))
	p.Shown = []look.Observation{observeGate(c)}
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
	if usesVault(c) {
		p.Secret = append(p.Secret, c.Custody.SecretFiles(credentialRole)...)
	}
	if t := c.TransparencyLog; t != nil {
		p.Secret = append(p.Secret, LogKeyFile(c))
		p.Secret = append(p.Secret, c.Custody.SecretFiles(LogRole)...)
		if t.Accepts != nil {
			p.Connect = append(p.Connect, t.Accepts.URLs()...)
		}
	}
	if e := c.AuditExport; e != nil && e.File != "" {
		p.Write = append(p.Write, filepath.Dir(e.File))
	}
	return p, p.UseDatabase(c.Ledger.Postgres.ConnString())
}

func (p *sidecar) Plan(c *config.Sidecar) (daemon.Plan, error) {
	if p.config != nil {
		if err := p.checkHosts(c); err != nil {
			return daemon.Plan{}, err
		}
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
	for _, r := range c.AllRules() {
		if cert := r.ClientCertificate; r.Credential.InVault() != "" || cert != nil && cert.Vault != nil {
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
