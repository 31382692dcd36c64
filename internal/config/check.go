package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
)

// minToken is the minimum length of the token of a TCP endpoint, in bytes.
const minToken = 32

// check adds the mistakes in an endpoint to f, and reads the endpoint's token.
func (e *Endpoint) check(key string, f *findings) {
	switch {
	case (e.Unix == "") == (e.TCP == ""):
		f.Add(key, "needs either unix or tcp")
	case e.Unix != "" && e.TokenFile != "":
		f.Add(key+".tokenFile", "has no meaning with unix, where the kernel says who connects")
	case e.TCP != "" && e.TokenFile == "":
		f.Add(key+".tokenFile", "is required for tcp, which a token has to guard")
	case e.TCP != "" && len(e.UIDs) > 0:
		f.Add(key+".uids", "has no meaning with tcp: whoever has the token may connect")
	case e.TCP != "":
		if checkAddress(key+".tcp", e.TCP, f); portIn(e.TCP) == 0 {
			f.Add(key+".tcp", "%q has no port that others could know", e.TCP)
		}
		token, err := files.ReadSecret(e.TokenFile, minToken)
		if err != nil {
			f.Add(key+".tokenFile", "%v", err)
		}
		e.Token = token
	}
}

// checkRemote checks an endpoint at which another process answers. Only that process's own configuration says which
// users it admits.
func (e *Endpoint) checkRemote(key string, f *findings) {
	if len(e.UIDs) > 0 {
		f.Add(key+".uids", "has no meaning here: name this process's user in the configuration of the one that answers")
		e.UIDs = nil
	}
	e.check(key, f)
}

// checkAddress adds a finding unless address is a host:port to listen on or to connect to.
func checkAddress(key, address string, f *findings) {
	if _, port, err := net.SplitHostPort(address); err != nil || port != "0" && portIn(address) == 0 {
		f.Add(key, "%q is not a host and a port, as 127.0.0.1:8181 is", address)
	}
}

// portIn returns the port of a host:port, or 0.
func portIn(address string) uint16 {
	_, s, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// parseAddress parses an IP address with or without a port. Without one, the port is 0.
func parseAddress(s string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(addr, 0), nil
	}
	return netip.ParseAddrPort(s)
}

func parseNetworks(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is not an address range such as 10.0.0.0/8", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// check adds the mistakes in c to f.
func (c Trust) check(f *findings) {
	f.required("trust.registry", c.Registry, "trust.auditor", c.Auditor, "trust.bundle", c.Bundle)
	if skew := time.Duration(c.ClockSkew); skew > evidence.MaxSkew {
		f.Add("trust.clockSkew", "%s is more than %s: what is too old would be taken for fresh", skew, evidence.MaxSkew)
	}
}

// check adds the mistakes in the agent's user to f. A socket of this process must not admit that user: socket is the
// socket's key, and admitted are the users that it admits.
func (c Agent) check(f *findings, socket string, admitted []uint32) {
	switch {
	case c.UID == nil && len(c.GIDs) > 0:
		f.Add("agent.gids", "has no meaning without agent.uid")
	case c.UID == nil:
	case slices.Contains(admitted, *c.UID):
		f.Add(socket+".uids", "%d is agent.uid: the agent is what the socket is kept from", *c.UID)
	}
}

func (c Log) check(f *findings) {
	f.choice("log.level", c.Level, "info", "debug", "warn", "error")
}

func (c Confine) check(f *findings) {
	f.choice("confine.landlock", c.Landlock, "best_effort", "required", "off")
	f.choice("confine.seccomp", c.Seccomp, "required", "off")
}

// maxSigned bounds the lifetime of everything that a process signs.
var maxSigned = evidence.RuntimeAttestationKind.MaxLifetime

// namedKey is a role's key and its place in the configuration.
type namedKey struct {
	at string
	SigningKey
}

// checkKeys adds the mistakes in the keys of a process to f. No two roles may share a key or an issuer.
func checkKeys(f *findings, keys ...namedKey) {
	for i, k := range keys {
		f.required(k.at+".key", k.Key, k.at+".issuer", k.Issuer)
		if l := time.Duration(k.Lifetime); l != 0 && (l < time.Second || l > maxSigned) {
			f.Add(k.at+".lifetime", "%s is not between 1s and %s", l, maxSigned)
		}
		for _, other := range keys[:i] {
			if k.Key != "" && k.Key == other.Key {
				f.Add(k.at+".key", "%s is the key of %s too", k.Key, other.at)
			}
			if k.Issuer != "" && k.Issuer == other.Issuer {
				f.Add(k.at+".issuer", "%s is the issuer of %s too", k.Issuer, other.at)
			}
		}
	}
}

// check adds the mistakes in a custody to f.
func (c Custody) check(f *findings) {
	f.required("custody.type", c.Type)
	f.choice("custody.type", c.Type, "memory", "vault", "pkcs11")
	if (c.Vault != nil) != (c.Type == "vault") {
		f.Add("custody.vault", "goes together with type: vault")
	}
	if (c.PKCS11 != nil) != (c.Type == "pkcs11") {
		f.Add("custody.pkcs11", "goes together with type: pkcs11")
	}
	if c.Vault != nil {
		c.Vault.check("custody.vault", f)
	}
	if p := c.PKCS11; p != nil {
		f.required("custody.pkcs11.module", p.Module, "custody.pkcs11.token", p.Token, "custody.pkcs11.pinFile", p.PINFile)
	}
}

// check adds the mistakes in Vault's configuration to f. The keys of the findings begin with key.
func (c *Vault) check(key string, f *findings) {
	f.required(key+".address", c.Address)
	if len(c.Keys) == 0 {
		f.Add(key+".keys", "is required")
	}
	methods := 0
	for _, set := range []bool{c.Auth.AppRole != nil, c.Auth.Kubernetes != nil, c.Auth.TokenFile != ""} {
		if set {
			methods++
		}
	}
	if methods != 1 {
		f.Add(key+".auth", "needs exactly one of appRole, kubernetes, tokenFile")
	}
	// Each role needs a token of its own. A token that is obtained by a name or path for all roles could sign for all
	// roles.
	differs := func(name, value string) {
		if f.required(name, value); value != "" && !strings.Contains(value, "{role}") {
			f.Add(name, "%q is the same for every role: write {role} where they differ", value)
		}
	}
	if a := c.Auth.AppRole; a != nil {
		differs(key+".auth.appRole.role", a.Role)
		differs(key+".auth.appRole.roleIDFile", a.RoleIDFile)
		differs(key+".auth.appRole.secretIDFile", a.SecretIDFile)
	}
	if k := c.Auth.Kubernetes; k != nil {
		differs(key+".auth.kubernetes.role", k.Role)
	}
	if c.Auth.TokenFile != "" {
		differs(key+".auth.tokenFile", c.Auth.TokenFile)
	}
}
