package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
)

// snapshot, an [admin.Deployment], holds everything that judges calls under one configuration. It never changes, except
// that its trust follows the bundle. A call uses one snapshot from its beginning to its end.
type snapshot struct {
	*daemon.Configured[config.Sidecar]
	process     *sidecar
	credentials credentials

	// Made by build.
	accepted   *accepted
	deployment *deployment
	purposes   map[string]match.Purpose // by the names of the rules
	rules      own.Rules                // as agents see them
	transport  *upstream.Transport
	pipeline   *proxy.Pipeline
	stop       context.CancelFunc // stops observing its deployment
}

func (p *sidecar) Next(ctx context.Context, next *daemon.Configured[config.Sidecar]) (func() error, error) {
	if err := p.checkControl(ctx, next.Strict); err != nil {
		return nil, err
	}
	s := &snapshot{Configured: next, process: p}
	var err error
	if s.credentials, err = p.makeCredentials(next.Config); err == nil {
		err = s.credentials.read(ctx, p.Log, false)
	}
	if err != nil {
		p.rest(p.current.Load().Config)
		return nil, err
	}
	return func() error {
		if err := p.build(ctx, s); err != nil {
			return err
		}
		p.activate(s)
		p.rest(next.Config)
		return nil
	}, nil
}

// rest keeps the login for credentials from making the process unready forever if the configuration has none in Vault.
func (p *sidecar) rest(c *config.Sidecar) {
	if p.secrets != nil && !usesVault(c) {
		p.secrets.Rest()
	}
}

// checkHosts refuses a rule for a host that the interception CA of this process does not cover.
func (p *sidecar) checkHosts(c *config.Sidecar) error {
	for _, host := range c.Hosts() {
		if !p.ca.Covers(host) {
			return refusal.New("restart_required",
				"the previous configuration stays: a rule names %s, which the interception CA does not cover. Restart "+
					"for a new CA; if ca.dir is set, run mediator ca init first. To let a reload add hosts, list them "+
					"in ca.permit",
				host)
		}
	}
	return nil
}

// checkManifest refuses a manifest under which every post would be refused: it pins another environment, or does not
// allow this process's runtime or roles.
func (p *sidecar) checkManifest(c *config.Sidecar, environment string, strict *policy.Strict) error {
	return cmp.Or(strict.CheckEnvironment(environment), strict.CheckRuntime(p.name), p.CheckAllowed(strict, c.Audience),
		c.CheckCeiling(strict.EgressCeiling))
}

// checkControl refuses a manifest by which the control plane does not decide: it would refuse every post.
func (p *sidecar) checkControl(ctx context.Context, strict *policy.Strict) error {
	now, err := p.control.Manifests(ctx)
	if err != nil {
		return err
	}
	if len(now) == 0 || now[0] != strict.ManifestHash {
		return refusal.New("deployment_mismatch",
			"the control plane does not use the manifest %s: reload the control plane first", strict.ManifestHash)
	}
	return nil
}

func (p *sidecar) build(ctx context.Context, s *snapshot) (err error) {
	c := s.Config
	s.transport = upstream.NewTransport(upstream.Options{
		Dialer:                upstream.Dialer{Hosts: c.UpstreamHosts, Own: p.ownAddresses, Proxy: p.upstreamProxy(c)},
		ResponseHeaderTimeout: c.Timeouts.ResponseHeader.Or(10 * time.Minute), Now: time.Now,
		Connections: c.Limits.Load().Connections(),
	})
	rules, err := p.rules(s)
	if err != nil {
		return err
	}
	ceiling, err := deployed.Ceiling(s.Strict.EgressCeiling)
	if err != nil {
		return err
	}
	s.accepted = &accepted{verifier: s.Trust.Verifier, strict: s.Strict, control: p.control}
	timeouts := c.Timeouts
	o := proxy.PipelineOptions{
		Rules: rules, Ceiling: ceiling, Sessions: p.sessions, Standing: c.Session.Standing, Now: time.Now,
		EvidenceOptions: proxy.EvidenceOptions{
			Triggers: triggers{p.triggers, s.accepted},
			Control:  control{p.control, s.Trust.Verifier, s.Strict},
			Verifier: s.Trust.Verifier, Strict: s.Strict, DeploymentCertificate: s.Trust.DeploymentCertificate,
			Deployment: func(run *observe.Run) error { return cmp.Or(s.deployment.contradicted(run), p.guard.check()) },
			Attest: signer.NewAttester(p.runtime, p.session, signer.Access{
				HumanPromptPresent: c.Session.Access.HumanPrompt, HumanOperatorPresent: c.Session.Access.HumanOperator,
				UserShellAccess:                c.Session.Access.UserShell,
				AgentEnvironmentUserAccessible: c.Session.Access.UserEnvironment,
			}),
			Prove: p.requestProof, Receipts: p.receipts, RuntimeID: p.name, EnvironmentHash: s.Plan.Environment,
		},
		RecordOptions: proxy.RecordOptions{Record: p.record, Metrics: p.metrics, Log: p.Log},
		NetworkOptions: proxy.NetworkOptions{
			Transport: s.transport, Node: p.node, Destination: s.destination(), HangUp: c.WebSocketRefusal == "close",
			CAPEM: p.ca.CertificatePEM(), Propagate: c.PropagateTraces,
		},
		BoundsOptions: proxy.BoundsOptions{
			Timeouts: proxy.Timeouts{
				Step: time.Duration(timeouts.Step), Forward: time.Duration(timeouts.Forward),
			},
			Load: c.Limits.Load(),
		},
	}
	if p.reputations != nil {
		o.Reputations = p.reputations
	}
	if p.Tracing != nil {
		o.Tracer = p.Tracing
	}
	if t := p.transparency; t != nil && t.c.RequireWitness {
		o.Witnessed = t.wait
	}
	if p.handler != nil {
		o.After = p.handler.Pipeline()
	}
	if s.pipeline, err = proxy.NewPipeline(o); err != nil {
		return err
	}
	s.purposes, s.rules = make(map[string]match.Purpose), rules.Shown()
	for _, r := range c.AllRules() {
		s.purposes[r.Name] = r.Purpose()
	}
	s.deployment = p.openDeployment(ctx, s)
	return nil
}

