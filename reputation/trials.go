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
	// triedFirst is the pause before another trial if evidence is missing. It doubles, anew after the deadline.
	triedFirst = time.Minute
	triedLast  = 6 * time.Hour
	// failsFor is the time after the deadline in which failing trials are repeated.
	failsFor = 24 * time.Hour
)

// trials are in memory only: after a restart each dispute is judged once more.
type trials struct {
	open  map[string]*attempt
	turns map[string]int64 // number of the last trial raised by an owner's agents
	count int64
}

// attempt is the last trial of an unresolved dispute, if there was one.
type attempt struct {
	owner    string // of the challenger
	standing int64
	at       time.Time
	wait     time.Duration
	late     bool
}

func (t *trials) note(id string, late bool, now time.Time) {
	a := t.open[id]
	wait := min(2*a.wait, triedLast)
	if wait == 0 || late && !a.late {
		wait = triedFirst
	}
	a.at, a.wait, a.late = now, wait, late
	t.count++
	t.turns[a.owner] = t.count
}

// due returns the disputes to judge now.
func (t *trials) due(open []dispute.Waiting, now time.Time) (ids []string) {
	unresolved, owners := make(map[string]bool), make(map[string]bool)
	for _, one := range open {
		a := t.open[one.ID]
		unresolved[one.ID], owners[a.owner] = true, true
		early := now.Sub(a.at).Abs() < a.wait // the clock may have been set back
		if !early || !a.late && now.Unix() >= one.Due {
			ids = append(ids, one.ID)
		}
	}
	// A replica may have resolved some.
	maps.DeleteFunc(t.open, func(id string, _ *attempt) bool { return !unresolved[id] })
	maps.DeleteFunc(t.turns, func(id string, _ int64) bool { return !owners[id] })
	return ids
}

// next returns the place of the dispute to judge next. Owners take turns, so that many or large disputes delay only
// their own owner; of one owner the challengers with the highest standing come first.
func (t *trials) next(ids []string) int {
	return slices.Index(ids, slices.MinFunc(ids, func(x, y string) int {
		a, b := t.open[x], t.open[y]
		return cmp.Or(cmp.Compare(t.turns[a.owner], t.turns[b.owner]), cmp.Compare(b.standing, a.standing),
			a.at.Compare(b.at))
	}))
}

func (s *Service) dueTrials(ctx context.Context) ([]string, error) {
	now, err := s.docket.clock.now(ctx)
	if err != nil {
		return nil, err
	}
	book, err := s.openBook(ctx)
	if err != nil {
		return nil, err
	}
	open := book.Untried(maxDue)
	for _, one := range open {
		if s.docket.trials.open[one.ID] == nil {
			d, _ := book.Dispute(one.ID)
			s.docket.trials.open[one.ID] = &attempt{owner: dispute.OwnerOf(d.Challenger), standing: d.Standing}
		}
	}
	return s.docket.trials.due(open, now), book.Err()
}

// try resolves a dispute if the evidence is complete or the deadline has passed.
func (s *Service) try(ctx context.Context, id string) error {
	now, err := s.docket.clock.now(ctx)
	if err != nil {
		return err
	}
	book, err := s.openBook(ctx)
	if err != nil {
		return err
	}
	d, _ := book.Dispute(id)
	trial := dispute.NewTrial(d.Opened, book.Judged(id))
	// Evidence can still come during a trial that begins in time: if it ends late, the next one begins at once.
	late := book.Late(id, now)
	// The note comes first, so that a failing trial is not repeated at once.
	s.docket.trials.note(id, late, now)
	if err := book.Err(); err != nil {
		return err
	}
	if d.Status == dispute.StatusResolved {
		return nil // by a replica
	}
	trying, cancel := context.WithTimeout(ctx, s.o.Disputes.TrialTime)
	defer cancel()
	switch err := s.show(trying, d, trial); {
	case ctx.Err() != nil:
		return err
	case err != nil && trying.Err() != nil:
		return s.giveUp(ctx, id, late, dispute.ReasonTooLong, 0, err)
	case err != nil:
		return s.giveUp(ctx, id, late, dispute.ReasonFailed, failsFor, err)
	}
	failpoint.Reach("trial held")
	return s.step(ctx, func(t *turn) error {
		state, _ := t.Dispute(id)
		finding, ended := trial.Judge(late && t.Late(id, t.now))
		switch {
		case state.Status == dispute.StatusResolved:
			return nil
		case ended:
			return t.end(ctx, t.End(id, finding, t.now))
		case state.Status != dispute.StatusPending:
			return nil
		}
		return t.Add(t.Review(id, t.now))
	})
}

func (s *Service) giveUp(ctx context.Context, id string, late bool, reason string, after time.Duration,
	because error) error {
	return s.step(ctx, func(t *turn) error {
		state, _ := t.Dispute(id)
		switch {
		case state.Status == dispute.StatusResolved:
			return nil
		case !late || t.now.Before(time.Unix(state.Deadline, 0).Add(after)):
			return because
		}
		s.o.Log.Error("a dispute ends without a judgement",
			zap.String("dispute", id), zap.String("reason", reason), zap.Error(because))
		return t.end(ctx, t.End(id, dispute.Finding{Outcome: accrual.Inconclusive, Reason: reason}, t.now))
	})
}

func (s *Service) show(ctx context.Context, d dispute.State, trial *dispute.Trial) error {
	target, err := accrual.ParseAgent(d.Target)
	if err != nil {
		return err
	}
	held, err := s.held(ctx, d.Receipts)
	if err != nil {
		return err
	}
	var sessions []string // of the disputed receipts: opening the dispute was allowed on their account
	for _, r := range held {
		sessions = append(sessions, r.Chain.SessionID)
	}
	text, err := s.document(ctx, filingDocument+d.DisputeID)
	if err != nil {
		return err
	}
	var filing dispute.Challenge // a contract brings nothing
	if err := json.Unmarshal(text, &filing); err != nil {
		return err
	}
	var others []evidence.Opened[interaction.Receipt]
	for _, token := range filing.Brought() {
		c, err := evidence.UnverifiedClaims(interaction.Kind, token)
		if err != nil || c.Owner != target.Owner || c.Agent != target.Subject {
			continue // not the target's
		}
		o, err := s.openPast(token)
		switch {
		case err == nil:
			others = append(others, o)
		case problem.DetailsOf(err).Code == "signature_invalid":
			trial.Forged(evidence.HashToken(token))
		}
		if err == nil && slices.Contains(d.Receipts, o.Hash()) {
			sessions = append(sessions, c.Chain.SessionID)
		}
	}
	records := make(map[string]*dispute.Record)
	for _, session := range sessions {
		if records[session] != nil {
			continue
		}
		key := sessionKey{target.Owner, session}
		challenges, err := s.challenges(ctx, key)
		if err != nil {
			return err
		}
		records[session] = trial.Session(challenges)
		if err := s.showSession(ctx, key, records[session]); err != nil {
			return err
		}
	}
	for _, o := range others {
		c := o.Claims()
		if r := records[c.Chain.SessionID]; r != nil {
			r.Other(o.Hash(), &c)
		}
	}
	return nil
}

// showSession shows a trial a session's chain and its fork. An untrusted receipt ends the chain.
func (s *Service) showSession(ctx context.Context, key sessionKey, r *dispute.Record) error {
	release, ok := s.reads.Take(ctx)
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
