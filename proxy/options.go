package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/load"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// PipelineOptions configure a [Pipeline].
type PipelineOptions struct {
	Rules *rules.Rules
	// Ceiling bounds what rules and learning sessions may reach.
	Ceiling  match.Ceiling
	Sessions *session.Set
	// Standing lets an agent without credentials use the pod's one session.
	Standing bool
	EvidenceOptions
	RecordOptions
	NetworkOptions
	BoundsOptions
	// After is the previous pipeline, or nil. The new one continues its counts and knowledge.
	After *Pipeline
	Now   func() time.Time
}

// EvidenceOptions are the sources of a post's evidence. All but Receipts and Reputations are required.
type EvidenceOptions struct {
	Triggers Triggers
	Control  Control
	Verifier *evidence.Verifier
	Strict   *policy.Strict
	// Deployment refuses a post of this session's run while an observation contradicts the manifest. It may observe
	// first, for a few seconds at most.
	Deployment func(*observe.Run) error
	// DeploymentCertificate returns the auditor's token for the manifest behind Strict.
	DeploymentCertificate func() string
	Attest                *signer.Attester
	Prove                 *signer.Issuer[evidence.RequestProof]
	// RuntimeID names this runtime in attestations, EnvironmentHash its environment.
	RuntimeID, EnvironmentHash string
	// Receipts makes interaction receipts; nil makes none.
	Receipts *receipts.Keeper
	// Reputations adds the agent's reputation token to each decision; nil adds none.
	Reputations Reputations
}

// RecordOptions set where calls are recorded, logged and counted. All but Witnessed and Tracer are required.
type RecordOptions struct {
	Record Record
	// Witnessed waits until witnesses have seen the post's intent. The post goes out only after that. Nil does not
	// wait.
	Witnessed func(ctx context.Context, post ledger.Record) error
	Metrics   *Metrics
	// Tracer makes a span of each call and each of its steps. Nil makes none.
	Tracer trace.Tracer
	Log    *zap.Logger
}

// NetworkOptions connect calls to their upstreams. Only Transport is required.
type NetworkOptions struct {
	Transport http.RoundTripper
	// Node serves the mediator's own name; nil refuses its calls.
	Node *node.Relay
	// Destination, if set, refuses a redirected connection whose original address does not belong to its target.
	// Nothing is ever sent to that address.
	Destination func(ctx context.Context, t upstream.Target, dialled netip.Addr) error
	// Propagate tells upstreams which trace a call belongs to, in place of the agent's own traceparent and tracestate.
	Propagate bool
	// HangUp closes the connection without an answer if no rule allows the WebSocket that a client asks for.
	HangUp bool
	// CAPEM is the interception CA's certificate. Agents can fetch it.
	CAPEM []byte
}

// BoundsOptions bound the resources of calls. All are optional.
type BoundsOptions struct {
	Timeouts Timeouts
	Load     load.Limits
}

// Timeouts bound the waits of one post.
type Timeouts struct {
	// Step bounds each step before the forward, including the body's arrival in step 3; default 10 s.
	Step time.Duration
	// Forward bounds the forward of a post; any other call after its session's end; and the wait for the next piece of
	// a streamed body until the upstream answers. Default 60 s.
	Forward time.Duration
	// WebSocketIdle closes a WebSocket after this long without traffic; default 5 min.
	WebSocketIdle time.Duration
}

// Triggers is the trigger service; [trigger.Client] implements it.
type Triggers interface {
	Evidence(ctx context.Context, eventID string, b evidence.Binding) (trigger.Evidence, error)
	Claim(ctx context.Context, c trigger.Claim) (trigger.Event, error)
	Done(ctx context.Context, eventID, runtime string) (trigger.Event, error)
	Unsent(ctx context.Context, eventID, runtime, action, bindingHash string) error
}

// Control is the control plane; [policy.Client] implements it.
type Control interface {
	Decide(ctx context.Context, r policy.Request) (policy.Decision, error)
}

// Reputations supplies the agent's reputation token; [reputations.Cache] implements it. It answers soon, even without a
// token.
type Reputations interface {
	Token(ctx context.Context, maxAge time.Duration) string
	// Forget drops the token: the node's opinion may have changed.
	Forget()
}

// Record stores records durably; [ledger.Queue] implements it.
type Record interface {
	Begin(ctx context.Context, p ledger.Record, keys ...ledger.Key) error
	Finish(ctx context.Context, p ledger.Record) error
	Add(ctx context.Context, p ledger.Record) error
	FinishLater(p ledger.Record) error
	AddLater(p ledger.Record) error
	// Reserve takes a place for the record of a party's call, or refuses. Release gives it back unless FinishLater or
	// AddLater has used it.
	Reserve(r ledger.Record, party string, inFlight int) error
	Release(id string)
}

func (o *PipelineOptions) complete() error {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Rules", o.Rules == nil}, {"Sessions", o.Sessions == nil}, {"Now", o.Now == nil},
		{"Triggers", o.Triggers == nil}, {"Control", o.Control == nil}, {"Verifier", o.Verifier == nil},
		{"Strict", o.Strict == nil}, {"Deployment", o.Deployment == nil},
		{"DeploymentCertificate", o.DeploymentCertificate == nil}, {"Attest", o.Attest == nil},
		{"Prove", o.Prove == nil}, {"RuntimeID", o.RuntimeID == ""},
		{"EnvironmentHash", !evidence.IsHash(o.EnvironmentHash)},
		{"Record", o.Record == nil}, {"Metrics", o.Metrics == nil}, {"Log", o.Log == nil},
		{"Transport", o.Transport == nil},
	} {
		if required.missing {
			return fmt.Errorf("proxy: PipelineOptions.%s is missing", required.name)
		}
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	o.Timeouts.Step = cmp.Or(o.Timeouts.Step, 10*time.Second)
	o.Timeouts.Forward = cmp.Or(o.Timeouts.Forward, time.Minute)
	o.Timeouts.WebSocketIdle = cmp.Or(o.Timeouts.WebSocketIdle, 5*time.Minute)
	if err := o.Load.Check(); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}