func (s *snapshot) Controls(ctx context.Context) []policy.ObservedControl {
	s.deployment.observe(ctx, 0)
	return s.deployment.seen.Load().controls
}

func (s *snapshot) Purpose(rule string) match.Purpose { return s.purposes[rule] }

func (s *snapshot) Rules() own.Rules { return s.rules }

func (s *snapshot) destination() func(context.Context, upstream.Target, netip.Addr) error {
	if s.Config.Transparent == nil || s.Config.Transparent.AnyAddress {
		return nil
	}
	return s.transport.CheckDestination
}

// activate switches to a snapshot by storing one pointer. Calls in flight keep their own snapshot, whose trust follows
// the bundle until the last of them must have its evidence.
func (p *sidecar) activate(next *snapshot) {
	var watched context.Context
	watched, next.stop = context.WithCancel(p.life)
	go next.deployment.watch(watched)
	p.Trust.Add(next.Trust)
	p.settleBotAuth(next)
	if p.transparency != nil {
		p.transparency.trusted(next.Trust)
	}
	p.handler.Set(next.pipeline)
	for _, w := range next.Config.Warnings {
		p.Log.Warn("a warning about the configuration",
			zap.String("code", w.Code), zap.String("key", w.Key), zap.String("warning", w.Sentence))
	}
	p.export(next.Config.AuditExport)
	p.admin.SetDeployment(next)
	if old := p.current.Swap(next); old != nil {
		old.stop()
		old.transport.CloseIdleConnections()
		time.AfterFunc(old.pipeline.JudgingTimeout(), func() { p.Trust.Drop(old.Trust) })
	}
}

func (p *sidecar) rules(s *snapshot) (*rules.Rules, error) {
	c := s.Config
	own, err := newGate(c.Gate, p.gateKey, s.Trust.Verifier, s.Strict)
	if err != nil {
		return nil, err
	}
	actions, egress := slices.Clone(c.ActionRules), slices.Clone(c.EgressRules)
	for i := range actions {
		a := &actions[i]
		a.Credential, a.Gate, a.Sign = s.credentials.byRule[a.Name], own, p.signers[c.Actions[i].Sign]
		a.Certificate = s.credentials.certificates[a.Name]
		api := c.Actions[i].API
		if api == nil {
			continue
		}
		client, err := gate.NewClient(gate.ClientOptions{
			ChallengeURL: api.Challenge, VerifyURL: api.Verify,
			HTTP: &http.Client{Transport: s.transport, Timeout: 30 * time.Second}, Now: time.Now,
		})
		if err != nil {
			return nil, fmt.Errorf("action %s: %w", a.Name, err)
		}
		a.Gate, a.TakesPart = client, true
	}
	for i := range egress {
		egress[i].Credential, egress[i].Sign = s.credentials.byRule[egress[i].Name], p.signers[c.Egress[i].Sign]
		egress[i].Certificate = s.credentials.certificates[egress[i].Name]
	}
	return rules.New(actions, egress, s.Config.Denied)
}
