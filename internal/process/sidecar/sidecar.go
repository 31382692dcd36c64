// Package sidecar runs the sidecar: mediator serve.
//
//	sidecar.go     the process: its parts, how it begins and how it ends
//	snapshot.go    everything that calls are judged by under one configuration, and how a reload replaces it
//	deployment.go  compares the manifest with what the processes observe
//	guardwatch.go  checks that the kernel's rules of mediator guard are in force
//	credential.go  the credentials that rules inject
//	gates.go       the mediator's own gate
//	accepts.go     which key versions the other processes may sign with
//	receipts.go    what makes interaction receipts
//	node.go        what hands them over to the node, relays agents' requests, and asks for reputations
//	ledger.go      where consumed keys and records are kept
//	ca.go          the interception CA
//	looker.go      the child that reads where the standard input of processes leads
//	needs.go       what the process uses, and what it observes of its deployment
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/reputations"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// process is the running sidecar. A reload replaces its snapshot; everything else stays.
type process struct {
	*daemon.Process
	config *config.Sidecar // as read at the start
	life   context.Context //nolint:containedctx // ends with the process, and everything that watches for a snapshot with it

	runtime      *signer.Issuer[evidence.RuntimeAttestation]
	session      *signer.Issuer[evidence.SessionReceipt]
	requestProof *signer.Issuer[evidence.RequestProof]
	interaction  *signer.Issuer[interaction.Receipt]   // nil where no receipts are made
	receipts     *receipts.Keeper                      // likewise
	callers      *signer.Issuer[interaction.Caller]    // nil where there is no node
	speaker      *signer.Issuer[interaction.Statement] // nil where the agent publishes nothing
	sender       *client.Sender                        // likewise
	node         *node.Relay                           // likewise
	reputations  *reputations.Cache                    // likewise
	secrets      *vault.Secrets                        // for credentials in Vault; nil if there are none
	gateKey      evidence.Secret
	ca           *intercept.CA
	ledger       *ledger.Watched // below the queue
	record       *ledger.Queue
	sessions     *session.Set
	watch        *observe.Watcher
	triggers     *trigger.Client
	control      *policy.Client
	metrics      *proxy.Metrics
	guard        *guardWatch // nil if the configuration has no guard
	ownAddresses []netip.AddrPort

	admin    *admin.Server
	handler  *proxy.Handler
	inForce  *snapshot                  // nil until start; only a reload changes it
	observed atomic.Pointer[deployment] // of inForce, for the metrics
	accepted atomic.Pointer[accepted]   // of inForce, for reputations
}

// Run runs the sidecar until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	c, err := config.LoadSidecar(path)
	if err != nil {
		return err
	}
	places := []daemon.Place{daemon.PlaceOf("admin", c.Admin), {Key: "listen", Address: c.Listen}}
	if c.Transparent != nil {
		places = append(places, daemon.Place{Key: "transparent.listen", Address: c.Transparent.Listen})
	}
	s := daemon.Start{File: path, Name: "serve", Log: c.Log, Custody: c.Custody, Places: places}
	return daemon.Run(ctx, s, stderr, func(ctx context.Context, p *daemon.Process) error {
		return (&process{Process: p, config: c}).run(ctx)
	})
}

