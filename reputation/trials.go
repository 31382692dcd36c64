package reputation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

const (
	// triedFirst is the pause before the next trial if evidence is missing. It doubles up to triedLast, and starts again
	// at the deadline.
	triedFirst = time.Minute
	triedLast  = 6 * time.Hour
	// failsFor is the time after the deadline in which failing trials are repeated.
	failsFor = 24 * time.Hour
)

// trials are in memory only: after a restart each dispute is judged once more.
type trials struct {
	last  map[string]attempt
	turns map[string]int64 // number of the last trial raised by an owner's agents
	count int64
}

type attempt struct {
	at   time.Time
	wait time.Duration
	late bool
}

func newTrials() *trials {
	return &trials{last: make(map[string]attempt), turns: make(map[string]int64)}
}

func (t *trials) note(d dispute.State, late bool, now time.Time) {
	last := t.last[d.DisputeID]
	wait := min(2*last.wait, triedLast)
	if wait == 0 || late && !last.late {
		wait = triedFirst
	}
	t.count++
	t.last[d.DisputeID], t.turns[dispute.OwnerOf(d.Challenger)] = attempt{now, wait, late}, t.count
}

// due returns the disputes to judge now. Owners take turns, so that many or large disputes delay only their own owner;
// of one owner the challengers with the highest standing come first.
func (t *trials) due(open []dispute.State, late func(id string) bool, now time.Time) (ids []string) {
	unresolved, owners := make(map[string]bool), make(map[string]bool)
	due := slices.DeleteFunc(slices.Clone(open), func(d dispute.State) bool {
		unresolved[d.DisputeID], owners[dispute.OwnerOf(d.Challenger)] = true, true
		last := t.last[d.DisputeID]
		early := now.Sub(last.at).Abs() < last.wait // the clock may have been set back
		return early && (last.late || !late(d.DisputeID))
	})
	maps.DeleteFunc(t.last, func(id string, _ attempt) bool { return !unresolved[id] }) // a replica may have resolved them
	maps.DeleteFunc(t.turns, func(id string, _ int64) bool { return !owners[id] })
	slices.SortStableFunc(due, func(a, b dispute.State) int {
		return cmp.Or(cmp.Compare(t.turns[dispute.OwnerOf(a.Challenger)], t.turns[dispute.OwnerOf(b.Challenger)]),
			cmp.Compare(b.Standing, a.Standing), t.last[a.DisputeID].at.Compare(t.last[b.DisputeID].at))
	})
	for _, d := range due {
		ids = append(ids, d.DisputeID)
	}
	return ids
}

// try resolves a dispute if the evidence is complete or the deadline has passed.
func (s *Service) try(ctx context.Context, id string) error {
	var d dispute.State
	var trial *dispute.Trial
	// The note comes first, so that a failing trial is not repeated at once.
	err := s.step(ctx, func(book *dispute.Book, now time.Time) error {
		d, _ = book.Dispute(id)
		trial = dispute.NewTrial(d.Opened, book.Judged(id))
		s.docket.trials.note(d, book.Late(id, now), now)
		return nil
	})
	if err != nil {
		return err
	}
	trying, cancel := context.WithTimeout(ctx, s.o.Disputes.TrialTime)
	defer cancel()
	switch err := s.show(trying, d, trial); {
	case ctx.Err() != nil:
		return err
	case err != nil && trying.Err() != nil:
		return s.giveUp(ctx, id, dispute.ReasonTooLong, 0, err)
	case err != nil:
		return s.giveUp(ctx, id, dispute.ReasonFailed, failsFor, err)
	}
	failpoint.Reach("trial held")
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
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

func (s *Service) giveUp(ctx context.Context, id, reason string, after time.Duration, because error) error {
	return s.step(ctx, func(book *dispute.Book, now time.Time) error {
		if state, _ := book.Dispute(id); now.Before(time.Unix(state.Deadline, 0).Add(after)) {
			return because
		}
		s.o.Log.Error("a dispute ends without a judgement",
			zap.String("dispute", id), zap.String("reason", reason), zap.Error(because))
		finding := dispute.Finding{Outcome: accrual.Inconclusive, Reason: reason}
		return s.end(ctx, book, id, func() (dispute.Entry, error) { return book.End(id, finding, now) })
	})
}

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
			continue // not the target's
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
		// Only sessions of disputed receipts are judged: opening the dispute was allowed on their account.
		if r := records[c.Chain.SessionID]; r != nil {
			r.Other(o.Hash(), &c)
		}
	}
	return nil
}

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

// showSession shows a trial a session's chain and its fork. An untrusted receipt ends the chain.
func (s *Service) showSession(ctx context.Context, key sessionKey, r *dispute.Record) error {
	release, ok := s.reads.take(ctx)
	if !ok {
		return errBusy
	}
	defer release()
	for next := int64(1); ; next += store.MaxReceipts {
		receipts, err := s.o.Store.Receipts(ctx, key.owner, key.session, next, store.MaxReceipts)
		if err != nil {
			return err
		}
		for _, one := range receipts {
			o, err := s.openPast(one.Token)
			if err != nil {
				s.strangers.Warn("a receipt in a dispute is no longer trusted",
					zap.String("owner", key.owner), zap.String("session", key.session), zap.Error(err))
				return nil
			}
			c := o.Claims()
			if !r.Add(o.Hash(), &c) {
				return nil
			}
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
