// Package sidecar runs the sidecar: mediator serve.
//
//	sidecar.go     the process: its parts, how it begins and how it ends
//	snapshot.go    everything that judges calls under one configuration, and how a reload replaces it
//	deployment.go  compares the manifest with the processes' observations
//	guardwatch.go  checks the kernel rules of mediator guard
//	credential.go  the credentials that rules inject
//	gates.go       the mediator's own gate
//	accepts.go     the key versions with which the other processes may sign
//	receipts.go    interaction receipts
//	node.go        the parts that use the node
//	ledger.go      used ids and records
//	transparency.go  the transparency log
//	export.go    the audit export
//	botauth.go     the signatures of requests
//	ca.go          the interception CA
//	looker.go      the child that observes processes
//	proxy.go       the upstream proxy
//	plan.go        the files and addresses that the process uses
package sidecar

import (
	"cmp"
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

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/auditexport"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
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

// sidecar is the running sidecar, a [daemon.Service]. A reload replaces its snapshot; everything else stays.
type sidecar struct {
	*daemon.Process
	config *config.Sidecar // as read at the start
	name   string          // of the runtime
	life   context.Context //nolint:containedctx // of the process, for the watches of a snapshot

	runtime      *signer.Issuer[evidence.RuntimeAttestation]
	session      *signer.Issuer[evidence.SessionReceipt]
	requestProof *signer.Issuer[evidence.RequestProof]
	interaction  *signer.Issuer[interaction.Receipt]   // nil without receipts
	receipts     *receipts.Keeper                      // nil without receipts
	callers      *signer.Issuer[interaction.Caller]    // nil without a node, as are the next four
	speaker      *signer.Issuer[interaction.Statement] // also nil if the agent publishes nothing
	sender       *client.Sender
	node         *node.Relay
	reputations  *reputations.Cache
	secrets      *vault.Secrets // for credentials in Vault; nil if there are none
	gateKey      evidence.Secret
	ca           *intercept.CA
	ledger       *ledger.Watched // below the queue
	record       *ledger.Queue
	exporter     *auditexport.Exporter      // nil without one
	exports      ledger.Exports             // for the exporter
	transparency *transparency              // nil without one
	botKey       *signer.Rotation           // nil if no request is signed
	signers      map[string]*botauth.Signer // of requests, by the form that a rule names
	sessions     *session.Set
	watch        *observe.Watcher
	looker       *looker
	triggers     *trigger.Client
	control      *policy.Client
	metrics      *proxy.Metrics
	proxied      *prometheus.CounterVec // connections through the upstream proxy
	guard        *guardWatch            // nil if the configuration has no guard
	ownAddresses []netip.AddrPort

	credentials credentials // of the first configuration; those in Vault are still unread

	admin   *admin.Server
	handler *proxy.Handler
	current atomic.Pointer[snapshot] // nil until Serve; only a reload changes it
}

// Run runs the sidecar until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	go func() { _, _ = deployed.EnvironmentHash(nil) }() // hashes this program meanwhile; Plan has its error
	return daemon.Run(ctx, "serve", path, stderr, new(sidecar))
}

// Roles makes the signers of all roles and reads the gate's secret.
func (p *sidecar) Roles(process *daemon.Process, c *config.Sidecar) (err error) {
	p.Process, p.config = process, c
	p.warnFileLimit()
	keys := c.Keys
	if err := p.nameRuntime(); err != nil { // and so keys
		return err
	}
	p.gateKey, err = gateSecret(c.Gate.Secret)
	return cmp.Or(err,
		daemon.AddIssuer(process, &p.runtime, evidence.RuntimeAttestationKind(), keys.Runtime, c.Audience),
		daemon.AddIssuer(process, &p.session, evidence.SessionReceiptKind(), keys.Session, c.Audience),
		daemon.AddIssuer(process, &p.requestProof, evidence.RequestProofKind(), keys.RequestProof, c.Audience),
		p.addObserver(), p.addTransparency(), p.addBotAuth())
}

