package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// sidecarProcess is the sidecar as it runs. What can change meanwhile is its snapshot.
type sidecarProcess struct {
	*sidecar // as it was read at the start: what is bound to the process stays so
	*process
	logLater *zap.Logger     // its lines may wait
	life     context.Context //nolint:containedctx // ends with the process, and everything that watches for a snapshot with it

	runtime  *signer.Issuer[evidence.RuntimeAttestation]
	session  *signer.Issuer[evidence.SessionReceipt]
	prove    *signer.Issuer[evidence.RequestProof]
	secrets  *vault.Secrets // of the rules' credentials; nil while none is in Vault
	gateKey  evidence.Secret
	ca       *intercept.CA
	record   *ledger.Deferred
	sessions *proxy.Sessions
	watch    *observe.Watch
	triggers *trigger.Client
	decides  *policy.Client
	metrics  *proxy.Metrics
	guard    *guardWatch // nil where no rules are asked for
	own      []netip.AddrPort

	trusts  trustWatch
	admin   *adminServer
	handler *proxy.Handler
	inForce *snapshot // nil before the first; changed by the reloader alone
}

// serve runs the sidecar until ctx ends.
func serve(ctx context.Context, path string, stderr io.Writer) error {
	s, err := loadSidecar(path)
	if err != nil {
		return err
	}
	if err := s.measure(); err != nil {
		return err
	}
	log, logLater, err := newLoggers(s.T.Log, "serve", stderr)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	common, err := openProcess(log, s.T.Custody, s.file)
	if err != nil {
		return err
	}
	defer common.keys.Close()
	common.memory = new(evidence.Memory)
	p := &sidecarProcess{sidecar: s, process: common, logLater: logLater}
	return p.run(ctx)
}

// run makes the parts and serves until ctx ends.
func (p *sidecarProcess) run(ctx context.Context) (err error) {
	collectLessOften()
	p.countFiles()
	if p.metrics, err = proxy.NewMetrics(p.registry); err != nil {
		return err
	}
	if err := p.trusts.register(p.registry); err != nil {
		return err
	}
	if err := p.openKeys(ctx); err != nil {
		return err
	}
	observer := p.sidecar.observer(p.roles)
	if err := p.openSecrets(ctx, p.sidecar, observer, true); err != nil {
		return err
	}
	if err := observer.start(ctx); err != nil {
		return err
	}
	p.looking.Store(observer)
	if p.ca, err = p.openCA(); err != nil {
		return err
	}
	record, err := p.openLedger(ctx)
	if err != nil {
		return err
	}
	p.record = ledger.Defer(record, func(post ledger.Record, err error) {
		p.log.Error("the record of a call could not be kept", zap.String("post", post.ID), zap.String("state", string(post.State)), zap.Error(err))
	})
	defer p.record.Close()
	p.connect()
	looker, err := startLooker(os.Stderr, p.log)
	if err != nil {
		return err
	}
	defer looker.Close()
	p.watch.Ask(looker.Looker)
	reach, err := p.reach(observer)
	if err != nil {
		return err
	}
	if err := p.confine(reach, p.T.Confine, p.file); err != nil {
		return err
	}
	listener, err := p.sidecar.admin.listen(p.log)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	p.life = ctx
	group.Go(func() error { p.watch.Run(ctx); return nil })
	group.Go(func() error { p.reload.watch(ctx); return nil })
	group.Go(func() error {
		return serveHTTP(ctx, listener, p.sidecar.admin.guard(p.admin.handler()), bounds{}, p.grace(), p.log)
	})
	group.Go(func() error { return p.begin(ctx, group, listener) })
	return group.Wait()
}

func (p *sidecarProcess) grace() time.Duration { return p.T.Timeouts.Shutdown.or(20 * time.Second) }

func (p *sidecarProcess) openKeys(ctx context.Context) (err error) {
	c := p.T
	if p.runtime, err = newIssuer(ctx, p.process, evidence.RuntimeAttestationKind, c.Keys.Runtime, c.Audience); err != nil {
		return err
	}
	if p.session, err = newIssuer(ctx, p.process, evidence.SessionReceiptKind, c.Keys.Session, c.Audience); err != nil {
		return err
	}
	if p.prove, err = newIssuer(ctx, p.process, evidence.RequestProofKind, c.Keys.RequestProof, c.Audience); err != nil {
		return err
	}
	p.gateKey, err = gateSecret(p.gateSecret)
	return err
}

