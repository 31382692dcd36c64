package reputation

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/strategy"
)

const (
	// MaxChallenges bounds the challenges of one session.
	MaxChallenges = 32
	// ChallengeLifetime is how long a challenge can be committed to. What is committed to can be revealed until the session closes.
	ChallengeLifetime = 10 * time.Minute
)

// Issued is a challenge as the agent gets it. Times are in Unix seconds.
type Issued struct {
	Nonce     string  `json:"challenge_nonce"` // 32 random bytes, hex
	IssuedAt  int64   `json:"issued_at"`
	ExpiresAt int64   `json:"expires_at"` // until when it can be committed to
	Probes    []Probe `json:"probes"`     // maybe none
}

// Probe is a question that the agent can have put to its model, through its sidecar. Some of them ask the same: which do is not told.
type Probe struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// Commitment is what the node keeps of what an agent has committed to. Times are in Unix seconds.
type Commitment struct {
	Nonce       string `json:"challenge_nonce"`
	Hash        string `json:"commitment_hash"`
	CommittedAt int64  `json:"committed_at"`
	Revealed    bool   `json:"commitment_revealed"`
	RevealedAt  int64  `json:"revealed_at,omitempty"`
}

// Issue gives the session of a caller a challenge. It is durable when it returns. A challenge that can still be committed to is given again,
// so a request whose answer was lost can be made again.
func (s *Service) Issue(ctx context.Context, by Caller) (Issued, error) {
	if err := s.open(ctx, by); err != nil {
		return Issued{}, err
	}
	for range tries {
		now := s.o.Now()
		had, err := s.o.Store.Challenges(ctx, by.Owner, by.Session)
		if err != nil {
			return Issued{}, err
		}
		if n := len(had); n > 0 && had[n-1].Open(now) {
			if last := had[n-1]; last.Commitment == "" && last.Agent == by.Agent {
				return issued(last), nil
			}
			return Issued{}, refusal.New("commitment_refused", "the last challenge of the session is committed to, and not revealed")
		}
		if len(had) >= MaxChallenges {
			return Issued{}, refusal.New("session_full", "the session has had %d challenges", len(had))
		}
		c := s.newChallenge(by, int64(len(had))+1, now)
		err = s.o.Store.Issue(ctx, c, s.o.Limits.Challenges)
		switch {
		case errors.Is(err, store.ErrMoved):
			continue // another replica was faster
		case errors.Is(err, store.ErrFull):
			return Issued{}, refusal.New("owner_full", "the owner has %d challenges at the node", s.o.Limits.Challenges)
		case err != nil:
			return Issued{}, err
		}
		s.metrics.challenges.WithLabelValues("issued").Inc()
		failpoint.Reach("challenge issued")
		return issued(c), nil
	}
	return Issued{}, errContended
}

// newChallenge makes a challenge of a random nonce.
func (s *Service) newChallenge(by Caller, number int64, now time.Time) store.Challenge {
	var nonce, seed [32]byte
	_, _ = crand.Read(nonce[:]) // crypto/rand.Read never fails; it ends the process instead
	_, _ = crand.Read(seed[:])
	return store.Challenge{
		Nonce: hex.EncodeToString(nonce[:]), Owner: by.Owner, Session: by.Session, Agent: by.Agent, Number: number,
		Issued: now, Expires: now.Add(ChallengeLifetime),
		Probes: s.bank.draw(s.o.ProbePairs, rand.New(rand.NewChaCha8(seed)), evidence.NewID), //nolint:gosec // the seed is a secret of 256 bits
	}
}

func issued(c store.Challenge) Issued {
	answer := Issued{Nonce: c.Nonce, IssuedAt: c.Issued.Unix(), ExpiresAt: c.Expires.Unix(), Probes: []Probe{}}
	for _, p := range c.Probes {
		answer.Probes = append(answer.Probes, Probe{p.ID, p.Prompt})
	}
	return answer
}

var errContended = refusal.New("overloaded", "the challenge is changed by other requests at the same time")

