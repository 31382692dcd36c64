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

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
)

// Reputed is the current reputation of an agent: the claims and the token that carries them.
type Reputed struct {
	Reputation json.RawMessage // an object
	Token      string
}

// MarshalJSON writes the claims with the token as one more member, as in seed 003's AgentReputation.
func (r Reputed) MarshalJSON() ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Reputation, &members); err != nil {
		return nil, err
	}
	token, err := json.Marshal(r.Token)
	if err != nil {
		return nil, err
	}
	members["token"] = token
	return json.Marshal(members)
}

const (
	// maxAccounts bounds the memory of agents' logs, in bytes; the others are read when needed.
	maxAccounts = 64 << 20
	// An agent's log needs about emptyAccount bytes, and heapOf times those of its entries.
	emptyAccount, heapOf = 4 << 10, 3
	enterChunk           = 64
)

// account is the log of an agent.
type account struct {
	agent accrual.Agent
	log   *accrual.Account // nil if it must be read from the start
	texts int              // bytes of its entries
	last  reusable
}

// goOn returns the entry as stored, or nil if it says nothing new.
func (a *account) goOn(e accrual.Entry) (*store.Entry, error) {
	text, err := e.Encode()
	if err != nil {
		return nil, err
	}
	if added, err := a.log.Add(e); err != nil || !added {
		return nil, err
	}
	a.texts += len(text)
	log := a.log.Log()
	return &store.Entry{Agent: a.agent.String(), Number: log.Entries, Head: log.Head, Text: string(text)}, nil
}

// account returns the complete log of an agent, locked until release is called.
func (s *Service) account(ctx context.Context, agent accrual.Agent) (a *account, release func(), err error) {
	a, release, ok := s.accounts.Take(ctx, agent)
	if !ok {
		return nil, nil, ctx.Err()
	}
	a.agent = agent
	err = s.replay(ctx, a)
	if s.accounts.Weigh(agent, a, emptyAccount+heapOf*a.texts); err != nil {
		a.log = nil
		release()
		return nil, nil, fmt.Errorf("the log of the agent %s: %w", agent, err)
	}
	return a, release, nil
}

func (s *Service) replay(ctx context.Context, a *account) (err error) {
	if a.log == nil {
		if a.log, err = accrual.NewAccount(a.agent, autonomy.ScoringHash); err != nil {
			return err
		}
		a.texts = 0
	}
	for more := true; more; {
		entries, err := s.o.Store.Entries(ctx, a.agent.String(), a.log.Log().Entries+1)
		if err != nil {
			return err
		}
		for _, one := range entries {
			e, err := accrual.ParseEntry([]byte(one.Text))
			if err != nil {
				return fmt.Errorf("entry %d: %w", one.Number, err)
			}
			if _, err := a.log.Add(e); err != nil {
				return fmt.Errorf("entry %d: %w", one.Number, err)
			}
			// Finds gaps and changed entries, not a log that was written anew.
			if got := a.log.Log(); got != (accrual.Log{Entries: one.Number, Head: one.Head}) {
				return fmt.Errorf("entry %d is missing, was changed, or repeats another: the log has been altered", one.Number)
			}
			a.texts += len(one.Text)
		}
		more = len(entries) == store.MaxEntries
	}
	return nil
}

// Reputation returns an agent's reputation; an unknown agent has that of an empty log, so that it can begin.
func (s *Service) Reputation(ctx context.Context, agentID string) (Reputed, error) {
	answer, err := s.reputation(ctx, agentID)
	s.metrics.noReputation(err)
	return answer, err
}

func (s *Service) reputation(ctx context.Context, agentID string) (Reputed, error) {
	agent, err := accrual.ParseAgent(agentID)
	if err != nil {
		return Reputed{}, refusal.New("query_malformed", "%v", err)
	}
	if agent.Owner != "" { // an agent with a key of its own has no owner
		if _, err := s.believed.Load().owner(agent.Owner); err != nil {
			return Reputed{}, err
		}
	}
	a, release, err := s.account(ctx, agent)
	if errors.Is(err, store.ErrNotFound) {
		return Reputed{}, refusal.New("query_malformed", "no agent can have the id %.300q", agentID)
	}
	if err != nil {
		return Reputed{}, err
	}
	defer release()
	now := s.o.Now()
	verified, err := s.verified(ctx, agent, now)
	if err != nil {
		return Reputed{}, err
	}
	anew, err := sign(ctx, &a.last, s.o.Reputation, []any{a.log.Log(), verified}, now, func() accrual.Claims {
		c := accrual.ClaimsOf(a.log.Reputation(), verified)
		c.Rating = a.log.Rating(now.Unix()).Rated()
		return c
	})
	if err != nil {
		return Reputed{}, err
	}
	s.metrics.reputations.WithLabelValues(map[bool]string{true: "signed", false: "same"}[anew]).Inc()
	return Reputed{a.last.claims, a.last.token}, nil
}

