package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
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

func configFlag(c *cobra.Command, path *string, name string) {
	c.Flags().StringVar(path, "config", "", "the configuration file, as configs/"+name+" shows it (required)")
	required(c, "config")
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
	upstreams       []proxy.Upstream
	environmentHash string // set by measure
}

// measure notes what this process runs with this configuration.
func (s *sidecar) measure() (err error) {
	s.environmentHash, err = environmentHash(s.raw)
	return err
}

// environmentHash measures what this process runs: its own binary and its configuration. It is what requiredEnvironmentHash in
// the manifest pins; mediator deployment environment prints it.
func environmentHash(config []byte) (string, error) {
	binary, err := binaryHash()
	if err != nil {
		return "", fmt.Errorf("measure the environment: %w", err)
	}
	return evidence.HashValue(map[string]string{"binary": binary, "config": evidence.HashBytes(config)})
}

// binaryHash hashes the program that runs, once: the kernel lets nobody write to it while it does, and another one in its place is another
// file.
var binaryHash = sync.OnceValues(func() (string, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer exe.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, exe); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

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
	c.checkTransparent(&f)
	c.checkGuard(&f)
	if err := errors.Join(c.Limits.load().Check(), c.Limits.connections().Check()); err != nil {
		f.add("limits", "%v", err)
	}
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Trust.check(&f)
	c.Keys.Runtime.check("keys.runtime", &f)
	c.Keys.Session.check("keys.session", &f)
	c.Keys.RequestProof.check("keys.requestProof", &f)
	s.admin = c.Admin.endpoint("admin", &f, l.file)
	s.trigger = c.Trigger.endpoint("trigger", &f, l.file)
	s.control = c.Control.endpoint("control", &f, l.file)
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
	if out.MaxBody == 0 {
		out.MaxBody = 1 << 20
	}
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
		s.apis[a.Name] = *a.API
	default:
		if a.API != nil {
			f.add(key+".api", "has no meaning with gate: local")
		}
	}
	s.actions = append(s.actions, out)
}

// choice returns value if it is one of options, the first of which is the default.
func choice(key, value string, f *findings, options ...string) string {
	if value == "" {
		return options[0]
	}
	for _, o := range options {
		if value == o {
			return o
		}
	}
	f.add(key, "%q is none of %v", value, options)
	return options[0]
}

func (s *sidecar) addEgress(key string, e egressConfig, f *findings) {
	f.need(key+".name", e.Name)
	s.egress = append(s.egress, proxy.Egress{Name: e.Name, Match: parseMatch(key+".match", e.Match, f), Credential: s.credential(key+".credential", e.Name, e.Credential, f)})
}

func (s *sidecar) addUpstream(key string, u upstreamConfig, f *findings) {
	target, err := proxy.ParseConnect(u.Host)
	if err != nil {
		f.add(key+".host", "%v", err)
		return
	}
	networks, err := parseNetworks(u.Networks)
	if err != nil {
		f.add(key+".networks", "%v", err)
	}
	up := proxy.Upstream{Host: target.Host, Port: target.Port, Networks: networks}
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

func (s *sidecar) credential(key, rule string, c *credentialConfig, f *findings) *proxy.Credential {
	if c == nil {
		return nil
	}
	header := c.Header
	if header == "" {
		header = "Authorization"
	}
	source := s.secretSource(key, rule, c, f)
	if source == nil {
		return nil
	}
	credential, err := proxy.NewCredential(header, c.Prefix, source)
	if err != nil {
		f.add(key, "%v", err)
	}
	return credential
}

func (s *sidecar) secretSource(key, rule string, c *credentialConfig, f *findings) proxy.SecretSource {
	v := c.Vault
	switch {
	case (c.File == "") == (v == nil):
		f.add(key, "needs either file or vault")
	case v == nil:
		source, err := newFileSecret(s.file(c.File))
		if err == nil {
			return source
		}
		f.add(key+".file", "%v", err)
	case s.T.Custody.Vault == nil:
		f.add(key+".vault", "needs custody.type: vault")
	default:
		f.need(key+".vault.path", v.Path, key+".vault.field", v.Field)
		return s.vaultSecret(strings.ReplaceAll(v.Path, "{rule}", rule), v.Field)
	}
	return nil
}

// vaultSecret returns the one source of a secret, which rules can share.
func (s *sidecar) vaultSecret(path, field string) *vaultSecret {
	for _, v := range s.vaultSecrets {
		if v.path == path && v.field == field {
			return v
		}
	}
	v := &vaultSecret{path: path, field: field}
	s.vaultSecrets = append(s.vaultSecrets, v)
	return v
}

func parseMatch(key string, m matchConfig, f *findings) proxy.Match {
	out, err := proxy.ParseMatch(m.URL, m.Methods)
	if err != nil {
		f.add(key, "%v", err)
	}
	return out
}

// openCA loads the CA that mediator ca init has made, or makes one that lives in memory alone; its certificate is written out
// for agents to trust.
func (s *sidecar) openCA() (*proxy.CA, error) {
	var ca *proxy.CA
	var err error
	if s.T.CA.Dir != "" {
		ca, err = proxy.LoadCA(s.file(s.T.CA.Dir), time.Now())
	} else {
		o := proxy.CAOptions{Now: time.Now}
		if !s.T.CA.Unconstrained {
			if o.Constraints, err = proxy.Constrain(s.hosts()); err != nil {
				return nil, err
			}
		}
		ca, err = proxy.NewCA(o)
	}
	if err != nil {
		return nil, err
	}
	return ca, os.WriteFile(s.caFile(), ca.CertificatePEM(), 0o644) //nolint:gosec // a certificate is public, and agents of other users read it
}

func (s *sidecar) caFile() string {
	if s.T.CA.CertificateFile != "" {
		return s.file(s.T.CA.CertificateFile)
	}
	return filepath.Join(s.file(s.T.State), "ca.pem")
}

// hosts returns every host that a rule names: the interception CA is good for them and for the mediator's own name.
func (s *sidecar) hosts() []string {
	hosts := []string{proxy.InternalHost}
	for _, a := range s.actions {
		hosts = append(hosts, a.Match.Host)
	}
	for _, e := range s.egress {
		hosts = append(hosts, e.Match.Host)
	}
	return hosts
}

// warnOfExpiry says in the log, once a day, that the CA is about to expire: after that no agent's handshake succeeds.
func warnOfExpiry(ctx context.Context, ca *proxy.CA, log *zap.Logger) {
	const early, period = 7 * 24 * time.Hour, 24 * time.Hour
	for wait := time.Until(ca.Expires().Add(-early)); ; wait = period {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			log.Error("the interception CA is about to expire: restart the sidecar, or make a new one with mediator ca init", zap.Time("expires", ca.Expires()))
		}
	}
}

// prunePeriod is how often the ledger is rid of what can never be replayed.
const prunePeriod = 10 * time.Minute

func prune(ctx context.Context, record ledger.Store, log *zap.Logger) {
	for range every.Tick(ctx, prunePeriod) {
		if err := record.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Error("the ledger could not be pruned", zap.Error(err))
		}
	}
}