// Commit keeps the hash that the agent commits to. It is durable when it returns, and cannot be changed. The same hash again is fine.
func (s *Service) Commit(ctx context.Context, by Caller, nonce, hash string) (Commitment, error) {
	if !evidence.IsHash(hash) {
		return Commitment{}, refusal.New("query_malformed", "commitment_hash is not a lowercase hex SHA-256")
	}
	for range tries {
		c, err := s.challenge(ctx, by, nonce)
		if err != nil {
			return Commitment{}, err
		}
		switch {
		case c.Commitment == hash:
			return commitment(c), nil
		case c.Commitment != "":
			return Commitment{}, refusal.New("commitment_refused", "the challenge is committed to another hash")
		case !s.o.Now().Before(c.Expires):
			return Commitment{}, refusal.New("commitment_refused", "the challenge could be committed to until %s", c.Expires.Format(time.RFC3339))
		}
		if err := s.open(ctx, by); err != nil {
			return Commitment{}, err
		}
		if err := s.changed("committed", s.o.Store.Commit(ctx, nonce, hash, s.o.Now())); err != nil {
			return Commitment{}, err
		}
	}
	return Commitment{}, errContended
}

// Reveal keeps the strategy that the agent had committed to, if its hash is the one that was committed to. The same again is fine.
func (s *Service) Reveal(ctx context.Context, by Caller, nonce, salt string, raw json.RawMessage) (Commitment, error) {
	committed, err := strategy.Parse(raw)
	if err != nil {
		return Commitment{}, err
	}
	for range tries {
		c, err := s.challenge(ctx, by, nonce)
		if err != nil {
			return Commitment{}, err
		}
		if c.Commitment == "" {
			return Commitment{}, refusal.New("commitment_refused", "nothing was committed to for this challenge")
		}
		hash, err := strategy.Commitment(nonce, salt, committed)
		if err != nil {
			return Commitment{}, err
		}
		if hash != c.Commitment {
			return Commitment{}, refusal.New("commitment_refused", "what is revealed has the hash %s", hash)
		}
		if !c.Revealed.IsZero() {
			return commitment(c), nil
		}
		if err := s.open(ctx, by); err != nil {
			return Commitment{}, err
		}
		if err := s.changed("revealed", s.o.Store.Reveal(ctx, nonce, salt, string(raw), s.o.Now())); err != nil {
			return Commitment{}, err
		}
	}
	return Commitment{}, errContended
}

// changed notes that a challenge was changed. That somebody else has changed it before is no error: the next look tells how.
func (s *Service) changed(step string, err error) error {
	if errors.Is(err, store.ErrMoved) {
		return nil
	}
	if err == nil {
		s.metrics.challenges.WithLabelValues(step).Inc()
		failpoint.Reach(step)
	}
	return err
}

func commitment(c store.Challenge) Commitment {
	answer := Commitment{Nonce: c.Nonce, Hash: c.Commitment, CommittedAt: c.Committed.Unix()}
	if !c.Revealed.IsZero() {
		answer.Revealed, answer.RevealedAt = true, c.Revealed.Unix()
	}
	return answer
}

// challenge returns a challenge of the caller's session.
func (s *Service) challenge(ctx context.Context, by Caller, nonce string) (store.Challenge, error) {
	c, err := s.o.Store.Challenge(ctx, nonce)
	if errors.Is(err, store.ErrNotFound) || err == nil && (c.Owner != by.Owner || c.Session != by.Session || c.Agent != by.Agent) {
		return c, refusal.New("not_found", "no challenge of this session has the nonce %.64q", nonce)
	}
	return c, err
}

// open refuses a session whose chain is closed or forked.
func (s *Service) open(ctx context.Context, by Caller) error {
	state, err := s.o.Store.Session(ctx, by.Owner, by.Session)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // it has delivered no receipt yet
	case err != nil:
		return err
	case state.Closed:
		return refusal.New("session_full", "receipt %d has closed the session", state.Next-1)
	case state.Forked:
		return forked(by.Session)
	}
	return nil
}