// connect makes what the sidecar asks others with, and what answers operators.
func (p *sidecarProcess) connect() {
	c := p.T
	p.sessions = proxy.NewSessions(time.Now)
	p.watch = observe.NewWatch(c.Agent.UID, time.Now, func(r *observe.Run, f observe.Finding) {
		p.log.Warn("a session is tainted: its posts are refused from now on", zap.String("event", r.Name), zap.String("kind", f.Kind), zap.Stringer("found", f))
	})
	httpc, base := p.trigger.client()
	p.triggers = trigger.NewClient(base, httpc)
	httpc, base = p.control.client()
	p.decides = policy.NewClient(base, httpc)
	p.guard = p.newGuardWatch()
	p.admin = &adminServer{
		process: p.process, sessions: p.sessions, record: p.record, triggers: p.triggers, runtime: c.Runtime, ca: p.ca.CertificatePEM(),
		proxy: c.Listen, caFile: p.caFile(), agent: c.Agent.UID, watch: p.watch,
		peers: []peer{{"trigger", p.trigger}, {"control", p.control}},
	}
}

// begin waits for the manifest and the trust, puts the first snapshot in force and serves the proxy port.
func (p *sidecarProcess) begin(ctx context.Context, group *errgroup.Group, adminListener net.Listener) error {
	c := p.T
	manifest, strict, err := waitForManifest(ctx, p.log, p.file(c.Manifest))
	if err != nil {
		return err
	}
	r := &reading{sidecar: p.sidecar, manifest: manifest, strict: strict, observer: p.looking.Load()}
	if err := r.allowed(p.roles); err != nil {
		return fmt.Errorf("%s: %w", p.file(c.Manifest), err)
	}
	pinned := c.Trust.in(p.file)
	if err := p.openRoots(ctx, pinned); err != nil {
		return err
	}
	if r.trust, err = p.openTrust(ctx, pinned, strict); err != nil {
		return err
	}
	certified, err := p.openCertificates(ctx, pinned)
	if err != nil {
		return err
	}
	group.Go(func() error { certified.watch(ctx); return nil })
	group.Go(func() error { p.trusts.watch(ctx); return nil })
	group.Go(func() error { prune(ctx, p.record, p.log); return nil })
	group.Go(func() error { warnOfExpiry(ctx, p.ca, p.log); return nil })
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	redirected, err := p.listenTransparent()
	if err != nil {
		return err
	}
	if p.own, err = upstream.OwnAddresses(addresses(listener, redirected, adminListener)...); err != nil {
		return err
	}
	first, err := p.build(ctx, r)
	if err != nil {
		return err
	}
	p.handler = proxy.NewHandler(first.pipeline)
	p.put(first)
	p.reload.begin(first.configured(), p.take)
	return p.serveProxy(ctx, group, listener, redirected)
}

// countFiles says so in the log where fewer files may be open than the limits let agents have of them. Go raises the soft limit by itself.
func (p *sidecarProcess) countFiles() {
	var open unix.Rlimit
	need := p.T.Limits.connections().Files() + p.T.Limits.load().Files()
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err == nil && open.Max < need {
		p.log.Warn("fewer files may be open than limits.connections and limits.calls can take: raise the hard limit, or lower them", zap.Uint64("may", open.Max), zap.Uint64("need", need))
	}
}

// serveProxy serves the proxy port, and the transparent one if there is one: from here on the sidecar is ready.
func (p *sidecarProcess) serveProxy(ctx context.Context, group *errgroup.Group, l, redirected net.Listener) error {
	o := intercept.Options{
		CA: p.ca, Handler: p.handler, Connect: p.handler.Connect, Refuse: p.handler.Refuse, Refused: p.handler.Refused,
		Limits: p.T.Limits.connections(), Log: p.log, Now: time.Now,
	}
	if p.guard != nil {
		o.Probe = p.guard.probe
	}
	server, err := intercept.New(o)
	if err != nil {
		return err
	}
	group.Go(func() error {
		<-ctx.Done()
		p.admin.ready.Store(false)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.grace())
		defer cancel()
		return server.Shutdown(wait)
	})
	if redirected != nil {
		group.Go(func() error { return server.ServeTransparent(redirected) })
	}
	if p.guard != nil {
		group.Go(func() error { p.guard.watch(ctx); return nil })
	}
	p.admin.ready.Store(true)
	p.log.Info("ready", zap.String("proxy", l.Addr().String()))
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
