package main

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/upstream"
)

func serveCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "serve --config FILE", Short: "Run the sidecar: the proxy that agents use", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), path, c.ErrOrStderr()) },
	}
	configFlag(c, &path, "mediator.yaml")
	return c
}

// sidecar is the validated form of serveConfig.
type sidecar struct {
	loaded[serveConfig]
	admin           endpoint
	trigger         endpoint
	control         endpoint
	ledgerDSN       string         // empty: the ledger is a file
	gateSecret      string         // empty: one that lives in memory alone
	actions         []proxy.Action // their gates are not yet set
	apis            map[string]apiConfig
	egress          []proxy.Egress
	vaultSecrets    []*vaultSecret // of the rules' credentials
	upstreams       []upstream.Host
	environmentHash string // set by measure
}

// loadSidecar reads and checks a sidecar's configuration as a whole.
func loadSidecar(path string) (*sidecar, error) {
	l, err := load[serveConfig](path)
	if err != nil {
		return nil, err
	}
	s := &sidecar{loaded: l, apis: make(map[string]apiConfig)}
	c, f := l.T, findings{}
	f.need("runtime", c.Runtime, "listen", c.Listen, "state", c.State, "audience", c.Audience, "manifest", c.Manifest,
		"trust.registry", c.Trust.Registry, "trust.auditor", c.Trust.Auditor, "trust.bundle", c.Trust.Bundle)
	if c.Listen != "" {
		checkAddress("listen", c.Listen, &f)
	}
	c.Agent.check(&f, "admin", c.Admin.UIDs)
	c.Log.check(&f)
	choice("gate.difficulty", c.Gate.Difficulty, &f, "standard", "lite", "gauntlet")
	c.checkTransparent(&f)
	c.checkGuard(&f)
	if err := errors.Join(c.Limits.load().Check(), c.Limits.connections().Check()); err != nil {
		f.add("limits", "%v", err)
	}
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Trust.check(&f)
	checkKeys(&f, namedKey{"keys.runtime", c.Keys.Runtime}, namedKey{"keys.session", c.Keys.Session}, namedKey{"keys.requestProof", c.Keys.RequestProof})
	s.admin = c.Admin.endpoint("admin", &f, l.file)
	s.trigger = c.Trigger.answers("trigger", &f, l.file)
	s.control = c.Control.answers("control", &f, l.file)
	if at := [...]string{s.admin.unix + s.admin.tcp, s.trigger.unix + s.trigger.tcp, s.control.unix + s.control.tcp}; at[1] != "" && (at[0] == at[1] || at[1] == at[2]) || at[2] != "" && at[0] == at[2] {
		f.add("admin, trigger, control", "two of them are one endpoint")
	}
	s.ledgerDSN = c.Ledger.dsn(&f, l.file)
	if c.Gate.SecretFile != "" {
		if s.gateSecret, err = readSecret(l.file(c.Gate.SecretFile), minGateSecret); err != nil {
			f.add("gate.secretFile", "%v", err)
		}
	}
	for i, a := range c.Actions {
		s.addAction(fmt.Sprintf("actions[%d]", i), a, &f)
	}
	for i, e := range c.Egress {
		s.addEgress(fmt.Sprintf("egress[%d]", i), e, &f)
	}
	for i, u := range c.Upstreams {
		s.addUpstream(fmt.Sprintf("upstreams[%d]", i), u, &f)
	}
	if len(f) == 0 {
		if _, err := proxy.NewRules(s.actions, s.egress); err != nil {
			f = append(f, err)
		}
	}
	return s, f.err(path)
}

func (s *sidecar) addAction(key string, a actionConfig, f *findings) {
	f.need(key+".name", a.Name, key+".subject", a.Subject, key+".action", a.Action)
	out := proxy.Action{
		Name: a.Name, Subject: a.Subject, Action: a.Action, MaxBody: a.MaxBody, AllowQuery: a.Query,
		Match: parseMatch(key+".match", a.Match, f), Credential: s.credential(key+".credential", a.Name, a.Credential, f),
	}
	if a.MaxBody < 0 {
		f.add(key+".maxBody", "%d is less than 0", a.MaxBody)
	}
	out.MaxBody = cmp.Or(out.MaxBody, 1<<20)
	if a.Headers != nil {
		out.Headers = make([]string, len(a.Headers)) // none is not all
	}
	for i, name := range a.Headers {
		if out.Headers[i] = http.CanonicalHeaderKey(name); !httpguts.ValidHeaderFieldName(name) {
			f.add(fmt.Sprintf("%s.headers[%d]", key, i), "%q is not the name of a header", name)
		}
	}
	out.Content = choice(key+".content", a.Content, f, proxy.ContentJSON, proxy.ContentRaw)
	out.AgentSolves = choice(key+".solver", a.Solver, f, "runtime", "agent") == "agent"
	switch choice(key+".gate", a.Gate, f, "local", "api") {
	case "api":
		if a.API == nil {
			f.add(key+".api", "is required with gate: api")
			break
		}
		f.need(key+".api.challenge", a.API.Challenge, key+".api.verify", a.API.Verify)
		if a.Credential != nil && a.Credential.Header != "" && !strings.EqualFold(a.Credential.Header, "Authorization") {
			f.add(key+".credential.header", "an API that takes part verifies the access token in Authorization")
		}
		if _, err := gate.NewClient(gate.ClientOptions{ChallengeURL: a.API.Challenge, VerifyURL: a.API.Verify, HTTP: http.DefaultClient}); err != nil {
			f.add(key+".api", "%v", err)
		}
		s.apis[a.Name] = *a.API
	default:
		if a.API != nil {
			f.add(key+".api", "has no meaning with gate: local")
		}
	}
	s.actions = append(s.actions, out)
}

func (s *sidecar) addEgress(key string, e egressConfig, f *findings) {
	f.need(key+".name", e.Name)
	s.egress = append(s.egress, proxy.Egress{Name: e.Name, Match: parseMatch(key+".match", e.Match, f), Credential: s.credential(key+".credential", e.Name, e.Credential, f)})
}

func (s *sidecar) addUpstream(key string, u upstreamConfig, f *findings) {
	target, err := upstream.ParseConnect(u.Host)
	if err != nil {
		f.add(key+".host", "%v", err)
		return
	}
	if slices.ContainsFunc(s.upstreams, func(o upstream.Host) bool { return o.Name == target.Host && o.Port == target.Port }) {
		f.add(key+".host", "%s is there twice", u.Host)
	}
	networks, err := parseNetworks(u.Networks)
	if err != nil {
		f.add(key+".networks", "%v", err)
	}
	up := upstream.Host{Name: target.Host, Port: target.Port, Networks: networks}
	if u.Address != "" {
		if up.Address, err = parseAddress(u.Address); err != nil {
			f.add(key+".address", "%q is not an IP address, alone or with a port", u.Address)
		}
	}
	if u.CA != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		raw, err := readFile(s.file(u.CA))
		if err != nil || !pool.AppendCertsFromPEM(raw) {
			f.add(key+".ca", "%s holds no PEM certificate", u.CA)
		}
		up.RootCAs = pool
	}
	s.upstreams = append(s.upstreams, up)
}

func parseMatch(key string, m matchConfig, f *findings) proxy.Match {
	out, err := proxy.ParseMatch(m.URL, m.Methods)
	if err != nil {
		f.add(key, "%v", err)
	}
	return out
}