// run makes the parts of the process and serves until ctx ends.
func (p *process) run(ctx context.Context) (err error) {
	c := p.config
	environment, err := config.EnvironmentHash(c.Raw)
	if err != nil {
		return err
	}
	p.warnFileLimit()
	if p.metrics, err = proxy.NewMetrics(p.Metrics); err != nil {
		return err
	}
	if err := p.addRoles(); err != nil {
		return err
	}
	first := &snapshot{config: c, environment: environment}
	var inVault []*vault.Secret
	if first.credentials, inVault, err = p.makeCredentials(c); err != nil {
		return err
	}
	first.observer = p.observe(c)
	p.Observer.Store(first.observer)
	check := func(_ *policy.Manifest, strict *policy.Strict) error { return p.checkManifest(c, environment, strict) }
	if err := p.CheckFiles(c.Trust, c.Manifest, check); err != nil {
		return err
	}
	if p.ca, err = openCA(c); err != nil {
		return fmt.Errorf("ca in %s: %w", c.Path, err)
	}
	if err := p.registerMetrics(); err != nil {
		return err
	}
	record, err := openLedger(ctx, c, p.Log)
	if err != nil {
		return fmt.Errorf("the ledger of %s: %w", c.Path, err)
	}
	p.ledger = record
	p.record = ledger.NewQueue(record, func(r ledger.Record, err error) {
		p.Log.Error("the record of a call could not be kept", zap.String("post", r.ID), zap.String("state", string(r.State)), zap.Error(err))
	})
	defer p.record.Close()
	defer p.closeReceipts()
	defer p.closeNode()
	p.connect()
	looker, err := startLooker(os.Stderr, p.Log)
	if err != nil {
		return err
	}
	defer looker.Close()
	p.watch.UseLooker(looker.LookerClient)
	needs, err := Resources(c, first.observer)
	if err != nil {
		return err
	}
	if err := p.Confine(needs, c.Confine); err != nil {
		return err
	}
	if err := p.readSecrets(ctx, inVault, true); err != nil {
		return err
	}
	if err := p.OpenKeys(ctx); err != nil {
		return err
	}
	listener, err := daemon.Listen(c.Admin, p.Log)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	p.life = ctx
	group.Go(func() error { p.watch.Run(ctx); return nil })
	group.Go(func() error { p.Reloader.Watch(ctx); return nil })
	group.Go(func() error {
		return daemon.Serve(ctx, daemon.TakeDescriptors(listener), daemon.RequireToken(c.Admin, p.admin.Handler()), daemon.Limits{}, p.grace(), p.Log)
	})
	group.Go(func() error { return p.start(ctx, group, first, listener) })
	return group.Wait()
}

func (p *process) grace() time.Duration { return p.config.Timeouts.Shutdown.Or(20 * time.Second) }

// addRoles makes the signers of all roles and reads the gate's secret.
func (p *process) addRoles() (err error) {
	c := p.config
	if p.runtime, err = daemon.NewIssuer(p.Process, evidence.RuntimeAttestationKind, c.Keys.Runtime, c.Audience); err != nil {
		return err
	}
	if p.session, err = daemon.NewIssuer(p.Process, evidence.SessionReceiptKind, c.Keys.Session, c.Audience); err != nil {
		return err
	}
	if p.requestProof, err = daemon.NewIssuer(p.Process, evidence.RequestProofKind, c.Keys.RequestProof, c.Audience); err != nil {
		return err
	}
	if err := p.addObserver(); err != nil {
		return err
	}
	p.gateKey, err = GateSecret(c.GateSecret)
	return err
}

// connect makes the clients of the other processes, and the API for operators.
func (p *process) connect() {
	c := p.config
	p.sessions = session.NewSet(time.Now)
	p.watch = observe.NewWatcher(c.Agent.UID, time.Now, func(r *observe.Run, f look.Finding) {
		p.Log.Warn("a session is tainted: its posts are refused from now on", zap.String("event", r.Name), zap.String("kind", f.Kind), zap.Stringer("found", f))
		if f.Kind == look.Launcher {
			go p.admin.Abandoned(p.life, r)
		}
	})
	client, base := daemon.Client(c.Trigger)
	p.triggers = trigger.NewClient(base, client)
	client, base = daemon.Client(c.Control)
	p.control = policy.NewClient(base, client)
	p.guard = newGuardWatch(c, p.Log)
	p.admin = &admin.Server{
		Process: p.Process, Sessions: p.sessions, Ledger: p.record, Identified: p.ledger, Triggers: p.triggers, Watch: p.watch,
		Runtime: c.Runtime, Proxy: c.Listen, CAFile: c.CAFile(), Agent: c.Agent.UID, Posts: p.posts,
		Peers: []admin.Peer{{Name: "trigger", At: c.Trigger}, {Name: "control", At: c.Control}},
	}
	if n := c.Reputation; n != nil {
		p.admin.Peers = append(p.admin.Peers, admin.Peer{Name: "reputation", At: n.Endpoint, Purpose: evidence.PurposeAppraiser})
	}
}

