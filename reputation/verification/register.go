package verification

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Registration is the end of a verification as the agent hands it in (original: register_plugin).
type Registration struct {
	PEM       string
	Payload   string
	Signature string // hex, over the nonce, a bar and the payload
	Nonce     string
	Trace     Trace
	Metadata  Metadata
	Manifest  json.RawMessage // of a user interface; optional
}

// Registered is the judgement of a registration.
type Registered struct {
	Plugin  Plugin
	Token   string // empty after a rejection
	Verdict Verdict
	Gates   []Gate
	// Degraded says that a configured gate did not answer, and Warned that the enforcement score is below 100.
	Degraded, Warned bool
	// Wait is the time until the caller may try again after a rejection.
	Wait time.Duration
}

const (
	maxName        = 64
	maxDescription = 256
	maxTags        = 4
	maxManifest    = 16 << 10
)

// Register ends a verification in the original's order: proof of possession, gates, trace. A rejection returns a
// Registered without a token; like a success it ends the session and spends the nonce.
func (s *Service) Register(ctx context.Context, by Caller, r Registration) (Registered, error) {
	if _, err := s.enter(ctx, by, func(r *rates) *rate.Limiter { return r.registers }); err != nil {
		return Registered{}, err
	}
	key, manifest, err := r.check()
	if err != nil {
		return Registered{}, err
	}
	session, now, err := s.session(ctx, by, r.Trace.SessionID)
	if err != nil {
		return Registered{}, err
	}
	if err := s.admit(ctx, session, by, key, r, now); err != nil {
		return Registered{}, err
	}
	gates := ask(ctx, s.o.Gates, Question{DID: key.DID(), Prompt: session.Task.Prompt, Turns: r.Trace.Turns})
	verdict := judge(session, r.Trace, s.o.Mode, gates)
	out := Registered{Verdict: verdict, Gates: gates.gates, Degraded: gates.degraded(), Warned: gates.warned}
	effects := Effects{At: now}
	names := []string{nameOfSubject(by.Subject), nameOfKey(key)}
	if verdict.Passed() {
		token, _, err := s.signer.Sign(ctx, s.result(session, by, key, r.Trace, verdict, gates))
		if err != nil {
			return Registered{}, err
		}
		out.Token, session.State = token, Completed
		out.Plugin = Plugin{
			DID: key.DID(), Key: key.String(), DIDKey: key.DIDKey(), Subject: by.Subject, Metadata: r.Metadata,
			Manifest: manifest,
			Result:   token, Registered: now,
		}
		effects.Plugin, effects.Agents, effects.Reset = &out.Plugin, agents(by, key), names
		if by.basis() == BasisObserved {
			effects.Passed = &Passed{Subject: by.Subject, At: now, Result: token}
		}
	} else {
		effects.Fail, session.State = names, Failed
	}
	err = s.store.Update(ctx, session, effects)
	if errors.Is(err, ErrConflict) {
		return Registered{}, refusal.New("overloaded", "another call changed the verification while it was judged")
	}
	if err != nil {
		return Registered{}, err
	}
	if !verdict.Passed() {
		out.Wait, err = s.wait(ctx, now, by, key)
	}
	return out, err
}

func agents(by Caller, key Key) []string {
	ids := []string{key.DIDKey()}
	if by.basis() == BasisObserved {
		ids = append(ids, by.Subject)
	}
	return ids
}

func (r Registration) check() (Key, string, error) {
	key, err := ParseKey(r.PEM)
	if err != nil {
		return Key{}, "", err
	}
	if err := checkTrace(r.Trace); err != nil {
		return Key{}, "", err
	}
	if err := r.Metadata.check(); err != nil {
		return Key{}, "", err
	}
	if len(r.Manifest) == 0 {
		return key, "", nil
	}
	manifest, err := strictjson.Canonical(r.Manifest)
	if err != nil || manifest[0] != '{' || len(manifest) > maxManifest {
		return Key{}, "", refusal.New("query_malformed", "uiManifest is not a JSON object of at most %d bytes", maxManifest)
	}
	return key, string(manifest), nil
}

func (m Metadata) check() error {
	if len(m.Tags) > maxTags {
		return refusal.New("query_malformed", "metadata has more than %d tags", maxTags)
	}
	for _, text := range append([]string{m.Name, m.Version}, m.Tags...) {
		if len(text) > maxName || !printable(text) {
			return refusal.New("query_malformed",
				"in metadata, name, version or a tag is longer than %d bytes or has an unprintable character", maxName)
		}
	}
	if len(m.Description) > maxDescription || !printable(m.Description) {
		return refusal.New("query_malformed",
			"in metadata, description is longer than %d bytes or has an unprintable character", maxDescription)
	}
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// admit refuses an agent that does not hold the session's key or must wait. This ends no session and counts against no
// key: anyone can send a wrong signature with another agent's key.
func (s *Service) admit(ctx context.Context, session Session, by Caller, key Key, r Registration, now time.Time) error {
	if err := key.Possesses(r.Nonce, r.Payload, r.Signature); err != nil {
		return err
	}
	if session.Key != key.String() || subtle.ConstantTimeCompare([]byte(session.Nonce), []byte(r.Nonce)) != 1 {
		return refusal.New("verification_possession", "the key or the nonce belongs to another verification")
	}
	if !now.Before(time.UnixMilli(session.Opened).Add(NonceLifetime)) {
		return refusal.New("verification_possession", "the nonce is older than %v; ask for a new verification", NonceLifetime)
	}
	return s.backoff(ctx, now, by, key)
}

func (s *Service) result(session Session, by Caller, key Key, t Trace, v Verdict, gates asked) Result {
	r := Result{
		Session: session.ID, Nonce: session.Nonce, Subject: by.Subject, SubjectBasis: by.basis(),
		PublicKey: base64.RawURLEncoding.EncodeToString(key.public), DID: key.DID(), DIDKey: key.DIDKey(),
		Task: session.Task.ID, Mode: string(s.o.Mode), Checks: v.Checks, Score: v.Score, MaxScore: MaxScore,
		ObservedAll: true,
		ModelCalls:  session.modelCalls(), Turns: int64(len(session.Turns)),
		FirstTurn: session.Turns[0].At, LastTurn: session.Turns[len(session.Turns)-1].At,
		Reasoning:  Reasoning{Basis: BasisDeclared, By: ByKeywords, Coverage: v.Coverage, Band: v.Band},
		Privileged: gates.privileged, Gates: gates.gates, Degraded: gates.degraded(),
		MerkleRoot: t.MerkleRoot, Attestation: t.Attestation, RFC6962Root: t.RFC6962Root(), Probabilistic: true,
	}
	if gates.evaluated {
		r.Reasoning.By = ByServer
	}
	for _, c := range v.Checks {
		r.ObservedAll = r.ObservedAll && c.Basis == BasisObserved
	}
	return r
}
