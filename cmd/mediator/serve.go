package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/observe"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
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
	log             *zap.Logger
	admin           endpoint
	trigger         endpoint
	control         endpoint
	ledgerDSN       string         // empty: the ledger is a file
	actions         []proxy.Action // their gates are not yet set
	apis            map[string]apiConfig
	egress          []proxy.Egress
	vaultSecrets    []*vaultSecret // of the rules' credentials
	upstreams       []proxy.Upstream
	environmentHash string
	guard           *guardWatch // nil where no rules are asked for
}

// serve runs the sidecar until ctx ends.
func serve(ctx context.Context, path string, stderr io.Writer) error {
	s, err := loadSidecar(path)
	if err != nil {
		return err
	}
	if s.log, err = newLogger(s.T.Log, "serve", stderr); err != nil {
		return err
	}
	defer func() { _ = s.log.Sync() }()
	if s.environmentHash, err = environmentHash(s.raw); err != nil {
		return err
	}
	return s.run(ctx)
}

// environmentHash measures what this process runs: its own binary and its configuration. It is what requiredEnvironmentHash in
// the manifest pins; mediator deployment environment prints it.
func environmentHash(config []byte) (string, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("measure the environment: %w", err)
	}
	defer exe.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, exe); err != nil {
		return "", fmt.Errorf("measure the environment: %w", err)
	}
	return evidence.HashValue(map[string]string{"binary": hex.EncodeToString(sum.Sum(nil)), "config": evidence.HashBytes(config)})
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
	c.checkTransparent(&f)
	c.checkGuard(&f)
	if err := errors.Join(c.Limits.load().Check(), c.Limits.connections().Check()); err != nil {
		f.add("limits", "%v", err)
	}
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Keys.Runtime.check("keys.runtime", &f)
	c.Keys.Session.check("keys.session", &f)
	c.Keys.RequestProof.check("keys.requestProof", &f)
	s.admin = c.Admin.endpoint("admin", &f, l.file)
	s.trigger = c.Trigger.endpoint("trigger", &f, l.file)
	s.control = c.Control.endpoint("control", &f, l.file)
	s.ledgerDSN = c.Ledger.dsn(&f, l.file)
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

// run makes the parts, top to bottom as a call meets them, and serves until ctx ends.
func (s *sidecar) run(ctx context.Context) error {
	collectHalfAsOften()
	c := s.T
	keys, err := c.Custody.open(s.file, s.log)
	if err != nil {
		return err
	}
	defer keys.Close()
	var roles []role
	memory := &evidence.Memory{}
	runtime, err := newIssuer(ctx, &roles, keys, memory, evidence.RuntimeAttestationKind, c.Keys.Runtime, c.Audience)
	if err != nil {
		return err
	}
	session, err := newIssuer(ctx, &roles, keys, memory, evidence.SessionReceiptKind, c.Keys.Session, c.Audience)
	if err != nil {
		return err
	}
	prove, err := newIssuer(ctx, &roles, keys, memory, evidence.RequestProofKind, c.Keys.RequestProof, c.Audience)
	if err != nil {
		return err
	}
	observer := s.observer(roles)
	if err := s.openSecrets(ctx, keys, observer); err != nil {
		return err
	}
	if err := observer.start(ctx); err != nil {
		return err
	}
	ca, err := s.openCA()
	if err != nil {
		return err
	}
	record, err := s.openLedger(ctx)
	if err != nil {
		return err
	}
	defer record.Close()

	sessions := proxy.NewSessions(time.Now)
	watch := observe.NewWatch(c.Agent.UID, func(r *observe.Run, f observe.Finding) {
		s.log.Warn("a session is tainted: its posts are refused from now on", zap.String("event", r.Name), zap.String("kind", f.Kind), zap.Stringer("found", f))
	})
	looker, err := startLooker(os.Stderr, s.log)
	if err != nil {
		return err
	}
	defer looker.Close()
	watch.Ask(looker.Looker)
	httpc, base := s.trigger.client()
	triggers := trigger.NewClient(base, httpc)
	httpc, base = s.control.client()
	control := policy.NewClient(base, httpc)

	registry := newMetrics()
	metrics, err := proxy.NewMetrics(registry)
	if err != nil {
		return err
	}
	admin := &adminServer{sessions: sessions, record: record, triggers: triggers, runtime: c.Runtime, registry: registry, ca: ca.CertificatePEM(), proxy: c.Listen, caFile: s.caFile(), agent: c.Agent.UID, watch: watch}
	admin.peers = []peer{{"trigger", s.trigger}, {"control", s.control}}
	reach, err := s.reach(observer)
	if err != nil {
		return err
	}
	if admin.confined, err = reach.confine(c.Confine, s.file, s.log); err != nil {
		return err
	}
	adminListener, err := s.admin.listen(s.log)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	grace := c.Timeouts.Shutdown.or(20 * time.Second)
	group.Go(func() error { watch.Run(ctx); return nil })
	group.Go(func() error {
		return serveHTTP(ctx, adminListener, s.admin.guard(admin.handler(roles, observer)), grace, s.log)
	})

	group.Go(func() error {
		manifest, strict, err := waitForManifest(ctx, s.log, s.file(c.Manifest))
		if err != nil {
			return err
		}
		trust, err := openTrust(ctx, c.Trust, memory, s.file, strict, s.log)
		if err != nil {
			return err
		}
		certified, err := openCertificates(ctx, c.Trust, s.file, roles, s.log)
		if err != nil {
			return err
		}
		group.Go(func() error { certified.watch(ctx); return nil })
		group.Go(func() error { trust.watch(ctx); return nil })
		group.Go(func() error { prune(ctx, record, s.log); return nil })
		group.Go(func() error { warnOfExpiry(ctx, ca, s.log); return nil })
		keysSeen := func() []observe.Look { return []observe.Look{keysLook(trust.verifier.Trust())} }
		sessionsSeen := func(ctx context.Context) []observe.Look {
			_ = watch.Look(ctx) // fails only when ctx ends
			return observe.Looks(sessions.Runs())
		}
		deployment := &deploymentWatch{own: observer, more: keysSeen, sessions: sessionsSeen, peers: admin.peers, manifest: manifest, log: s.log}
		deployment.look(ctx)
		admin.deployment.Store(deployment)
		group.Go(func() error { deployment.watch(ctx); return nil })
		listener, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return err
		}
		redirected, err := s.listenTransparent()
		if err != nil {
			return err
		}
		own, err := proxy.OwnAddresses(addresses(listener, redirected, adminListener)...)
		if err != nil {
			return err
		}
		transport, err := proxy.NewTransport(proxy.UpstreamOptions{
			Dialer: proxy.Dialer{Upstreams: s.upstreams, Own: own}, ResponseHeaderTimeout: c.Timeouts.ResponseHeader.or(10 * time.Minute), Now: time.Now,
		})
		if err != nil {
			return err
		}
		defer transport.CloseIdleConnections()
		rules, err := s.rules(trust, strict, transport)
		if err != nil {
			return err
		}
		s.guard = s.newGuardWatch()
		pipeline, err := proxy.NewPipeline(proxy.PipelineOptions{
			Rules: rules, Sessions: sessions, Triggers: triggers, Control: control, Record: record,
			Verifier: trust.verifier, Strict: strict, Deployment: func() error { return cmp.Or(deployment.contradicted(), s.guard.stands()) }, DeploymentCertificate: trust.DeploymentCertificate,
			Attest: signer.NewAttester(runtime, session, signer.Access{
				HumanPromptPresent: c.Session.Access.HumanPrompt, HumanOperatorPresent: c.Session.Access.HumanOperator,
				UserShellAccess: c.Session.Access.UserShell, AgentEnvironmentUserAccessible: c.Session.Access.UserEnvironment,
			}),
			Prove: prove, Transport: transport, Destination: s.destination(transport), RuntimeID: c.Runtime, EnvironmentHash: s.environmentHash,
			Standing: c.Session.Standing, CAPEM: ca.CertificatePEM(), SpoolDir: s.file(c.State),
			Timeouts: proxy.Timeouts{Step: time.Duration(c.Timeouts.Step), Forward: time.Duration(c.Timeouts.Forward)},
			Load:     c.Limits.load(),
			Metrics:  metrics, Log: s.log, Now: time.Now,
		})
		if err != nil {
			return err
		}
		return s.serveProxy(ctx, group, listener, redirected, ca, pipeline, admin, grace)
	})
	return group.Wait()
}

