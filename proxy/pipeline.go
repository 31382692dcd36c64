package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// InternalHost is the name under which an agent reaches the mediator itself, through the proxy.
const InternalHost = match.Own

// Triggers is the trigger service.
type Triggers interface {
	Evidence(ctx context.Context, eventID string, b evidence.Binding) (trigger.Evidence, error)
	Claim(ctx context.Context, c trigger.Claim) (trigger.Event, error)
	Done(ctx context.Context, eventID, runtime string) (trigger.Event, error)
	Unsent(ctx context.Context, eventID, runtime, action, bindingHash string) error
	Budget(ctx context.Context, eventID string) (trigger.Budget, error)
}

// Control is the control plane.
type Control interface {
	Decide(ctx context.Context, r policy.Request) (policy.Decision, error)
}

// Reputations has the reputation tokens of agents. [reputations.Cache] does. It answers soon, without a token if it has to.
type Reputations interface {
	Token(ctx context.Context, subject string, maxAge time.Duration) string
	// Forget is told of an agent of which the node may say something else from now on.
	Forget(subject string)
}

// Record keeps what happened, durably. [ledger.Queue] does.
type Record interface {
	Begin(ctx context.Context, p ledger.Record, keys ...ledger.Key) error
	Finish(ctx context.Context, p ledger.Record) error
	Add(ctx context.Context, p ledger.Record) error
	FinishLater(ctx context.Context, p ledger.Record) error
	AddLater(ctx context.Context, p ledger.Record) error
	// Full refuses while the record of a call that is sent now might be lost.
	Full() error
}

// Timeouts bound the waits of one post.
type Timeouts struct {
	Step    time.Duration // each of the steps before the forward; of step 3 the time in which the body has to come; default 10 s
	Forward time.Duration // the whole forward of a post, until its answer has been relayed, and any other call that goes on when its session has ended; default 60 s
	// WebSocketIdle closes a WebSocket over which nothing has come for so long, from neither side; default 5 min.
	WebSocketIdle time.Duration
}

// PipelineOptions are what a pipeline works with. Everything but Receipts, Node, Reputations, Destination, Timeouts, Load, After, LogLater, Standing and SpoolDir is required.
type PipelineOptions struct {
	Rules    *Rules
	Sessions *session.Set
	Triggers Triggers
	Control  Control
	Record   Record
	Verifier *evidence.Verifier
	Strict   *policy.Strict
	// Deployment refuses posts while something is seen that contradicts the manifest. It is asked for each and answers at once.
	Deployment func() error
	// DeploymentCertificate is the auditor's token for the manifest behind Strict.
	DeploymentCertificate func() string
	Attest                *signer.Attester
	Prove                 *signer.Issuer[evidence.RequestProof]
	// Receipts makes the interaction receipts of sessions; nil makes none.
	Receipts *receipts.Keeper
	// Node relays what agents ask of the node that appraises receipts, and is where rules for the mediator's own name lead; nil refuses.
	Node *node.Relay
	// Reputations is asked for each post, if the manifest has a policy for reputations; nil has none.
	Reputations Reputations
	Transport   http.RoundTripper
	// Destination, if set, refuses a redirected connection to an address that is none of its target's. Without it any address will do:
	// nothing is ever sent there.
	Destination func(ctx context.Context, t upstream.Target, dialled netip.Addr) error
	// RuntimeID names this runtime in attestations; EnvironmentHash names what it runs.
	RuntimeID, EnvironmentHash string
	// Standing lets an agent without credentials use, and open, the pod's one session.
	Standing bool
	// HangUp closes the connection of a client that asks for a WebSocket where no rule allows one. Otherwise it is answered.
	HangUp bool
	// CAPEM is the interception CA's certificate, for agents to fetch.
	CAPEM    []byte
	SpoolDir string
	Timeouts Timeouts
	Load     Load
	// After is the pipeline that this one will succeed, or nil: the calls in flight, the breakers, the rates and the known tools go on from there.
	After   *Pipeline
	Metrics *Metrics
	Log     *zap.Logger
	// LogLater gets the lines of calls that are over and needed no evidence: nobody waits for those, nor for their records. Log if nil.
	LogLater *zap.Logger
	Now      func() time.Time
}