// start waits for the manifest and the trust bundle. Then it puts the first snapshot in force and serves the proxy
// port.
func (p *process) start(ctx context.Context, group *errgroup.Group, first *snapshot, adminListener net.Listener) (err error) {
	c := p.config
	if first.manifest, first.strict, err = p.WaitForManifest(ctx, c.Manifest); err != nil {
		return err
	}
	if err := p.checkManifest(c, first.environment, first.strict); err != nil {
		return fmt.Errorf("%s: %w", c.Manifest, err)
	}
	if err := p.WaitForRoots(ctx, c.Trust); err != nil {
		return err
	}
	certified, err := p.WaitForCertificates(ctx, c.Trust)
	if err != nil {
		return err
	}
	if first.trust, err = p.WaitForTrust(ctx, c.Trust, first.strict); err != nil {
		return err
	}
	if err := p.openReceipts(ctx); err != nil {
		return err
	}
	if err := p.openNode(); err != nil {
		return err
	}
	group.Go(func() error { prune(ctx, p.record, p.Log); return nil })
	if p.sender != nil {
		group.Go(func() error { p.sender.Run(ctx); return nil })
		p.admin.SetSender(p.sender)
	}
	group.Go(func() error { warnOfExpiry(ctx, p.ca, p.Log); return nil })
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	redirected, err := listenTransparent(c)
	if err != nil {
		return err
	}
	if p.ownAddresses, err = upstream.OwnAddresses(addresses(listener, redirected, adminListener)...); err != nil {
		return err
	}
	if err := p.build(ctx, first); err != nil {
		return err
	}
	p.handler = proxy.NewHandler(first.pipeline)
	p.activate(first)
	group.Go(func() error { certified.Watch(ctx); return nil }) // now that there is a trust that verifies what it signs
	p.Reloader.Start(first.status(), p.reload)
	return p.serveProxy(ctx, group, listener, redirected)
}

// listenTransparent opens the transparent listener. It returns nil if the configuration has none.
func listenTransparent(c *config.Sidecar) (net.Listener, error) {
	if c.Transparent == nil {
		return nil, nil
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // MPTCP sockets do not tell the original destination; clients fall back to TCP
	return lc.Listen(context.Background(), "tcp4", c.Transparent.Listen)
}

// addresses returns the addresses of listeners on TCP. It skips nil.
func addresses(listeners ...net.Listener) []net.Addr {
	var out []net.Addr
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			out = append(out, addr)
		}
	}
	return out
}

// warnFileLimit logs a warning if this process may open fewer files than its limits let agents use. Go raises the soft
// limit by itself, so only the hard limit counts.
func (p *process) warnFileLimit() {
	var open unix.Rlimit
	need := p.config.Limits.Listeners().Files() + p.config.Limits.Load().Files()
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err == nil && open.Max < need {
		p.Log.Warn("fewer files may be open than limits.connections and limits.calls can take: raise the hard limit, or lower them", zap.Uint64("may", open.Max), zap.Uint64("need", need))
	}
}

// serveProxy serves the proxy port and, if there is one, the transparent port. From then on the sidecar is ready.
func (p *process) serveProxy(ctx context.Context, group *errgroup.Group, l, redirected net.Listener) error {
	o := intercept.Options{
		CA: p.ca, Handler: p.handler, Connect: p.handler.Connect, Refuse: p.handler.Refuse, Refused: p.handler.Refused, Party: p.handler.Party,
		Limits: p.config.Limits.Listeners(), Log: flood.Logger(p.Log), Now: time.Now,
	}
	if p.guard != nil {
		o.Probe = p.guard.takeProbe
	}
	server, err := intercept.New(o)
	if err != nil {
		return err
	}
	group.Go(func() error {
		<-ctx.Done()
		p.admin.Ready.Store(false)
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
	p.admin.SetProxy(server)
	p.admin.Ready.Store(true)
	p.Log.Info("ready", zap.String("proxy", l.Addr().String()))
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
