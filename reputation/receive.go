package reputation

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/store"
)

const MaxBatch = 200

// Received is the state of a session's chain after a delivery.
type Received struct {
	Owner, Session string
	Next           int64 // number of the next wanted receipt, or 0 if unknown
	Err            error // why receipts were refused; then none of the session's were kept
}

type delivered struct {
	owner, session string
	tokens         []string
	claims         []interaction.Receipt
}

// Receive takes receipts of any sessions, each session's in chain order, and again. It keeps all of a session's
// receipts durably, or none. Receive itself fails only if a token is unreadable.
func (s *Service) Receive(ctx context.Context, tokens []string) ([]Received, error) {
	if len(tokens) > MaxBatch {
		return nil, refusal.New("query_malformed", "the delivery has %d receipts; at most %d are allowed", len(tokens),
			MaxBatch)
	}
	var all []*delivered
	of := make(map[[2]string]*delivered)
	for _, token := range tokens {
		c, err := evidence.UnverifiedClaims(interaction.Kind, token)
		if err != nil {
			return nil, err
		}
		key := [2]string{c.Owner, c.Chain.SessionID}
		if of[key] == nil {
			of[key] = &delivered{owner: c.Owner, session: c.Chain.SessionID}
			all = append(all, of[key])
		}
		of[key].tokens, of[key].claims = append(of[key].tokens, token), append(of[key].claims, c)
	}
	answers := make([]Received, 0, len(all))
	for _, d := range all {
		next, kept, err := s.receive(ctx, d)
		s.metrics.delivered(len(d.tokens), kept, err)
		if err != nil {
			s.strangers.Warn("receipts refused", zap.String("owner", d.owner), zap.String("session", d.session),
				zap.Int64("next", next), zap.Error(err))
		}
		answers = append(answers, Received{Owner: d.owner, Session: d.session, Next: next, Err: err})
	}
	return answers, nil
}

// again repeats what a replica was faster to do, a few times.
func again(refused error, do func() error) error {
	for range 4 {
		if err := do(); !errors.Is(err, store.ErrMoved) {
			return err
		}
	}
	return refused
}

// receive returns the next wanted number and how many receipts were kept.
func (s *Service) receive(ctx context.Context, d *delivered) (next int64, kept int, err error) {
	owner, err := s.believed.Load().owner(d.owner)
	if err != nil {
		return 0, 0, err
	}
	busy := refusal.New("overloaded", "other receipts of the session arrive at the same time")
	err = again(busy, func() (err error) {
		next, kept, err = s.add(ctx, owner, d)
		return err
	})
	return next, kept, err
}

// add verifies and stores the new receipts, or returns [store.ErrMoved] if the chain changed meanwhile.
func (s *Service) add(ctx context.Context, owner *Owner, d *delivered) (next int64, kept int, err error) {
	state, err := s.o.Store.Session(ctx, d.owner, d.session)
	switch {
	case errors.Is(err, store.ErrNotFound):
		state = store.Session{Next: 1}
	case err != nil:
		return 0, 0, err
	}
	fresh, err := s.fresh(ctx, owner, state, d)
	if err != nil || len(fresh.tokens) == 0 {
		return state.Next, 0, err
	}
	if state.Forked {
		return state.Next, 0, forked(d.session)
	}
	if first := fresh.claims[0].Chain.SequenceNumber; first > state.Next {
		return state.Next, 0,
			refusal.New("chain_incomplete", "the node needs receipt %[2]d of the session before receipt %[1]d", first,
				state.Next)
	}
	// An expired session must not come back: without its challenges and its fork, and once more into the baselines.
	if began := time.Unix(fresh.claims[0].IssuedAt, 0); state.Next == 1 && began.Before(s.o.Now().Add(-s.o.Retention)) {
		return state.Next, 0,
			refusal.New("interaction_expired", "the session began at %s, and the node keeps sessions for %s",
				began.UTC().Format(time.RFC3339), s.o.Retention)
	}
	receipts, err := s.verify(ctx, owner, state, fresh)
	if err == nil {
		// after verifying: strangers must not use up the rate
		err = s.admit(owner.rates.receipts, len(receipts), "receipts")
	}
	if err != nil {
		return state.Next, 0, err
	}
	last := fresh.claims[len(fresh.claims)-1]
	err = s.o.Store.Append(ctx, store.Addition{
		Owner: d.owner, Session: d.session, Agent: last.Agent, Receipts: receipts, Closing: last.Closing != nil,
		At:          s.o.Now(),
		MaxSessions: s.o.Limits.Sessions, MaxReceipts: s.o.Limits.Receipts,
	})
	switch {
	case errors.Is(err, store.ErrDuplicate):
		return state.Next, 0, refusal.New("chain_broken", "a call of the session already has a different receipt")
	case errors.Is(err, store.ErrFull):
		return state.Next, 0,
			refusal.New("owner_full", "the owner has reached a limit of the node, %d sessions or %d receipts",
				s.o.Limits.Sessions, s.o.Limits.Receipts)
	case err != nil:
		return state.Next, 0, err
	}
	return last.Chain.SequenceNumber + 1, len(receipts), nil
}