// nameRuntime takes the name of the runtime from the configuration, or else from the TLS certificate. In the latter
// case other replicas have the same configuration, so the names of keys that only this process holds get its own part.
func (p *sidecar) nameRuntime() error {
	c := p.config
	if p.name = c.Runtime; p.Identity == nil {
		return nil
	}
	of := p.Identity.ID().Path()
	overTCP := c.Trigger.TCP + c.Control.TCP
	if p.name != "" {
		if p.name != of && overTCP != "" {
			return refusal.New("runtime_foreign",
				"the setting runtime in %s is %q, but the TLS certificate is for %q, and over TCP the other "+
					"processes accept only the certificate's name", c.Path, p.name, of)
		}
		return nil
	}
	if p.name = of; c.Receipts != nil && len(of) > interaction.MaxRuntimeID {
		return refusal.New("config_malformed",
			"the runtime's name, from the TLS certificate set in %s, has %d bytes; at most %d fit into a receipt",
			c.Path, len(of),
			interaction.MaxRuntimeID)
	}
	if c.Custody.Type == "memory" {
		p.OwnKeys()
	}
	return nil
}

// Open opens the CA and the ledger, and starts the looker.
func (p *sidecar) Open(ctx context.Context) (err error) {
	c := p.config
	if p.metrics, err = proxy.NewMetrics(p.Metrics); err != nil {
		return err
	}
	if p.credentials, err = p.makeCredentials(c); err != nil {
		return err
	}
	if p.ca, err = openCA(c); err != nil {
		return fmt.Errorf("ca in %s: %w", c.Path, err)
	}
	p.registerMetrics()
	if err := p.openLedger(ctx); err != nil {
		return fmt.Errorf("the ledger of %s: %w", c.Path, err)
	}
	p.record = ledger.NewQueue(p.ledger, func(r ledger.Record, err error) {
		p.Log.Error("the record of a call could not be kept",
			zap.String("post", r.ID), zap.String("state", string(r.State)), zap.Error(err))
	})
	p.connect()
	if p.looker, err = startLooker(os.Stderr, p.Log); err != nil {
		return err
	}
	p.watch.UseLooker(p.looker.LookerClient)
	return nil
}

// Close ends waits for results, closes the chains of receipts, and stores waiting records in the ledger.
func (p *sidecar) Close() {
	if p.sessions != nil {
		for _, s := range p.sessions.All() {
			s.Memory.Close()
		}
	}
	if p.looker != nil {
		p.looker.Close()
	}
	if p.reputations != nil {
		p.reputations.Close()
	}
	p.closeReceipts()
	if p.transparency != nil && p.sessions != nil {
		p.transparency.close(p.sessions.All())
	}
	if p.record != nil {
		p.record.Close()
	}
}

// ReadSecrets waits for the credentials in Vault.
func (p *sidecar) ReadSecrets(ctx context.Context) error { return p.credentials.read(ctx, p.Log, true) }

func (p *sidecar) Begin(ctx context.Context, group *errgroup.Group) (http.Handler, error) {
	p.life = ctx
	if err := p.beginTransparency(ctx, group); err != nil {
		return nil, err
	}
	group.Go(func() error { p.watch.Run(ctx); return nil })
	return p.admin.Handler(), nil
}

// connect makes the clients of the other processes, and the API for operators.
func (p *sidecar) connect() {
	c := p.config
	p.sessions = session.NewSet(time.Now)
	p.sessions.Enforcement = p.enforcement
	p.watch = observe.NewWatcher(c.Agent.UID, time.Now, func(r *observe.Run, f look.Finding) {
		p.Log.Warn("a session is tainted: its posts are refused from now on",
			zap.String("event", r.Name), zap.String("kind", f.Kind), zap.Stringer("found", f))
		if f.Kind == look.Launcher {
			go p.admin.Abandoned(p.life, r)
		}
	})
	peer := func(name string, at config.Peer, sees ...string) admin.Peer {
		client, base := p.Client(at)
		return admin.Peer{Name: name, HTTP: client, Base: base, Sees: sees}
	}
	peers := []admin.Peer{
		peer("trigger", c.Trigger, evidence.PurposeTriggerOriginProof, evidence.PurposeTriggerReceipt, look.Human),
		peer("control", c.Control, evidence.PurposePolicyDecision, evidence.PurposeActionGrant),
	}
	if n := c.Reputation; n != nil {
		peers = append(peers, peer("reputation", n.Peer, evidence.PurposeAppraiser))
	}
	p.triggers = trigger.NewClient(peers[0].Base, peers[0].HTTP)
	p.control = policy.NewClient(peers[1].Base, peers[1].HTTP)
	p.guard = newGuardWatch(c, p.Log)
	p.admin = &admin.Server{
		Process: p.Process, Sessions: p.sessions, Ledger: p.record, Identified: p.ledger, Ended: &p.record.Ended,
		Triggers: p.triggers,
		Watch:    p.watch, Runtime: p.name, Proxy: c.Listen, CAFile: c.CAFile(), CA: p.ca.CertificatePEM(),
		Agent: c.Agent.UID, Posts: p.posts, Learning: c.Session.Learning, Enforcement: p.enforced,
		Console: c.ConsoleAddress(),
		Peers:   peers,
	}
}

