package verification

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Registration is what an agent hands in (original: register_plugin).
type Registration struct {
	PEM       string
	Payload   string
	Signature string // hex, over the nonce, a bar and the payload
	Nonce     string
	Trace     Trace
	Metadata  Metadata
	Manifest  json.RawMessage // of a user interface; empty if there is none
}

// Registered is the answer to a registration that was judged.
type Registered struct {
	Plugin  Plugin
	APIKey  string
	Token   string
	Verdict Verdict
	Gates   []Gate
	// Degraded says that a gate that is configured did not answer, and Warned that the enforcement score is below 100.
	Degraded, Warned bool
	// Cooldown is how long the agent has to wait for another try, at least.
	Cooldown time.Duration
}

// rejected is how long a rejected agent is asked to wait (original: cooldown).
const rejected = 5 * time.Minute

const (
	maxName        = 64 // bytes
	maxDescription = 256
	maxTags        = 4
	maxManifest    = 16 << 10
)

// Register ends a verification. The order is the original's: proof of possession, the gates, then the trace. A registration that is judged
// and rejected returns a Registered without a token: the session has failed, and its nonce is spent, as after a success.
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
	gates := ask(ctx, s.o.Gates, Question{DID: key.DID(), Prompt: session.Task.Prompt, Payload: r.Payload, Turns: r.Trace.Turns})
	verdict := judge(session, r.Trace, conditions{s.o.Mode, gates.privileged, gates.evaluated, gates.violations})
	out := Registered{Verdict: verdict, Gates: gates.gates, Degraded: gates.degraded(), Warned: gates.warned}
	effects := Effects{At: now}
	names := []string{nameOfSubject(by.Subject), nameOfKey(key)}
	if verdict.Passed() {
		token, _, err := s.signer.Sign(ctx, s.result(session, by, key, r.Trace, verdict, gates))
		if err != nil {
			return Registered{}, err
		}
		out.Token, out.APIKey = token, "groover_"+random(32)
		out.Plugin = Plugin{
			DID: key.DID(), Key: key.String(), DIDKey: key.DIDKey(), Subject: by.Subject, Metadata: r.Metadata, Manifest: manifest,
			APIKeyHash: evidence.HashBytes([]byte(out.APIKey)), Result: token, Registered: now,
		}
		effects.Plugin, effects.Agents, effects.Reset = &out.Plugin, agents(by, key), names
		if by.basis() == BasisObserved {
			effects.Passed = &Passed{Subject: by.Subject, At: now, Result: token}
		}
	} else {
		effects.Fail = names
	}
	session.end(verdict.Passed())
	err = s.store.Update(ctx, session, effects)
	if errors.Is(err, ErrConflict) {
		return Registered{}, refusal.New("overloaded", "another call has changed the verification while it was judged")
	}
	if err != nil {
		return Registered{}, err
	}
	if !verdict.Passed() {
		wait, err := s.wait(ctx, now, by, key)
		if err != nil {
			return Registered{}, err
		}
		out.Cooldown = max(rejected, wait)
	}
	return out, nil
}

// agents returns the ids of the agent that has passed: that of its key, and that by which its sidecar has named it.
func agents(by Caller, key Key) []string {
	ids := []string{key.DIDKey()}
	if by.basis() == BasisObserved {
		ids = append(ids, by.Subject)
	}
	return ids
}

// check refuses what cannot be judged.
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

// check refuses metadata that is too long or not printable.
func (m Metadata) check() error {
	if len(m.Tags) > maxTags {
		return refusal.New("query_malformed", "metadata has more than %d tags", maxTags)
	}
	for _, text := range append([]string{m.Name, m.Version}, m.Tags...) {
		if len(text) > maxName || !printable(text) {
			return refusal.New("query_malformed", "name, version or a tag has more than %d bytes, or characters that cannot be printed", maxName)
		}
	}
	if len(m.Description) > maxDescription || !printable(m.Description) {
		return refusal.New("query_malformed", "description has more than %d bytes, or characters that cannot be printed", maxDescription)
	}
	return nil
}

func printable(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// admit refuses an agent that has not proven to hold the key for which the session was opened, or that has to wait. What it refuses ends no
// session and counts for no key: anybody can send a wrong signature with the key of another agent.
func (s *Service) admit(ctx context.Context, session Session, by Caller, key Key, r Registration, now time.Time) error {
	if err := key.Possesses(r.Nonce, r.Payload, r.Signature); err != nil {
		return err
	}
	if session.Key != key.String() || subtle.ConstantTimeCompare([]byte(session.Nonce), []byte(r.Nonce)) != 1 {
		return refusal.New("verification_possession", "key and nonce are not those of this verification")
	}
	if !now.Before(session.nonceExpires()) {
		return refusal.New("verification_possession", "the nonce is older than %v; ask for a new verification", NonceLifetime)
	}
	return s.backoff(ctx, now, by, key)
}

// result makes the claims about a verification that is passed.
func (s *Service) result(session Session, by Caller, key Key, t Trace, v Verdict, gates asked) Result {
	r := Result{
		Session: session.ID, Nonce: session.Nonce, Subject: by.Subject, SubjectBasis: by.basis(),
		PublicKey: base64.RawURLEncoding.EncodeToString(key.public), DID: key.DID(), DIDKey: key.DIDKey(),
		Task: session.Task.ID, Mode: string(s.o.Mode), Checks: v.Checks, Score: v.Score, MaxScore: MaxScore, ObservedAll: true,
		ModelCalls: session.modelCalls(), Turns: int64(len(session.Turns)), FirstTurn: session.Turns[0].At, LastTurn: session.Turns[len(session.Turns)-1].At,
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
