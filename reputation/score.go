package reputation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/strategy"
)

// Scored is the score of a session: the claims and the token that carries them. Challenges are set once the session is
// closed. It has no text that the agent could have written for others to read: see [Service.Revealed].
type Scored struct {
	Score      json.RawMessage   `json:"score"`
	Token      string            `json:"token"`
	Challenges []autonomy.Judged `json:"challenges,omitempty"`
}

// appraised is an answer and what it was computed from.
type appraised struct {
	number     int64 // of the last receipt
	baseline   string
	challenges []autonomy.Challenge
	until      time.Time // after this it is signed again even if nothing changed
	answer     Scored
}

// maxAppraisal bounds how long a request waits for a session to be read. The next request continues.
const maxAppraisal = 10 * time.Second

// Score returns the score of the session with this receipt.
func (s *Service) Score(ctx context.Context, receiptHash string) (Scored, error) {
	r, err := s.o.Store.Receipt(ctx, receiptHash)
	if errors.Is(err, store.ErrNotFound) {
		return Scored{}, refusal.New("not_found", "the node has no receipt %.64q", receiptHash)
	}
	if err != nil {
		return Scored{}, err
	}
	return s.SessionScore(ctx, r.Owner, r.Session)
}

// SessionScore returns the score of a session. owner may be empty if the session's name is unique.
func (s *Service) SessionScore(ctx context.Context, owner, session string) (Scored, error) {
	state, err := s.find(ctx, owner, session)
	if err != nil {
		return Scored{}, err
	}
	r, release, err := s.read(ctx, state)
	if err != nil {
		return Scored{}, err
	}
	defer release()
	return s.appraise(ctx, r)
}

// Revealed returns the challenges of a closed session with what its agent revealed, for computing the score again. An
// open session returns nothing, since the record tells which probes ask the same. It is for operators alone: whatever
// an agent reveals would otherwise be a post without evidence.
func (s *Service) Revealed(ctx context.Context, owner, session string) ([]autonomy.Challenge, error) {
	state, err := s.find(ctx, owner, session)
	if err != nil || !state.Closed {
		return nil, err
	}
	return s.challenges(ctx, sessionKey{state.Owner, state.Session})
}

// find returns a session. owner may be empty if the session's name is unique.
func (s *Service) find(ctx context.Context, owner, session string) (state store.Session, err error) {
	if owner != "" {
		state, err = s.o.Store.Session(ctx, owner, session)
	} else {
		var all []store.Session
		if all, err = s.o.Store.Sessions(ctx, session, 2); err == nil && len(all) != 1 {
			err = store.ErrNotFound
		} else if err == nil {
			state = all[0]
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return state,
			refusal.New("not_found", "the node has no receipts of the session %.80q, or several owners have one", session)
	}
	return state, err
}

// read reads a complete session, locked until release is called. It refuses one with two chains.
func (s *Service) read(ctx context.Context, state store.Session) (r *reading, release func(), err error) {
	if state.Forked {
		return nil, nil, forked(state.Session)
	}
	bounded, cancel := context.WithTimeout(ctx, maxAppraisal)
	defer cancel()
	r, release, err = s.sessions.take(bounded, sessionKey{state.Owner, state.Session})
	if err != nil {
		return nil, nil, err
	}
	if err := s.catchUp(bounded, r); err != nil {
		release()
		return nil, nil, err
	}
	return r, release, nil
}

// appraise signs the score of a session, or returns the last answer if nothing changed.
func (s *Service) appraise(ctx context.Context, r *reading) (Scored, error) {
	challenges, baseline, hash, err := s.beside(ctx, r.key)
	if err != nil {
		return Scored{}, err
	}
	now := s.o.Now()
	if last := r.last; last != nil && last.number == r.measured.Len() && last.baseline == hash && now.Before(last.until) &&
		reflect.DeepEqual(last.challenges, challenges) {
		s.metrics.scores.WithLabelValues("same").Inc()
		return last.answer, nil
	}
	token, signed, err := s.o.Score.Sign(ctx,
		autonomy.NewClaims(r.measured, hash, autonomy.Appraise(r.measured, challenges, baseline)))
	if err != nil {
		return Scored{}, err
	}
	s.metrics.scores.WithLabelValues("signed").Inc()
	claims, err := payload(token)
	if err != nil {
		return Scored{}, err
	}
	answer := Scored{Score: claims, Token: token}
	if r.measured.Closed() {
		answer.Challenges = r.measured.Judge(challenges)
	}
	lifetime := time.Duration(signed.Expires-signed.IssuedAt) * time.Second
	r.last = &appraised{r.measured.Len(), hash, challenges, now.Add(lifetime / 2), answer}
	return r.last.answer, nil
}

// beside returns the inputs of a score besides the receipts: challenges, and the owner's baseline with its hash.
func (s *Service) beside(ctx context.Context, key sessionKey) (challenges []autonomy.Challenge,
	baseline *autonomy.Baseline, hash string, err error) {
	if challenges, err = s.challenges(ctx, key); err != nil {
		return nil, nil, "", err
	}
	baseline, hash, err = s.inForce(ctx, key.owner)
	return challenges, baseline, hash, err
}

// payload returns the claims of a token as signed.
func payload(token string) (json.RawMessage, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("reputation: the signer made no JWS")
	}
	return base64.RawURLEncoding.DecodeString(parts[1])
}

func (s *Service) challenges(ctx context.Context, key sessionKey) ([]autonomy.Challenge, error) {
	kept, err := s.o.Store.Challenges(ctx, key.owner, key.session)
	if err != nil {
		return nil, err
	}
	var all []autonomy.Challenge
	for _, c := range kept {
		one := autonomy.Challenge{Nonce: c.Nonce, Issued: c.Issued.UnixMilli(), Commitment: c.Commitment, Salt: c.Salt,
			Probes: pairs(c.Probes)}
		if !c.Committed.IsZero() {
			one.Committed = c.Committed.UnixMilli()
		}
		if c.Strategy != "" {
			revealed, err := strategy.Parse([]byte(c.Strategy))
			if err != nil {
				return nil, fmt.Errorf("the strategy of the challenge %s: %w", c.Nonce, err)
			}
			one.Strategy = &revealed
		}
		all = append(all, one)
	}
	return all, nil
}

func pairs(probes []store.Probe) [][2]string {
	first := make(map[int64]string)
	var all [][2]string
	for _, p := range probes {
		if other, ok := first[p.Pair]; ok {
			all = append(all, [2]string{other, p.ID})
			continue
		}
		first[p.Pair] = p.ID
	}
	return all
}
