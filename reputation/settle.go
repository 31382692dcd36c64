package reputation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

const (
	settleEvery = 5 * time.Second
	// triedEvery is how long a dispute waits until it is judged again, where receipts have been missing.
	triedEvery = time.Minute
)

// settleAlways settles until ctx ends.
func (s *Service) settleAlways(ctx context.Context) {
	if s.o.Disputes == nil {
		return
	}
	for range every.Tick(ctx, settleEvery) {
		if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("not all disputes were settled", zap.Error(err))
		}
	}
}

// Settle closes the windows that have ended, and resolves the disputes that can be resolved. What one lacks holds up no other. Trials can take
// long: before each one, everything that needs none is done, and whatever has come meanwhile has its turn.
func (s *Service) Settle(ctx context.Context) error {
	if s.o.Disputes == nil {
		return nil
	}
	var failed []error
	done := make(map[string]bool)
	once := func(what, id string, settle func(context.Context, string) error) bool {
		name := what + " " + id
		if done[name] {
			return false
		}
		done[name] = true
		if err := settle(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("the %s: %w", name, err))
		}
		return true
	}
	for {
		expired, closing, trials, err := s.settleable(ctx)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, id := range expired {
			once("dispute", id, s.expire)
		}
		for _, id := range closing {
			once("signal", id, s.finalise)
		}
		if !slices.ContainsFunc(trials, func(id string) bool { return once("dispute", id, s.try) }) {
			return errors.Join(failed...)
		}
	}
}

// settleable returns the general disputes whose time is over, the signals whose window is, and the disputes that are to be judged now.
func (s *Service) settleable(ctx context.Context) (expired, closing, trials []string, err error) {
	book, release, err := s.openBook(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	defer release()
	unresolved, now, k := book.Unresolved(), s.o.Now(), s.docket
	for _, id := range unresolved {
		switch d, due := k.due(id, now); {
		case due && d.Type == dispute.TypeGeneral:
			expired = append(expired, id)
		case due:
			trials = append(trials, id)
		}
	}
	maps.DeleteFunc(k.tried, func(id string, _ time.Time) bool { return !slices.Contains(unresolved, id) }) // whichever replica has ended them
	// Those that were tried least recently come first: who can choose the ids of its disputes must not be before all others for ever.
	slices.SortStableFunc(trials, func(a, b string) int { return k.tried[a].Compare(k.tried[b]) })
	return expired, book.Closing(now), trials, nil
}

// due returns an unresolved dispute, and whether it is to be judged now. One that was tried waits also where its time is over: a trial that
// fails would be held again at once, and hold up all others.
func (k *docket) due(id string, now time.Time) (d dispute.State, is bool) {
	d, _ = k.book.Dispute(id)
	if d.Type == dispute.TypeGeneral {
		return d, k.book.Late(id, now)
	}
	return d, now.Sub(k.tried[id]).Abs() >= triedEvery // also after the clock was set back
}

// finalise closes the window of a signal, unless another replica has.
func (s *Service) finalise(ctx context.Context, id string) error {
	return s.step(ctx, func(book *dispute.Book) error {
		if signal, _ := book.Signal(id); signal.Final {
			return nil
		}
		e, err := book.Finalise(id, s.o.Now())
		if err != nil {
			return err
		}
		return s.proceed(ctx, book, e, store.Step{Closed: id})
	})
}

// expire ends a general dispute whose time is over.
func (s *Service) expire(ctx context.Context, id string) error {
	return s.step(ctx, func(book *dispute.Book) error {
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return book.Expire(id, s.o.Now()) })
	})
}

// try judges a dispute, and ends it if nothing is missing, or if its time is over.
func (s *Service) try(ctx context.Context, id string) error {
	var d dispute.State
	var trial *dispute.Trial
	// It is noted before the trial, so that one that fails is not held again at once.
	err := s.step(ctx, func(book *dispute.Book) error {
		d, _ = book.Dispute(id)
		trial = dispute.NewTrial(d.Opened, book.Judged(id))
		s.docket.tried[id] = s.o.Now()
		return nil
	})
	if err != nil {
		return err
	}
	trying, cancel := context.WithTimeout(ctx, s.o.Disputes.TrialTime)
	defer cancel()
	err = s.show(trying, d, trial)
	if err != nil && trying.Err() != nil && ctx.Err() == nil {
		return s.tooLong(ctx, id, err)
	}
	if err != nil {
		return err
	}
	failpoint.Reach("trial held")
	return s.step(ctx, func(book *dispute.Book) error {
		now := s.o.Now()
		finding, ended := trial.Judge(book.Late(id, now))
		if ended {
			return s.end(ctx, book, id, func() (dispute.Entry, error) { return book.End(id, finding, now) })
		}
		if state, _ := book.Dispute(id); state.Status != dispute.StatusPending {
			return nil
		}
		e, err := book.Review(id, now)
		if err != nil {
			return err
		}
		return s.proceed(ctx, book, e, store.Step{Reviewing: id})
	})
}

// tooLong ends a dispute whose trial takes too long, once its time is over: otherwise it would never end.
func (s *Service) tooLong(ctx context.Context, id string, because error) error {
	return s.step(ctx, func(book *dispute.Book) error {
		now := s.o.Now()
		if !book.Late(id, now) {
			return because
		}
		finding := dispute.Finding{Outcome: accrual.Inconclusive, Reason: dispute.ReasonTooLong}
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return book.End(id, finding, now) })
	})
}