// Serve builds the first snapshot and serves the proxy port.
func (p *sidecar) Serve(ctx context.Context, group *errgroup.Group, first *daemon.Configured[config.Sidecar]) error {
	c := p.config
	if err := p.openReceipts(ctx); err != nil {
		return err
	}
	p.openNode()
	group.Go(func() error { prune(ctx, p.record, time.Now, p.Log); return nil })
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
	agents, err := p.listenAgents()
	if err != nil {
		return err
	}
	console := netip.MustParseAddrPort(c.ConsoleAddress()) // checked by the configuration
	addresses := []net.Addr{net.TCPAddrFromAddrPort(console)}
	for _, l := range []net.Listener{listener, agents, redirected} {
		if l != nil {
			addresses = append(addresses, l.Addr())
		}
	}
	if p.Address != nil {
		addresses = append(addresses, p.Address)
	}
	if p.ownAddresses, err = upstream.OwnAddresses(addresses...); err != nil {
		return err
	}
	p.ownAddresses = append(p.ownAddresses, netip.AddrPortFrom(netip.IPv4Unspecified(), console.Port()))
	if t := p.transparency; t != nil {
		if err := t.publish(ctx, group, p.Log); err != nil {
			return err
		}
	}
	s := &snapshot{Configured: first, process: p, credentials: p.credentials}
	if err := p.build(ctx, s); err != nil {
		return err
	}
	p.handler = proxy.NewHandler(s.pipeline)
	p.activate(s)
	if p.exporter != nil {
		group.Go(func() error { p.exporter.Run(ctx, p.exports); return nil })
	}
	p.Log.Info("listening", zap.String("proxy", listener.Addr().String()))
	return p.serveProxy(ctx, group, listener, agents, redirected)
}

func listenTransparent(c *config.Sidecar) (net.Listener, error) {
	if c.Transparent == nil {
		return nil, nil
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // MPTCP sockets hide the original destination; clients fall back to TCP
	return lc.Listen(context.Background(), "tcp4", c.Transparent.Listen)
}

// warnFileLimit warns if this process may open fewer files than its limits let agents use. Go raises the soft limit.
func (p *sidecar) warnFileLimit() {
	var open unix.Rlimit
	need := p.config.Limits.Listeners().Files() + p.config.Limits.Load().Files()
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err == nil && open.Max < need {
		p.Log.Warn(
			"the hard limit of open files is below what limits.connections and limits.calls need: raise it, or lower "+
				"them", zap.Uint64("may", open.Max), zap.Uint64("need", need))
	}
}

func (p *sidecar) serveProxy(ctx context.Context, group *errgroup.Group, l, agents, redirected net.Listener) error {
	o := intercept.Options{
		CA: p.ca, Handler: p.handler, Connect: p.handler.Connect, Refuse: p.handler.Refuse, Refused: p.handler.Refused,
		Party: p.handler.Party, Limits: p.config.Limits.Listeners(), Log: flood.Logger(p.Log), Now: time.Now,
	}
	if p.guard != nil {
		o.Probe = p.guard.takeProbe
	}
	if agents != nil {
		o.Agent = p.agentOf
	}
	server, err := intercept.New(o)
	if err != nil {
		return err
	}
	group.Go(func() error {
		<-ctx.Done()
		p.Ready.Store(false)
		grace := p.config.Timeouts.Shutdown.Or(20 * time.Second)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
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
	for _, l := range []net.Listener{l, agents} {
		if l == nil {
			continue
		}
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return nil
}
