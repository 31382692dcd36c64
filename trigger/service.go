package trigger

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/signer"
)

// Options configure a [Service]. Everything without a default is required.
type Options struct {
	// Path of the event store, an SQLite file.
	Path string
	// Origin signs origin proofs as the source verifier, Receipt signs receipts as the trigger mediator: two keys, two issuers.
	Origin  *signer.Issuer[evidence.TriggerOriginProof]
	Receipt *signer.Issuer[evidence.TriggerReceipt]
	// Sources are where events come from.
	Sources []Source
	// MaxAge is how long an event is good for after its arrival; zero means 15 min.
	MaxAge time.Duration
	// Budget is how many posts of one action an event pays for; zero means 1.
	Budget int
	Now    func() time.Time
	Log    *zap.Logger
}

// Source is where events come from: a [Webhook], a [Schedule] or a [Queue].
type Source interface {
	// Name is the source's name, in events and artifacts.
	Name() string
	// Run brings events in until ctx ends, for a source that does so by itself.
	Run(ctx context.Context, s *Service) error
}

// Service keeps events and signs for them. It is safe for concurrent use.
type Service struct {
	o     Options
	store store

	mu      sync.Mutex // guards arrival
	arrival chan struct{}
}

// New opens the event store.
func New(ctx context.Context, o Options) (*Service, error) {
	if o.Origin == nil || o.Receipt == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("trigger: the service lacks one of its signers, its clock or its log")
	}
	if o.MaxAge == 0 {
		o.MaxAge = 15 * time.Minute
	}
	if o.Budget == 0 {
		o.Budget = 1
	}
	names := make(map[string]bool)
	for _, s := range o.Sources {
		if s.Name() == "" || names[s.Name()] {
			return nil, errors.New("trigger: each source needs a name of its own")
		}
		names[s.Name()] = true
	}
	db, err := ledger.OpenDB(ctx, o.Path, migrations)
	if err != nil {
		return nil, err
	}
	return &Service{o: o, store: store{db}, arrival: make(chan struct{})}, nil
}

// Run brings events in from every source until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, source := range s.o.Sources {
		group.Go(func() error { return source.Run(ctx, s) })
	}
	return group.Wait()
}

// Close closes the event store.
func (s *Service) Close() error { return s.store.db.Close() }

// add stamps an event and keeps it. The same evidence of the same source a second time gives the first event's id.
func (s *Service) add(ctx context.Context, e Event) (id string, fresh bool, err error) {
	e.ReceivedAt = s.o.Now()
	e.ExpiresAt = e.ReceivedAt.Add(s.o.MaxAge)
	known, err := s.store.add(ctx, e)
	if err != nil {
		return "", false, err
	}
	if known != "" {
		s.o.Log.Info("event known already", zap.String("event", known), zap.String("source", e.Source))
		return known, false, nil
	}
	s.o.Log.Info("event kept", zap.String("event", e.ID), zap.String("kind", e.Kind), zap.String("source", e.Source), zap.String("method", e.Method))
	s.mu.Lock()
	close(s.arrival) // wakes everybody who waits
	s.arrival = make(chan struct{})
	s.mu.Unlock()
	return e.ID, true, nil
}

// Report keeps an event that somebody reports, without any verification of its origin. It is there to be seen, and stands behind
// no post: its kind is human_request or unknown, its method manual or self_reported.
func (s *Service) Report(ctx context.Context, kind, method, source string, payload []byte) (string, error) {
	if kind != evidence.TriggerHumanRequest && kind != evidence.TriggerUnknown || method != evidence.MethodManual && method != evidence.MethodSelfReported {
		return "", evidence.Refuse("trigger_unverified", "a reported event is a human_request or unknown, and manual or self_reported")
	}
	reportID := "rep_" + evidence.NewID()
	e, err := newEvent(kind, source, method, reportID, "", payload, map[string]string{"reportId": reportID})
	if err != nil {
		return "", err
	}
	id, _, err := s.add(ctx, e)
	return id, err
}

// Claim asks for an event to open a session with.
type Claim struct {
	EventID string // empty takes the oldest that waits
	Runtime string
	Wait    time.Duration // how long to wait for one, where EventID is empty
}

// Claim gives an event to a runtime, once. Without an event it waits as long as it is asked to.
func (s *Service) Claim(ctx context.Context, c Claim) (Event, error) {
	if c.Runtime == "" {
		return Event{}, evidence.Refuse("query_malformed", "a claim names its runtime")
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait+10*time.Second)
	defer cancel()
	deadline := time.NewTimer(c.Wait)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		arrival := s.arrival
		s.mu.Unlock()
		e, err := s.store.claim(ctx, c.EventID, c.Runtime, s.o.Now())
		if !errors.Is(err, errNothing) {
			return e, err
		}
		select {
		case <-arrival:
		case <-deadline.C:
			return Event{}, evidence.Refuse("event_none", "no event waits for a runtime")
		case <-ctx.Done():
			return Event{}, evidence.Refuse("event_none", "no event came while the caller waited")
		}
	}
}

// Get returns one event, List the newest ones.
func (s *Service) Get(ctx context.Context, id string) (Event, error) { return s.store.get(ctx, id) }

// List returns the newest events, at most limit.
func (s *Service) List(ctx context.Context, limit int) ([]Event, error) {
	return s.store.list(ctx, limit)
}

// Evidence are the two artifacts for one event and one binding.
type Evidence struct {
	OriginProof    string `json:"originProof"`
	TriggerReceipt string `json:"triggerReceipt"`
}

// Evidence signs for an event and a binding. It does so only for a claimed event that the service verified itself, that is not
// human, inside its age and its budget; the budget is spent, durably, before anything is signed.
func (s *Service) Evidence(ctx context.Context, eventID string, b evidence.Binding) (Evidence, error) {
	if err := b.CheckNonce(); err != nil {
		return Evidence{}, err
	}
	e, err := s.store.get(ctx, eventID)
	if err != nil {
		return Evidence{}, err
	}
	if err := e.Verified(); err != nil {
		return Evidence{}, err
	}
	switch {
	case !s.o.Now().Before(e.ExpiresAt):
		return Evidence{}, expired(e)
	case e.State != Claimed:
		return Evidence{}, evidence.Refuse("event_unclaimed", "the event %s has opened no session", e.ID)
	}
	if err := s.store.spend(ctx, e.ID, b.Action, s.o.Budget); err != nil {
		return Evidence{}, err
	}
	return s.sign(ctx, e, b.Hash())
}

// sign makes the two artifacts. The proof is this process's own, so the receipt can rest on its hash without opening it again.
func (s *Service) sign(ctx context.Context, e Event, bindingHash string) (Evidence, error) {
	proof, _, err := s.o.Origin.Sign(ctx, evidence.TriggerOriginProof{
		Kind: e.Kind, Source: e.Source, VerificationMethod: e.Method, EventID: e.ID, EvidenceID: e.EvidenceID,
		PayloadHash: e.PayloadHash, BindingHash: bindingHash, EvidenceHash: e.EvidenceHash,
	})
	if err != nil {
		return Evidence{}, err
	}
	receipt, _, err := s.o.Receipt.Sign(ctx, evidence.TriggerReceipt{
		Kind: e.Kind, Source: e.Source, EventID: e.ID, PayloadHash: e.PayloadHash, BindingHash: bindingHash,
		HumanInitiated: false, OriginProofHash: evidence.HashToken(proof),
	})
	if err != nil {
		return Evidence{}, err
	}
	return Evidence{OriginProof: proof, TriggerReceipt: receipt}, nil
}
