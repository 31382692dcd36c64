package challenge_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

var (
	start   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	binding = evidence.Binding{Subject: "user_123", Action: "create_post", Resource: "POST /posts",
		ContentHash: evidence.HashBytes([]byte("post"))}
	want         = challenge.Want{Binding: binding, MaxAge: 15 * time.Second}
	difficulties = []challenge.Difficulty{challenge.Lite, challenge.Standard, challenge.Gauntlet}
	secretText   = []byte(strings.Repeat("s", 32))
)

func newSecret(t testing.TB, text []byte) evidence.Secret {
	t.Helper()
	s, err := evidence.NewSecret(text)
	check.Must(t, err)
	return s
}

func newIssuer(t testing.TB, o challenge.Options) *challenge.Issuer {
	t.Helper()
	if o.Issuer == "" {
		o.Issuer, o.Audience = "api", "api"
	}
	if o.Now == nil {
		o.Now = func() time.Time { return start }
	}
	i, err := challenge.NewIssuer(newSecret(t, secretText), o)
	check.Must(t, err)
	return i
}

func create(t testing.TB, i *challenge.Issuer, b evidence.Binding) challenge.Challenge {
	t.Helper()
	ch, err := i.Create(t.Context(), b)
	check.Must(t, err)
	return ch
}

func solve(t testing.TB, ch challenge.Challenge) evidence.Response {
	t.Helper()
	answers, err := challenge.Solve(t.Context(), ch.Tasks)
	check.Must(t, err)
	return evidence.Response{ChallengeID: ch.ID, Answers: answers}
}

func seeded(n byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{n, 1}) }

// wantAnswer demands the answer to one task, or a refusal if text is empty.
func wantAnswer(t *testing.T, kind, input, text string) {
	t.Helper()
	id := strings.Repeat("t", 64)
	got, err := challenge.Solve(t.Context(),
		[]challenge.Task{{ID: id, Kind: kind, Input: json.RawMessage(input)}})
	if text == "" {
		wantCode(t, err, "challenge_refused")
	} else if err != nil || got[id] != evidence.HashBytes([]byte(text)) {
		t.Errorf("%v, %v; want the hash of %s", got, err, text)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if code == "" {
		check.Must(t, err)
	} else if refusal.CodeOf(err) != code {
		t.Errorf("got %v, want code %s", err, code)
	}
}