// verified returns the last verification that an agent passed, unless it has expired.
func (s *Service) verified(ctx context.Context, agent accrual.Agent, now time.Time) (*accrual.Verified, error) {
	if s.o.Verified == nil {
		return nil, nil
	}
	v, err := s.o.Verified(ctx, agent)
	if err != nil || v == nil || now.Unix() >= v.Expires {
		return nil, err
	}
	return v, nil
}

// ListChunk bounds the length of the lists that the service returns.
const ListChunk = 100

// Agents returns the unsigned reputations of the agents whose ids follow after, in order, at most [ListChunk].
func (s *Service) Agents(ctx context.Context, after string) ([]accrual.Reputation, error) {
	ids, err := s.o.Store.Agents(ctx, after, ListChunk)
	if errors.Is(err, store.ErrNotFound) {
		return nil, refusal.New("query_malformed", "no agent can have the id %.300q", after)
	}
	if err != nil {
		return nil, err
	}
	all := make([]accrual.Reputation, 0, len(ids))
	for _, id := range ids {
		agent, err := accrual.ParseAgent(id)
		if err != nil {
			return nil, err
		}
		a, release, err := s.account(ctx, agent)
		if err != nil {
			return nil, err
		}
		all = append(all, a.log.Reputation())
		release()
	}
	return all, nil
}

// Enter enters closed sessions in their agents' logs, and again after late receipts. Owners do not delay each other.
func (s *Service) Enter(ctx context.Context) error {
	var failed []error
	for _, owner := range slices.Sorted(maps.Keys(s.believed.Load().owners)) {
		if err := s.enterOf(ctx, owner); err != nil {
			failed = append(failed, fmt.Errorf("the owner %s: %w", owner, err))
		}
	}
	if len(failed) == 0 {
		s.metrics.upToDate.Set(float64(s.o.Now().Unix()))
	}
	return errors.Join(failed...)
}

// enterOf goes on while it makes progress. Being overtaken by a replica is no error.
func (s *Service) enterOf(ctx context.Context, owner string) error {
	for on := true; on; {
		due, err := s.o.Store.Unentered(ctx, owner, enterChunk)
		if err != nil {
			return err
		}
		on = false
		for _, one := range due {
			err := s.enter(ctx, one)
			if err != nil && !errors.Is(err, store.ErrMoved) {
				return fmt.Errorf("the session %.80q: %w", one.Session, err)
			}
			on = on || err == nil
		}
	}
	return nil
}

// enter skips a session for good if its receipts are no longer trusted.
func (s *Service) enter(ctx context.Context, one store.Session) error {
	scored, sample, err := s.scored(ctx, one)
	if err == nil {
		return s.enterScored(ctx, one, scored, sample)
	}
	var refused *refusal.Refusal
	if !errors.As(err, &refused) || refused.Code() == errBusy.Code() || refused.Code() == "owner_unknown" {
		return err
	}
	return s.passOver(ctx, one, nil, err)
}

// scored returns the log's score of a closed session, and its sample or nil, or [store.ErrMoved] if the session has changed.
func (s *Service) scored(ctx context.Context, one store.Session) (*accrual.Session, *autonomy.Sample, error) {
	r, release, err := s.read(ctx, one)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if r.measured.Len()+1 != one.Next || !r.measured.Closed() {
		return nil, nil, store.ErrMoved
	}
	challenges, baseline, hash, err := s.beside(ctx, r.key)
	if err != nil {
		return nil, nil, err
	}
	var sample *autonomy.Sample
	if taken := r.measured.Sample(); len(taken.Models) > 0 {
		sample = &taken
	}
	c := autonomy.NewClaims(r.measured, hash, autonomy.Appraise(r.measured, challenges, baseline))
	return &accrual.Session{
		ID: one.Session, EventID: r.measured.Event(), Score: accrual.Round(c.Composite),
		Coverage:    accrual.Round(c.Coverage.Share),
		ScoringHash: c.ScoringHash, Interactions: c.N, Hosts: c.ModelHosts,
	}, sample, nil
}

// enterScored enters a session unless the log has the same already.
func (s *Service) enterScored(ctx context.Context, one store.Session, scored *accrual.Session, sample *autonomy.Sample) error {
	a, release, err := s.account(ctx, accrual.Agent{Owner: one.Owner, Subject: one.Agent})
	if err != nil {
		return err
	}
	defer release()
	entry, err := a.goOn(accrual.Entry{At: s.o.Now().Unix(), Session: scored})
	switch {
	case err != nil:
		return s.passOver(ctx, one, sample, err)
	case entry == nil:
		return s.o.Store.Enter(ctx, one, sample, nil)
	}
	failpoint.Reach("session scored")
	if err := s.o.Store.Enter(ctx, one, sample, entry); err != nil {
		a.log = nil // its last entry may not have been stored
		return err
	}
	failpoint.Reach("session entered")
	return nil
}

// passOver marks a session as handled although no log takes it.
func (s *Service) passOver(ctx context.Context, one store.Session, sample *autonomy.Sample, because error) error {
	s.o.Log.Warn("a closed session was not entered in the log of its agent",
		zap.String("owner", one.Owner), zap.String("session", one.Session), zap.Error(because))
	return s.o.Store.Enter(ctx, one, sample, nil)
}