// fresh returns the receipts not kept yet. It records a validly signed one that contradicts a kept one as a fork.
func (s *Service) fresh(ctx context.Context, owner *Owner, state store.Session, d *delivered) (delivered, error) {
	known := 0
	for known < len(d.claims) && d.claims[known].Chain.SequenceNumber < state.Next {
		known++
	}
	rest := delivered{owner: d.owner, session: d.session, tokens: d.tokens[known:], claims: d.claims[known:]}
	if known == 0 {
		return rest, nil
	}
	kept, err := s.o.Store.Receipts(ctx, d.owner, d.session, d.claims[0].Chain.SequenceNumber, known)
	if err != nil {
		return rest, err
	}
	hashes := make(map[int64]string, len(kept))
	for _, r := range kept {
		hashes[r.Number] = r.Hash
	}
	for i, token := range d.tokens[:known] {
		number := d.claims[i].Chain.SequenceNumber
		hash, looked := hashes[number]
		if !looked {
			return rest, refusal.New("chain_broken", "receipt %d is out of order", number)
		}
		if hash == evidence.HashToken(token) {
			continue
		}
		if _, err := s.past(owner)(token, d.claims[i]); err != nil {
			return rest, err // anyone could have made it
		}
		if err := s.o.Store.Fork(ctx, store.Receipt{Owner: d.owner, Session: d.session, Number: number, Token: token},
			s.o.Now()); err != nil {
			return rest, err
		}
		s.strangers.Error("an owner signed two chains for one session",
			zap.String("owner", d.owner), zap.String("session", d.session), zap.Int64("number", number))
		return rest, refusal.New("chain_broken", "the node has a different receipt %d of the session", number)
	}
	return rest, nil
}

func forked(session string) error {
	return refusal.New("chain_broken", "the session %.80q has two chains, so neither counts", session)
}

func (s *Service) past(owner *Owner) interaction.Opener {
	return interaction.Past(owner.Past, owner.Receipts, s.o.Now())
}

func (s *Service) verify(ctx context.Context, owner *Owner, state store.Session, d delivered) ([]store.Receipt, error) {
	chain, err := s.chain(ctx, owner, d.owner, d.session, state.Next)
	if err != nil {
		return nil, err
	}
	receipts := make([]store.Receipt, 0, len(d.tokens))
	for _, token := range d.tokens {
		o, err := chain.Add(token)
		if err != nil {
			return nil, evidence.Stale(err)
		}
		if chain.Len() > interaction.MaxReceipts {
			return nil, refusal.New("session_full", "the chain is too long: it may have at most %d receipts",
				interaction.MaxReceipts)
		}
		c := o.Claims()
		receipts = append(receipts,
			store.Receipt{Number: c.Chain.SequenceNumber, Hash: o.Hash(), Request: c.RequestID, Token: token})
	}
	return receipts, nil
}

// chain starts verifying at receipt next, after the last kept one.
func (s *Service) chain(ctx context.Context, owner *Owner, id, session string, next int64) (*interaction.Chain, error) {
	expected := interaction.Expected{Owner: id, Session: session}
	if next == 1 {
		return interaction.NewChain(s.past(owner), expected), nil
	}
	last, err := s.o.Store.Receipts(ctx, id, session, next-1, 1)
	if err != nil {
		return nil, err
	}
	if len(last) != 1 {
		return nil, store.ErrMoved // pruned meanwhile
	}
	chain := interaction.NewTail(s.past(owner), expected)
	_, err = chain.Add(last[0].Token)
	return chain, err
}
