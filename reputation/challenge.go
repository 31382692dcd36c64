package reputation

import (
	"cmp"
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
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/probes"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/strategy"
)

const (
	// MaxChallenges bounds the challenges of one session.
	MaxChallenges = 32
	// ProbePairs is the number of probe pairs of a challenge.
	ProbePairs = 5
	// ChallengeLifetime is the time to commit to a challenge. Revealing is possible until the session closes.
	ChallengeLifetime = 10 * time.Minute
)

// Issued is a challenge as the agent gets it. Times are Unix seconds.
type Issued struct {
	Nonce     string `json:"challenge_nonce"` // 32 random bytes, hex
	IssuedAt  int64  `json:"issued_at"`
	ExpiresAt int64  `json:"expires_at"` // the end of the time to commit
	// Probes may be empty. Some ask the same; the agent is not told which.
	Probes []probes.Probe `json:"probes"`
}

// Commitment is the state of a commitment. Times are Unix seconds.
type Commitment struct {
	Nonce       string `json:"challenge_nonce"`
	Hash        string `json:"commitment_hash"`
	CommittedAt int64  `json:"committed_at"`
	Revealed    bool   `json:"commitment_revealed"`
	RevealedAt  int64  `json:"revealed_at,omitempty"`
}

// Issue gives the caller's session a challenge, durably, or again the open one: an answer can get lost.
func (s *Service) Issue(ctx context.Context, by Caller) (answer Issued, err error) {
	if err := s.open(ctx, by); err != nil {
		return Issued{}, err
	}
	err = again(errContended, func() error {
		now := s.o.Now()
		had, err := s.o.Store.Challenges(ctx, by.Owner, by.Session)
		if err != nil {
			return err
		}
		if n := len(had); n > 0 && had[n-1].Open(now) {
			if last := had[n-1]; last.Commitment == "" && last.Agent == by.Agent {
				answer = issued(last)
				return nil
			}
			return refusal.New("commitment_refused", "the session's last challenge has a commitment that was not revealed yet")
		}
		if len(had) >= MaxChallenges {
			return refusal.New("session_full", "the session has had %d challenges, which is the limit", len(had))
		}
		c := s.newChallenge(by, int64(len(had))+1, now)
		if err := s.o.Store.Issue(ctx, c, s.o.Limits.Challenges); errors.Is(err, store.ErrFull) {
			return refusal.New("owner_full", "the owner has %d challenges at the node, which is the limit",
				s.o.Limits.Challenges)
		} else if err != nil {
			return err
		}
		failpoint.Reach("challenge issued")
		answer = issued(c)
		return nil
	})
	return answer, err
}

func (s *Service) newChallenge(by Caller, number int64, now time.Time) store.Challenge {
	var nonce, seed [32]byte
	_, _ = crand.Read(nonce[:]) // never fails; it ends the process instead
	_, _ = crand.Read(seed[:])
	random := rand.New(rand.NewChaCha8(seed)) //nolint:gosec // a secret seed
	asked, pairs := probes.Draw(ProbePairs, random, evidence.NewID)
	return store.Challenge{
		Challenge: autonomy.Challenge{Nonce: hex.EncodeToString(nonce[:]), Issued: now.UnixMilli(), Probes: pairs},
		Owner:     by.Owner, Session: by.Session, Agent: by.Agent, Number: number,
		Expires: now.Add(ChallengeLifetime).UnixMilli(), Asked: asked,
	}
}

func issued(c store.Challenge) Issued {
	return Issued{Nonce: c.Nonce, IssuedAt: c.Issued / 1000, ExpiresAt: c.Expires / 1000,
		Probes: append([]probes.Probe{}, c.Asked...)}
}

var errContended = refusal.New("overloaded", "too many requests change the challenge at once")

// Commit stores the agent's commitment durably and for good. Repeating the same hash is allowed.
func (s *Service) Commit(ctx context.Context, by Caller, nonce, hash string) (Commitment, error) {
	if !evidence.IsHash(hash) {
		return Commitment{}, refusal.New("query_malformed", "commitment_hash is not a lowercase hex SHA-256")
	}
	return s.change(ctx, by, nonce, "committed", func(c *store.Challenge, now int64) (done bool, err error) {
		switch {
		case c.Commitment == hash:
			return true, nil
		case c.Commitment != "":
			return false, refusal.New("commitment_refused", "the challenge already has a commitment to another hash")
		case now >= c.Expires:
			return false, refusal.New("commitment_refused", "the time to commit ended at %s",
				time.UnixMilli(c.Expires).UTC().Format(time.RFC3339))
		}
		c.Commitment, c.Committed = hash, now
		return false, nil
	})
}

// Reveal stores the strategy if it matches the commitment. Repeating it is allowed.
func (s *Service) Reveal(ctx context.Context, by Caller, nonce, salt string, raw json.RawMessage) (Commitment, error) {
	committed, err := strategy.Parse(raw)
	if err != nil {
		return Commitment{}, err
	}
	return s.change(ctx, by, nonce, "revealed", func(c *store.Challenge, now int64) (done bool, err error) {
		if c.Commitment == "" {
			return false, refusal.New("commitment_refused", "the challenge has no commitment")
		}
		hash, err := strategy.Commitment(nonce, salt, committed)
		if err != nil {
			return false, err
		}
		if hash != c.Commitment {
			return false,
				refusal.New("commitment_refused", "the revealed strategy has the hash %s, not the committed one", hash)
		}
		done = c.Revealed > 0
		c.Revealed, c.Salt, c.Strategy = cmp.Or(c.Revealed, now), salt, &committed
		return done, nil
	})
}

// change lets do change a challenge of the caller's session. It stores nothing if that was done before.
func (s *Service) change(ctx context.Context, by Caller, nonce, step string,
	do func(c *store.Challenge, now int64) (done bool, err error)) (Commitment, error) {
	var c store.Challenge
	err := again(errContended, func() (err error) {
		if c, err = s.challenge(ctx, by, nonce); err != nil {
			return err
		}
		done, err := do(&c, s.o.Now().UnixMilli())
		if err != nil || done {
			return err
		}
		if err = s.open(ctx, by); err == nil {
			err = s.o.Store.Change(ctx, c)
		}
		if err == nil {
			failpoint.Reach(step)
		}
		return err
	})
	if err != nil {
		return Commitment{}, err
	}
	return Commitment{Nonce: c.Nonce, Hash: c.Commitment, CommittedAt: c.Committed / 1000, Revealed: c.Revealed > 0,
		RevealedAt: c.Revealed / 1000}, nil
}

func (s *Service) challenge(ctx context.Context, by Caller, nonce string) (store.Challenge, error) {
	c, err := s.o.Store.Challenge(ctx, nonce)
	if errors.Is(err, store.ErrNotFound) || err == nil &&
		(c.Owner != by.Owner || c.Session != by.Session || c.Agent != by.Agent) {
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
