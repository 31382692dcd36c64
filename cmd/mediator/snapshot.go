package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
)

// reading is a sidecar's configuration with all that it names, each read once.
type reading struct {
	*sidecar
	manifest *policy.Manifest
	strict   *policy.Strict
	trust    *trustStore
	observer *observer
}

// snapshot is everything that calls are judged by under one configuration. It never changes, but for what its trust follows: certificates
// and revocations. A call has one from its beginning to its end.
type snapshot struct {
	*reading
	deployment *deploymentWatch
	transport  *upstream.Transport
	pipeline   *proxy.Pipeline
	stop       context.CancelFunc // ends the looks at its deployment
}

func (s *reading) configured() configured {
	return configured{Configuration: evidence.HashBytes(s.raw), Environment: s.environmentHash, Manifest: s.strict.ManifestHash}
}

// take makes the sidecar's next snapshot of what the files say now and puts it in force, or fails and has changed nothing.
func (p *sidecarProcess) take(ctx context.Context) (configured, error) {
	r, err := p.read(ctx)
	if err != nil {
		return configured{}, err
	}
	next, err := p.build(ctx, r)
	if err != nil {
		return configured{}, err
	}
	p.put(next)
	return r.configured(), nil
}

// read reads the configuration and all that it names, once, and refuses it unless all of it could be in force in this process now.
func (p *sidecarProcess) read(ctx context.Context) (*reading, error) {
	s, err := loadSidecar(p.path)
	if err != nil {
		return nil, err
	}
	if err := p.fits(s); err != nil {
		return nil, err
	}
	if err := s.measure(); err != nil {
		return nil, err
	}
	r := &reading{sidecar: s, observer: s.observer(p.roles)}
	reach, err := s.reach(r.observer)
	if err != nil {
		return nil, err
	}
	if err := p.checkWithin(reach, s.T.Confine, s.file); err != nil {
		return nil, err
	}
	if r.manifest, r.strict, err = readManifest(s.file(s.T.Manifest)); err != nil {
		return nil, err
	}
	if err := r.allowed(p.roles); err != nil {
		return nil, err
	}
	if r.trust, err = p.readTrust(s.T.Trust.in(s.file), r.strict); err != nil {
		return nil, err
	}
	if err := r.trust.verifier.Trust().Succeeds(p.inForce.trust.verifier.Trust()); err != nil {
		return nil, err
	}
	if err := p.decided(ctx, r.strict); err != nil {
		return nil, err
	}
	if err := p.openSecrets(ctx, s, r.observer, false); err != nil {
		return nil, err
	}
	return r, r.observer.start(ctx)
}

// fits refuses a configuration that differs in what is bound to this process, also where only the content of a file does.
func (p *sidecarProcess) fits(s *sidecar) error {
	err := p.checkBound(p.T, s.T, s.T.Trust.in(s.file), map[string]bool{
		"admin.tokenFile": p.sidecar.admin.token == s.admin.token, "trigger.tokenFile": p.trigger.token == s.trigger.token,
		"control.tokenFile": p.control.token == s.control.token, "ledger.postgres.dsnFile": p.ledgerDSN == s.ledgerDSN,
		"gate.secretFile": p.gateSecret == s.gateSecret,
	})
	if err != nil {
		return err
	}
	for _, host := range s.hosts() {
		if !p.ca.Covers(host) {
			return refusal.New("restart_required", "the configuration before stays in force: a rule names %s, for which the interception CA that agents trust is not good; a restart makes one that is, or mediator ca init where ca.dir is set", host)
		}
	}
	return nil
}

// allowed refuses a manifest by which no post of this process could be right: it pins something else than what runs, or allows nothing that
// the process's roles sign.
func (r *reading) allowed(roles []role) error {
	return cmp.Or(r.pinned(), admitted(r.strict, roles, r.T.Audience))
}

// pinned refuses a manifest that pins something else than what would run.
func (r *reading) pinned() error {
	for _, want := range []string{r.strict.Runtime.EnvironmentHash, r.strict.Session.EnvironmentHash} {
		if want != r.environmentHash {
			return refusal.New("environment_mismatch", "the manifest requires the environment %s, but this program with this configuration is %s: pin that, and certify the manifest", want, r.environmentHash)
		}
	}
	return r.strict.CheckRuntime(r.T.Runtime)
}

// admitted refuses a manifest by which nothing would count that this process's roles sign.
func admitted(strict *policy.Strict, roles []role, audience string) error {
	for _, r := range roles {
		want := strict.Expected(r.purpose)
		if !slices.Contains(want.Issuers, r.issuer) || !slices.Contains(want.Audiences, audience) {
			return refusal.New("issuer_mismatch", "the manifest does not allow the issuer %s with the audience %s, as which this process signs (%s)", r.issuer, audience, r.purpose)
		}
		if !slices.ContainsFunc(want.KeyIDs, func(kid string) bool { return evidence.KeyName(kid) == r.key.Name() }) {
			return refusal.New("key_not_allowed", "the manifest does not allow the key %s, with which this process signs (%s)", r.key.Name(), r.purpose)
		}
	}
	return nil
}