// Pipeline is the one point at which calls are judged: every plain and every intercepted request passes through it, and every way out of
// it makes exactly one record. Only calls of unknown callers beyond their quota leave none, see [Load]. A Pipeline never changes: another
// configuration is another pipeline, see [Handler].
type Pipeline struct {
	o         PipelineOptions
	strangers *zap.Logger // for lines of callers whose session is not known
	load      *load
	bodies    *body.Store
	judges    map[string]judge // by the kind of endpoint
	// definitions are the tools that MCP servers have shown.
	definitions *mcp.Definitions
}

// NewPipeline checks o and makes the pipeline.
func NewPipeline(o PipelineOptions) (*Pipeline, error) {
	if o.Rules == nil || o.Sessions == nil || o.Triggers == nil || o.Control == nil || o.Record == nil || o.Verifier == nil ||
		o.Strict == nil || o.Deployment == nil || o.DeploymentCertificate == nil || o.Attest == nil || o.Prove == nil || o.Transport == nil || o.Metrics == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("proxy: the pipeline lacks one of its parts")
	}
	if o.RuntimeID == "" || !evidence.IsHash(o.EnvironmentHash) {
		return nil, errors.New("proxy: the pipeline needs a runtime id and an environment hash")
	}
	o.Timeouts.Step = cmp.Or(o.Timeouts.Step, 10*time.Second)
	o.Timeouts.Forward = cmp.Or(o.Timeouts.Forward, time.Minute)
	o.Timeouts.WebSocketIdle = cmp.Or(o.Timeouts.WebSocketIdle, 5*time.Minute)
	if o.LogLater == nil {
		o.LogLater = o.Log
	}
	if err := o.Load.Check(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Pipeline{o: o, strangers: flood.Logger(o.Log), load: newLoad(o.Load, nil, o.Log, o.Now), bodies: body.NewStore(o.Load.Bodies, o.SpoolDir), definitions: new(mcp.Definitions)}
	p.judges = map[string]judge{kindMCP: mcpJudge{p}, kindGraphQL: graphQLJudge{}, kindModel: modelJudge{p: p}}
	if before := o.After; before != nil {
		p.o.After = nil // or every pipeline would keep all those before it
		p.load, p.definitions = newLoad(o.Load, before.load, o.Log, o.Now), before.definitions
		if o.Load.Bodies == before.o.Load.Bodies && o.SpoolDir == before.o.SpoolDir {
			p.bodies = before.bodies
		}
	}
	return p, nil
}

// JudgingTimeout bounds the time from the request of a post to its intent. After it no evidence of the post is judged any more.
func (p *Pipeline) JudgingTimeout() time.Duration { return maxSteps * p.o.Timeouts.Step }

// ServeHTTP takes one request from the agent to its end: answered, refused or forwarded, and recorded.
func (p *Pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := p.newCall(w, r)
	defer p.load.leave(c)
	defer c.over()
	defer func() {
		if v := recover(); v != nil {
			p.recovered(c, v)
		}
	}()
	err := p.handle(c)
	cut := err != nil && (c.answered || c.hangUp) // an answer that has begun is not whole
	if err != nil {
		p.refuse(c, err)
	}
	if !p.keepOpen(c) {
		if rec := p.finish(r.Context(), c); rec != nil && err == nil {
			err = rec
		}
	}
	if cut {
		panic(http.ErrAbortHandler) // net/http closes the connection, or resets the stream
	}
	if err != nil && !c.answered {
		d := problem.ForAgent(err, c.record.ID)
		var withChallenge *challengeRequired
		if errors.As(err, &withChallenge) {
			d.Challenge = withChallenge.document
		}
		var failed *generate.Failure
		if errors.As(err, &failed) {
			d.Upstream = failed.Document()
		}
		if c.entered {
			p.answerEarly(c, d)
			return
		}
		c.writeProblem(d)
	}
}

// What a client may still send of a body that was refused unread, in bytes and in time.
const (
	maxUnread     = 64 << 20
	unreadTimeout = 5 * time.Second
)