// serveProxy serves the proxy port, and the transparent one if there is one: from here on the sidecar is ready.
func (s *sidecar) serveProxy(ctx context.Context, group *errgroup.Group, l, redirected net.Listener, ca *proxy.CA, pipeline *proxy.Pipeline, admin *adminServer, grace time.Duration) error {
	o := proxy.Options{
		CA: ca, Handler: pipeline, Connect: pipeline.Connect, Refused: pipeline.Refused,
		Refuse: pipeline.Refuse, NonProxy: pipeline.NonProxy(),
		Limits: s.T.Limits.connections(), Log: s.log, Now: time.Now,
	}
	if s.guard != nil {
		o.Probe = s.guard.probe
	}
	p, err := proxy.New(o)
	if err != nil {
		return err
	}
	group.Go(func() error {
		<-ctx.Done()
		admin.ready.Store(false)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return p.Shutdown(wait)
	})
	if redirected != nil {
		group.Go(func() error { return p.ServeTransparent(redirected) })
	}
	if s.guard != nil {
		group.Go(func() error { s.guard.watch(ctx); return nil })
	}
	admin.ready.Store(true)
	s.log.Info("ready", zap.String("proxy", l.Addr().String()))
	if err := p.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// waitForManifest waits for the manifest: in the embedded default it is written once the keys are known.
func waitForManifest(ctx context.Context, log *zap.Logger, path string) (*policy.Manifest, *policy.Strict, error) {
	type both struct {
		m *policy.Manifest
		s *policy.Strict
	}
	b, err := waitFor(ctx, log, "the manifest", func() (both, error) {
		m, s, err := readManifest(path)
		return both{m, s}, err
	})
	return b.m, b.s, err
}

// rules gives every action its gate.
func (s *sidecar) rules(trust *trustStore, strict *policy.Strict, transport http.RoundTripper) (*proxy.Rules, error) {
	local, err := s.localGate(trust, strict)
	if err != nil {
		return nil, err
	}
	for i := range s.actions {
		a := &s.actions[i]
		api, ok := s.apis[a.Name]
		if !ok {
			a.Gate = local
			continue
		}
		client, err := gate.NewClient(gate.ClientOptions{
			ChallengeURL: api.Challenge, VerifyURL: api.Verify, HTTP: &http.Client{Transport: transport, Timeout: 30 * time.Second},
		})
		if err != nil {
			return nil, fmt.Errorf("action %s: %w", a.Name, err)
		}
		a.Gate = remoteGate{client}
	}
	return proxy.NewRules(s.actions, s.egress)
}

func (s *sidecar) localGate(trust *trustStore, strict *policy.Strict) (localGate, error) {
	secret, err := gateSecret(s.file(s.T.Gate.SecretFile))
	if err != nil {
		return localGate{}, err
	}
	g, err := newGate(s.T.Gate, secret, trust.verifier, strict)
	return localGate{g}, err
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
	tick := time.NewTicker(prunePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := record.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Error("the ledger could not be pruned", zap.Error(err))
		}
	}
}
