package sidecar

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/look"
)

// Resources lists what the sidecar uses while it serves.
func Resources(c *config.Sidecar, o *daemon.Observer) (daemon.Resources, error) {
	n := daemon.Resources{
		Named: o.Paths, Write: []string{c.State}, Proc: true, Socket: c.Admin.Unix,
		Bind:    []string{c.Listen, c.Admin.TCP},
		Connect: append(c.Custody.Addresses(), "53", c.Trigger.TCP, c.Control.TCP),
	}
	if c.Transparent != nil {
		n.Bind = append(n.Bind, c.Transparent.Listen)
	}
	if c.Guard != nil {
		if o := c.GuardOptions(); len(o.Redirect) > 0 {
			n.Connect = append(n.Connect, daemon.Port(o.Redirect[0])) // guardWatch makes this connection
		}
	}
	for _, a := range c.ActionRules {
		n.Connect = append(n.Connect, daemon.Port(a.Match.Port))
	}
	for _, e := range c.EgressRules {
		n.Connect = append(n.Connect, daemon.Port(e.Match.Port))
	}
	for _, u := range c.UpstreamHosts {
		if u.Address.IsValid() && u.Address.Port() != 0 {
			n.Connect = append(n.Connect, daemon.Port(u.Address.Port()))
		}
	}
	for _, a := range c.Actions {
		if a.API != nil {
			n.Connect = append(n.Connect, a.API.Challenge, a.API.Verify)
		}
	}
	if c.Reputation != nil {
		n.Connect = append(n.Connect, c.Reputation.TCP)
	}
	if c.LedgerDSN != "" {
		ports, err := postgres.Ports(c.LedgerDSN)
		if err != nil {
			return n, err
		}
		for _, p := range ports {
			n.Connect = append(n.Connect, daemon.Port(p))
		}
	}
	return n, nil
}

// observe makes the observer for a configuration.
func (p *process) observe(c *config.Sidecar) *daemon.Observer {
	o := Observer(c, p.Roles)
	if usesVault(c) { // the process with the runtime's key holds the token for credentials too
		o.Extra = func(ctx context.Context, maxAge time.Duration) []look.Observation {
			return []look.Observation{p.secrets.Look(ctx, maxAge).For(evidence.PurposeRuntimeAttestation)}
		}
	}
	return o
}

// usesVault reports whether the credential of a rule is in Vault.
func usesVault(c *config.Sidecar) bool {
	for _, r := range c.Credentials() {
		if r.Vault != nil {
			return true
		}
	}
	return false
}

// Observer returns the observer for what the sidecar's configuration shows of its deployment.
func Observer(c *config.Sidecar, roles []daemon.Role) *daemon.Observer {
	secret := []string{c.CA.Dir, c.Gate.SecretFile, c.Admin.TokenFile, c.Trigger.TokenFile, c.Control.TokenFile, filepath.Join(c.State, "ledger.db")}
	if c.Ledger.Postgres != nil {
		secret = append(secret, c.Ledger.Postgres.DSNFile)
	}
	var node config.Endpoint
	if c.Reputation != nil {
		node = c.Reputation.Endpoint
		secret = append(secret, node.TokenFile)
	}
	for _, r := range c.Credentials() {
		secret = append(secret, r.File) // empty for a credential in Vault
	}
	if usesVault(c) {
		secret = append(secret, c.Custody.SecretFiles(credentialRole)...)
	}
	slices.Sort(secret)
	secret = append(slices.Compact(secret), daemon.CustodySecrets(c.Custody, roles)...)
	public := append(c.Custody.PublicFiles(), c.Path, c.Manifest, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle, c.Trigger.Unix, c.Control.Unix, node.Unix)
	for _, u := range c.Upstreams {
		public = append(public, u.CA)
	}
	return &daemon.Observer{
		Agent: c.Agent, Roles: roles, FromConfig: []look.Observation{observeGate(c)},
		Paths: slices.Concat(daemon.SecretPaths(secret...), daemon.PublicPaths(public...), daemon.SocketPath(c.Admin)),
	}
}

// observeGate returns what the sidecar's configuration shows of its gate.
func observeGate(c *config.Sidecar) look.Observation {
	var remote []string
	for _, a := range c.Actions {
		if a.API != nil {
			remote = append(remote, a.Name)
		}
	}
	if len(remote) > 0 {
		return look.New(look.Gate, look.NotObserved, "These actions are judged by their APIs, which this sidecar does not see: "+strings.Join(remote, ", ")+".")
	}
	return look.New(look.Gate, look.Holds,
		fmt.Sprintf("Every action (%d) passes this sidecar's own gate, which demands the whole chain and consumes it in the transaction of the post's intent.", len(c.Actions)))
}