// answerEarly answers at once and then takes what the client still sends of its body, within bounds. Many clients look for an answer only when
// they have sent everything, and lose it where the connection is closed before.
func (p *Pipeline) answerEarly(c *call, d problem.Details) {
	answer := http.NewResponseController(c.w)
	_ = answer.EnableFullDuplex() // or net/http would read of the body before it answers; HTTP/2 needs no such leave
	c.writeProblem(d)
	if c.held != nil || c.r.Body == http.NoBody || c.r.Header.Get("Expect") != "" { // who expects to be asked for the body sends none
		return
	}
	_ = answer.Flush()
	_ = answer.SetReadDeadline(p.o.Now().Add(unreadTimeout))
	_, _ = io.CopyN(io.Discard, c.r.Body, maxUnread)
}

// recovered turns a panic into a recorded refusal, or, of a call that was on its way, into an outcome that nobody knows. An answer that has
// begun is cut, so that the client sees it is not whole.
func (p *Pipeline) recovered(c *call, v any) {
	if c.kept {
		panic(http.ErrAbortHandler)
	}
	err := errors.New("panic")
	if c.record.State == ledger.StateForwarding {
		c.record.State = ledger.StateIndeterminate
		err = refusal.New("indeterminate", "a fault in the mediator ended the call while it was sent")
	}
	if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
		p.logOf(c).Error("panic in a call", zap.String("post", c.record.ID), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
		c.refuse(err)
	}
	_ = p.finish(c.r.Context(), c)
	if c.answered || c.hangUp {
		panic(http.ErrAbortHandler)
	}
	c.writeProblem(problem.ForAgent(err, c.record.ID))
}

// logOf returns the logger for what goes wrong with a call.
func (p *Pipeline) logOf(c *call) *zap.Logger {
	if c.session == nil {
		return p.strangers
	}
	return p.o.Log
}

// handle is the way of one request. An error means that nothing was sent to anyone, unless the call says otherwise (answered).
func (p *Pipeline) handle(c *call) error {
	r := c.r
	route, ok := intercept.RouteFrom(r.Context())
	if !ok {
		return errors.New("proxy: a request reached the pipeline without a route")
	}
	c.route(route.Target)
	if err := p.load.enter(c); err != nil {
		if r.ProtoMajor == 1 && r.ContentLength != 0 {
			c.w.Header().Set("Connection", "close") // so that the answer does not wait for the body
		}
		return err
	}
	generates := isGenerate(c)
	if c.target.Host == InternalHost && !generates && !isForNode(c) {
		return p.serveInternal(c, route)
	}
	if err := p.findSession(c, route); err != nil { // 1
		return err
	}
	if generates {
		done, err := p.generate(c)
		defer done()
		if err != nil {
			return err
		}
	}
	to, err := p.match(c) // 2
	c.step("match")
	if err != nil {
		return err
	}
	if c.permit, err = p.load.host(c); err != nil {
		return err
	}
	defer c.permit.Settle(0, nil) // where nothing else has come of it
	rule, err := p.choose(c, to)
	defer c.release()
	if err != nil {
		return err
	}
	if rule.egress != nil {
		return p.egress(c, rule.egress)
	}
	return p.post(c, rule.action)
}

// match begins step 2: what the call reaches by origin, method and path, which have one reading.
func (p *Pipeline) match(c *call) (*endpoint, error) {
	r := c.r
	to, err := p.o.Rules.Find(c.target, r.Method, r.URL.EscapedPath())
	if len(r.Header["Upgrade"]) > 0 {
		if err := p.mayUpgrade(c, to); err != nil {
			return to, err
		}
	}
	return to, cmp.Or(forward.CheckHeader(r), match.CheckSpelling(r.URL), err)
}

// findSession is step 1, which counts against the session's rates. A tunnel's session is looked up again for each call: it may have ended since.
func (p *Pipeline) findSession(c *call, route intercept.Route) error {
	defer c.step("session")
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return err
	}
	c.of(s)
	if err := p.load.session(s); err != nil || c.target.Host != InternalHost || isGenerate(c) {
		return err
	}
	return p.load.node(s)
}