// end resolves a dispute by an entry, unless it is resolved. Its resolution is signed before, so that none is without one.
func (s *Service) end(ctx context.Context, book *dispute.Book, id string, by func() (dispute.Entry, error)) error {
	state, ok := book.Dispute(id)
	if !ok || state.Status == dispute.StatusResolved {
		return nil
	}
	e, err := by()
	if err != nil {
		return err
	}
	next, err := book.Next(e)
	if err != nil {
		return err
	}
	state.Status, state.Resolved, state.ResolvedAt, state.Log = dispute.StatusResolved, *e.Resolved, e.At, next.Log
	claims, _ := dispute.ResolutionOf(state)
	token, _, err := s.o.Disputes.Resolution.Sign(ctx, claims)
	if err != nil {
		return err
	}
	return s.advance(ctx, book, next, store.Step{Resolved: &store.Resolved{ID: id, Token: token}})
}

// show shows a trial everything that the node has of the sessions that a dispute is about.
func (s *Service) show(ctx context.Context, d dispute.State, trial *dispute.Trial) error {
	target, err := accrual.ParseAgent(d.Target)
	if err != nil {
		return err
	}
	records := make(map[string]*dispute.Record)
	begin := func(session string) (*dispute.Record, error) {
		r := records[session]
		if r != nil {
			return r, nil
		}
		challenges, err := s.challenges(ctx, sessionKey{target.Owner, session})
		if err == nil {
			r = trial.Session(challenges)
			records[session] = r
			err = s.showSession(ctx, sessionKey{target.Owner, session}, r)
		}
		return r, err
	}
	held, err := s.held(ctx, d.Receipts)
	if err != nil {
		return err
	}
	for _, r := range held {
		if _, err := begin(r.Chain.SessionID); err != nil {
			return err
		}
	}
	tokens, err := s.broughtIn(ctx, d.DisputeID)
	if err != nil {
		return err
	}
	var others []evidence.Opened[interaction.Receipt]
	for _, token := range tokens {
		c, err := evidence.UnverifiedClaims(interaction.Kind, token)
		if err != nil || c.Owner != target.Owner || c.Agent != target.Subject {
			continue // it is none of the target's
		}
		o, err := s.openPast(token)
		if err != nil && problem.DetailsOf(err).Code == "signature_invalid" {
			trial.Forged(evidence.HashToken(token))
		}
		if err != nil {
			continue
		}
		others = append(others, o)
		if slices.Contains(d.Receipts, o.Hash()) {
			if _, err := begin(c.Chain.SessionID); err != nil {
				return err
			}
		}
	}
	for _, o := range others {
		c := o.Claims()
		// Only the sessions of the disputed receipts are judged: by those it was judged whether the dispute may be opened.
		if r := records[c.Chain.SessionID]; r != nil {
			r.Other(o.Hash(), &c)
		}
	}
	return nil
}

// broughtIn returns the receipts that a dispute has brought.
func (s *Service) broughtIn(ctx context.Context, id string) ([]string, error) {
	d, err := s.o.Store.Dispute(ctx, id)
	if err != nil {
		return nil, err
	}
	var c dispute.Challenge
	if err := json.Unmarshal([]byte(d.Document), &c); err != nil {
		return nil, err
	}
	return c.Brought(), nil
}

// showSession shows the receipts of a session, and the one that contradicts its chain. A receipt that is not believed any more ends them.
func (s *Service) showSession(ctx context.Context, key sessionKey, r *dispute.Record) error {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return errBusy
	}
	for next := int64(1); ; next += store.MaxReceipts {
		receipts, err := s.o.Store.Receipts(ctx, key.owner, key.session, next, store.MaxReceipts)
		if err != nil {
			return err
		}
		for _, one := range receipts {
			o, err := s.openPast(one.Token)
			if err != nil {
				s.strangers.Warn("a receipt in a dispute is not believed any more", zap.String("owner", key.owner), zap.String("session", key.session), zap.Error(err))
				return nil
			}
			c := o.Claims()
			r.Add(o.Hash(), &c)
		}
		if len(receipts) < store.MaxReceipts {
			break
		}
	}
	fork, err := s.o.Store.Forked(ctx, key.owner, key.session)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	if o, err := s.openPast(fork.Token); err == nil {
		c := o.Claims()
		r.Other(o.Hash(), &c)
	}
	return nil
}

// Arbitrate ends a general dispute by the token of the arbiter's decision. The same token again is fine.
func (s *Service) Arbitrate(ctx context.Context, id, token string) (Dispute, error) {
	if err := s.arbitrate(ctx, id, token); err != nil {
		return Dispute{}, s.refused(Spoken{}, err)
	}
	return s.Dispute(ctx, id)
}

func (s *Service) arbitrate(ctx context.Context, id, token string) error {
	switch {
	case s.o.Disputes == nil:
		return errOff
	case s.arbiter == nil:
		return refusal.New("dispute_no_arbiter", "the node has no arbiter")
	}
	root, hash := s.o.Disputes.Arbiter, evidence.HashToken(token)
	return s.step(ctx, func(book *dispute.Book) error {
		if state, _ := book.Dispute(id); state.Resolved.Decision == hash {
			return nil
		}
		decision, err := evidence.Open(s.arbiter, dispute.DecisionKind, token, evidence.Expected{
			Issuers: []string{root.KeyID}, Audiences: []string{s.o.Disputes.Audience}, KeyIDs: []string{root.KeyID}, MaxAge: dispute.DecisionLifetime,
		})
		if err != nil {
			return err
		}
		e, err := book.Arbitrate(id, decision, root.Public, s.o.Now())
		if err != nil {
			return err
		}
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return e, nil })
	})
}
