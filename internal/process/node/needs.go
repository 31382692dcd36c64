package node

import (
	"path/filepath"
	"slices"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger/postgres"
)

// Resources lists what the node uses while it serves.
func Resources(c *config.Reputation, o *daemon.Observer) (daemon.Resources, error) {
	n := daemon.Resources{
		Named: o.Paths, Write: []string{c.State}, Socket: c.Internal.Unix, Bind: []string{c.Internal.TCP}, Connect: c.Custody.Addresses(),
	}
	if c.Public != nil {
		n.Bind = append(n.Bind, c.Public.Listen)
	}
	if c.Verification != nil {
		for _, s := range c.Verification.XRay.Configured() {
			n.Connect = append(n.Connect, s.URL, "53") // 53 to resolve its name over TCP
		}
	}
	if c.StoreDSN == "" {
		return n, nil
	}
	ports, err := postgres.Ports(c.StoreDSN)
	for _, p := range ports {
		n.Connect = append(n.Connect, daemon.Port(p))
	}
	n.Connect = append(n.Connect, "53") // to resolve the names of the database's servers over TCP
	return n, err
}

// Observer returns the observer for what the node can see of its deployment.
func Observer(c *config.Reputation, roles []daemon.Role) *daemon.Observer {
	secret := append(daemon.CustodySecrets(c.Custody, roles), c.Internal.TokenFile, filepath.Join(c.State, storeFile))
	public := append(c.Custody.PublicFiles(), c.Path, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	if c.Public != nil {
		secret, public = append(secret, c.Public.TLSKey), append(public, c.Public.TLSCertificate)
	}
	if v := c.Verification; v != nil {
		secret, public = append(secret, filepath.Join(c.State, verificationFile)), append(public, v.Tasks)
		for _, s := range v.XRay.Configured() {
			secret, public = append(secret, s.TokenFile), append(public, s.CA)
		}
	}
	if d := c.Disputes; d != nil {
		public = append(public, d.Arbiter)
	}
	if c.Store.Postgres != nil {
		secret = append(secret, c.Store.Postgres.DSNFile)
	}
	for _, o := range c.Owners {
		public = append(public, o.Registry, o.Bundle)
	}
	slices.Sort(public)
	return &daemon.Observer{
		Agent: c.Agent, Roles: roles,
		Paths: slices.Concat(daemon.SecretPaths(secret...), daemon.PublicPaths(slices.Compact(public)...), daemon.SocketPath(c.Internal)),
	}
}