// decided refuses a manifest by which the control plane does not decide: every post would be refused there.
func (p *sidecarProcess) decided(ctx context.Context, strict *policy.Strict) error {
	now, err := p.decides.Manifests(ctx)
	if err != nil {
		return err
	}
	if len(now) == 0 || now[0] != strict.ManifestHash {
		return refusal.New("manifest_mismatch", "the control plane decides by another manifest than %s: reload it first", strict.ManifestHash)
	}
	return nil
}

// build makes a snapshot. Nothing of it is in force yet.
func (p *sidecarProcess) build(ctx context.Context, r *reading) (*snapshot, error) {
	c := r.T
	n := &snapshot{reading: r}
	var err error
	n.transport, err = upstream.NewTransport(upstream.Options{
		Dialer: upstream.Dialer{Hosts: r.upstreams, Own: p.own}, ResponseHeaderTimeout: c.Timeouts.ResponseHeader.or(10 * time.Minute), Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	rules, err := p.rules(n)
	if err != nil {
		return nil, err
	}
	o := proxy.PipelineOptions{
		Rules: rules, Sessions: p.sessions, Triggers: p.triggers, Control: p.decides, Record: p.record,
		Verifier: r.trust.verifier, Strict: r.strict, DeploymentCertificate: r.trust.DeploymentCertificate,
		Deployment: func() error { return cmp.Or(n.deployment.contradicted(), p.guard.stands()) },
		Attest: signer.NewAttester(p.runtime, p.session, signer.Access{
			HumanPromptPresent: c.Session.Access.HumanPrompt, HumanOperatorPresent: c.Session.Access.HumanOperator,
			UserShellAccess: c.Session.Access.UserShell, AgentEnvironmentUserAccessible: c.Session.Access.UserEnvironment,
		}),
		Prove: p.prove, Transport: n.transport, Destination: r.destination(n.transport), RuntimeID: c.Runtime, EnvironmentHash: r.environmentHash,
		Standing: c.Session.Standing, CAPEM: p.ca.CertificatePEM(), SpoolDir: r.file(c.State),
		Timeouts: proxy.Timeouts{Step: time.Duration(c.Timeouts.Step), Forward: time.Duration(c.Timeouts.Forward)},
		Load:     c.Limits.load(),
		Metrics:  p.metrics, Log: p.log, LogLater: p.logLater, Now: time.Now,
	}
	if p.handler != nil {
		o.After = p.handler.Pipeline()
	}
	if n.pipeline, err = proxy.NewPipeline(o); err != nil {
		return nil, err
	}
	n.deployment = p.look(ctx, r)
	return n, nil
}

// look looks at the deployment for the first time under a reading. What was seen to be wrong before stays so.
func (p *sidecarProcess) look(ctx context.Context, r *reading) *deploymentWatch {
	d := &deploymentWatch{
		own: r.observer, manifest: r.manifest, log: p.log, peers: p.admin.peers,
		more: func() []observe.Look { return []observe.Look{keysLook(r.trust.verifier.Trust())} },
		sessions: func(ctx context.Context) []observe.Look {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout) // what else was looked at does not wait for a look that hangs
			defer cancel()
			_ = p.watch.Look(ctx)
			return observe.Looks(p.sessions.Runs())
		},
	}
	if p.inForce != nil {
		d.all = p.inForce.deployment.last()
	}
	d.look(ctx)
	return d
}

// put puts a snapshot in force: one pointer is stored. Calls in flight keep the one that they have, whose trust follows the bundle until
// the last of them must have its evidence.
func (p *sidecarProcess) put(next *snapshot) {
	var watched context.Context
	watched, next.stop = context.WithCancel(p.life)
	go next.deployment.watch(watched)
	p.trusts.add(next.trust)
	p.handler.Set(next.pipeline)
	p.looking.Store(next.observer)
	p.admin.deployment.Store(next.deployment)
	if old := p.inForce; old != nil {
		old.stop()
		old.transport.CloseIdleConnections()
		time.AfterFunc(old.pipeline.JudgingTimeout(), func() { p.trusts.drop(old.trust) })
	}
	p.inForce = next
}

// rules gives every action its gate.
func (p *sidecarProcess) rules(n *snapshot) (*proxy.Rules, error) {
	own, err := newGate(n.T.Gate, p.gateKey, n.trust.verifier, n.strict)
	if err != nil {
		return nil, err
	}
	for i := range n.actions {
		a := &n.actions[i]
		api, ok := n.apis[a.Name]
		if !ok {
			a.Gate = localGate{own}
			continue
		}
		client, err := gate.NewClient(gate.ClientOptions{
			ChallengeURL: api.Challenge, VerifyURL: api.Verify, HTTP: &http.Client{Transport: n.transport, Timeout: 30 * time.Second},
		})
		if err != nil {
			return nil, fmt.Errorf("action %s: %w", a.Name, err)
		}
		a.Gate = remoteGate{client}
	}
	return proxy.NewRules(n.actions, n.egress)
}
