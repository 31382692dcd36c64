package reputation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/signer"
)

// Scored is the score of a session. It has no text that the agent could have written: see [Service.Revealed].
type Scored struct {
	Score json.RawMessage `json:"score"`
	Token string          `json:"token"`
}

// reusable is the last signed answer and what it was computed from. The zero value has none.
type reusable struct {
	of     any
	until  time.Time // after this it is signed again even if nothing changed
	token  string
	claims json.RawMessage // as signed
}

// sign signs claims, and reports whether it did: until half of the last token's lifetime has passed, that one serves
// what was computed from the same.
func sign[C any](ctx context.Context, last *reusable, by *signer.Issuer[C], of any, now time.Time,
	claims func() C) (anew bool, err error) {
	if now.Before(last.until) && reflect.DeepEqual(last.of, of) &&
		evidence.IsAccepted(ctx, evidence.KeyIDOf(last.token)) {
		return false, nil
	}
	token, _, err := by.Sign(ctx, claims())
	if err != nil {
		return false, err
	}
	_, text, _ := strings.Cut(token, ".")
	text, _, _ = strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var times evidence.Registered
	if err := errors.Join(err, json.Unmarshal(raw, &times)); err != nil {
		return false, err
	}
	lifetime := time.Duration(times.Expires-times.IssuedAt) * time.Second
	*last = reusable{of, now.Add(lifetime / 2), token, raw}
	return true, nil
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

// Revealed returns the challenges of a closed session with what its agent revealed. An open session returns nothing,
// since the record tells which probes ask the same. It is for operators alone: what an agent reveals would otherwise be
// a post without evidence.
func (s *Service) Revealed(ctx context.Context, owner, session string) ([]autonomy.Challenge, error) {
	state, err := s.find(ctx, owner, session)
	if err != nil || !state.Closed {
		return nil, err
	}
	return s.challenges(ctx, sessionKey{state.Owner, state.Session})
}

func (s *Service) find(ctx context.Context, owner, session string) (state store.Session, err error) {
	all, err := s.o.Store.Sessions(ctx, owner, session, 2)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(all) != 1 {
		err = refusal.New("not_found",
			"the node has no receipts of the session %.80q, or several owners have a session with this id", session)
	}
	if err != nil {
		return state, err
	}
	return all[0], nil
}

// read reads a complete session, locked until release is called. It refuses one with two chains.
func (s *Service) read(ctx context.Context, state store.Session) (r *reading, release func(), err error) {
	if state.Forked {
		return nil, nil, forked(state.Session)
	}
	bounded, cancel := context.WithTimeout(ctx, maxAppraisal)
	defer cancel()
	key := sessionKey{state.Owner, state.Session}
	r, release, ok := s.sessions.Take(bounded, key)
	if !ok {
		return nil, nil, errBusy
	}
	r.key = key
	if err := s.catchUp(bounded, r); err != nil {
		release()
		return nil, nil, err
	}
	return r, release, nil
}

// appraise returns the last answer if nothing changed.
func (s *Service) appraise(ctx context.Context, r *reading) (Scored, error) {
	challenges, baseline, hash, err := s.beside(ctx, r.key)
	if err != nil {
		return Scored{}, err
	}
	of := []any{r.measured.Len(), hash, challenges}
	if _, err := sign(ctx, &r.last, s.o.Score, of, s.o.Now(), func() autonomy.Claims {
		return autonomy.NewClaims(r.measured, hash, autonomy.Appraise(r.measured, challenges, baseline))
	}); err != nil {
		return Scored{}, err
	}
	return Scored{r.last.claims, r.last.token}, nil
}

// beside returns the challenges of a session, and its owner's baseline with the hash.
func (s *Service) beside(ctx context.Context, key sessionKey) (challenges []autonomy.Challenge,
	baseline *autonomy.Baseline, hash string, err error) {
	if challenges, err = s.challenges(ctx, key); err != nil {
		return nil, nil, "", err
	}
	baseline, hash, err = s.inForce(ctx, key.owner)
	return challenges, baseline, hash, err
}

func (s *Service) challenges(ctx context.Context, key sessionKey) (all []autonomy.Challenge, err error) {
	issued, err := s.o.Store.Challenges(ctx, key.owner, key.session)
	for _, c := range issued {
		all = append(all, c.Challenge)
	}
	return all, err
}
