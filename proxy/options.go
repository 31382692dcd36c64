package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// PipelineOptions are what a pipeline works with.
type PipelineOptions struct {
	Rules    *Rules
	Sessions *session.Set
	// Standing lets an agent without credentials use, and open, the pod's one session.
	Standing bool
	EvidenceOptions
	RecordOptions
	NetworkOptions
	BoundsOptions
	// After is the pipeline before this one, or nil. What it has counted and what it knows goes on.
	After *Pipeline
	Now   func() time.Time
}

// EvidenceOptions are what the evidence of a post comes from. All but Receipts and Reputations are required.
type EvidenceOptions struct {
	Triggers Triggers
	Control  Control
	Verifier *evidence.Verifier
	Strict   *policy.Strict
	// Deployment refuses a post of a session with this run while something contradicts the manifest. It answers at once.
	Deployment func(*observe.Run) error
	// DeploymentCertificate is the auditor's token for the manifest behind Strict.
	DeploymentCertificate func() string
	Attest                *signer.Attester
	Prove                 *signer.Issuer[evidence.RequestProof]
	// RuntimeID names this runtime in attestations; EnvironmentHash names what it runs.
	RuntimeID, EnvironmentHash string
	// Receipts makes the interaction receipts of sessions; nil makes none.
	Receipts *receipts.Keeper
	// Reputations gives the reputation token of the agent to each decision; nil gives none.
	Reputations Reputations
}

// RecordOptions are where calls leave their record, their log line and their count. Only LogLater may be left out.
type RecordOptions struct {
	Record  Record
	Metrics *Metrics
	Log     *zap.Logger
	// LogLater gets the lines of calls that needed no evidence: nobody waits for those. Log if nil.
	LogLater *zap.Logger
}

// NetworkOptions are how calls get to their upstreams. Only Transport is required.
type NetworkOptions struct {
	Transport http.RoundTripper
	// Node is the upstream for the mediator's own name; nil refuses.
	Node *node.Relay
	// Destination, if set, refuses a redirected connection to an address that is none of its target's. Nothing is sent to
	// that address in any case.
	Destination func(ctx context.Context, t upstream.Target, dialled netip.Addr) error
	// HangUp closes the connection, in place of an answer, where no rule allows the WebSocket that a client asks for.
	HangUp bool
	// CAPEM is the interception CA's certificate, for agents to fetch.
	CAPEM []byte
}

// BoundsOptions bound what calls take. None is required.
type BoundsOptions struct {
	Timeouts Timeouts
	Load     Load
	SpoolDir string // for bodies that are too large for memory
}

// Timeouts bound the waits of one post.
type Timeouts struct {
	// Step bounds each of the steps before the forward, of step 3 the time in which the body has to come; default 10 s.
	Step time.Duration
	// Forward bounds the whole forward of a post, any other call once its session has ended, and the wait for the next
	// piece of a streamed body until the upstream answers; default 60 s.
	Forward time.Duration
	// WebSocketIdle closes a WebSocket over which nothing has come for so long, from neither side; default 5 min.
	WebSocketIdle time.Duration
}

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

// Reputations has the reputation tokens of agents. [reputations.Cache] does. It answers soon, if need be without a
// token.
type Reputations interface {
	Token(ctx context.Context, subject string, maxAge time.Duration) string
	// Forget drops the token of an agent of which the node may say something else from now on.
	Forget(subject string)
}

// Record keeps what happened, durably. [ledger.Queue] does.
type Record interface {
	Begin(ctx context.Context, p ledger.Record, keys ...ledger.Key) error
	Finish(ctx context.Context, p ledger.Record) error
	Add(ctx context.Context, p ledger.Record) error
	FinishLater(ctx context.Context, p ledger.Record) error
	AddLater(ctx context.Context, p ledger.Record) error
	// Full refuses while the record of a call that a session sends now might be lost.
	Full(session string) error
}

// complete sets what was left out, and refuses options without what is required.
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
	o.Timeouts.Step = cmp.Or(o.Timeouts.Step, 10*time.Second)
	o.Timeouts.Forward = cmp.Or(o.Timeouts.Forward, time.Minute)
	o.Timeouts.WebSocketIdle = cmp.Or(o.Timeouts.WebSocketIdle, 5*time.Minute)
	o.LogLater = cmp.Or(o.LogLater, o.Log)
	if err := o.Load.Check(); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}
