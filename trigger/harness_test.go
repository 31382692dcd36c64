package trigger_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/trigger"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	secret  = "It's a Secret to Everybody" // GitHub's own example
	runtime = "worker-1"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// clock stands still until it is set.
type clock struct{ at atomic.Int64 }

func newClock(t time.Time) *clock {
	c := new(clock)
	c.at.Store(t.UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

type kit struct {
	*trigger.Service
	clock    *clock
	options  trigger.Options
	verifier *evidence.Verifier
}

func newKit(t testing.TB, change ...func(*trigger.Options)) *kit {
	t.Helper()
	k := &kit{clock: newClock(start)}
	registry := memoryKey(t, "registry")
	origin, receipt := memoryKey(t, "origin-proof-key"), memoryKey(t, "trigger-receipt-key")
	k.options = trigger.Options{
		Path: filepath.Join(t.TempDir(), "events.db"),
		Origin: issuer(t, evidence.TriggerOriginProofKind(), origin, "source-verifier", "trigger-mediator",
			k.clock.now),
		Receipt: issuer(t, evidence.TriggerReceiptKind(), receipt, "trigger-mediator", "runtime", k.clock.now),
		Sources: []trigger.Source{github(t)}, Now: k.clock.now, Log: zap.NewNop(),
	}
	for _, c := range change {
		c(&k.options)
	}
	root := must(registry.Current(t.Context()))(t)
	certify := func(key *custody.Memory, purpose, issuerName string) string {
		v := must(key.Current(t.Context()))(t)
		token, _, err := issuer(t, evidence.SignerCertificateKind(), registry, "key-registry", "api",
			k.clock.now).Sign(t.Context(), evidence.SignerCertificate{
			KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{purpose}, SubjectIssuer: issuerName,
			SubjectKeyID:     v.KeyID(),
			SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
		})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	trust := must(
		evidence.NewTrust(
			[]evidence.Root{{KeyID: root.KeyID(), Public: root.Public(), Purpose: evidence.PurposeSignerCertificate}},
			evidence.Bundle{
				Certificates: []string{certify(origin, evidence.PurposeTriggerOriginProof, "source-verifier"),
					certify(receipt, evidence.PurposeTriggerReceipt, "trigger-mediator")}},
			evidence.SignerPolicy{Expected: expect("key-registry", "api", "registry")}))(t)
	k.verifier = must(evidence.NewVerifier(trust, evidence.VerifierOptions{Now: k.clock.now}))(t)
	k.open(t)
	return k
}

func (k *kit) open(t testing.TB) {
	t.Helper()
	s := must(trigger.New(t.Context(), k.options))(t)
	k.Service = s
	t.Cleanup(func() { _ = s.Close() })
}

func (k *kit) restart(t testing.TB) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k.open(t)
}

func (k *kit) sql(t testing.TB, statements ...string) *sql.DB {
	t.Helper()
	db := must(sql.Open("sqlite", "file:"+k.options.Path+"?_pragma=busy_timeout(60000)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	for _, s := range statements {
		must(db.Exec(s))(t)
	}
	return db
}

func memoryKey(t testing.TB, name string) *custody.Memory {
	t.Helper()
	return must(custody.NewMemory(name))(t)
}

func issuer[C any](t testing.TB, kind evidence.Kind[C], key signer.Key, name, audience string,
	now func() time.Time) *signer.Issuer[C] {
	t.Helper()
	return must(
		signer.New(kind, key,
			signer.Options{Issuer: name, Audience: audience, Lifetime: min(time.Hour, kind.MaxLifetime), Now: now}))(t)
}

func expect(issuerName, audience, key string) evidence.Expected {
	return evidence.Expected{Issuers: []string{issuerName}, Audiences: []string{audience}, KeyIDs: []string{key},
		MaxAge: time.Hour}
}

func github(t testing.TB) *trigger.Webhook {
	t.Helper()
	return must(
		trigger.NewGitHub("github", []string{secret}, []string{"release.published", "push"},
			[]string{"workflow_dispatch"}))(
		t)
}

func schedule(t testing.TB, name, spec string) *trigger.Schedule {
	t.Helper()
	return must(trigger.NewSchedule(name, spec, nil))(t)
}

func hooks(t testing.TB, secrets ...string) *trigger.Webhook {
	t.Helper()
	return must(trigger.NewStandard("hooks", secrets))(t)
}

func sourced(list ...trigger.Source) func(*trigger.Options) {
	return func(o *trigger.Options) { o.Sources = list }
}

func binding(action string) evidence.Binding {
	return evidence.Binding{Action: action, ContentHash: evidence.HashBytes([]byte("content")), Nonce: evidence.NewID(),
		Resource: "POST /posts", Subject: "agent"}
}

type delivery struct {
	source string
	header http.Header
	body   string
}

func sha256MAC(key, text string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func fromGitHub(event, id, body string) delivery {
	return delivery{source: "github", body: body, header: http.Header{
		"X-Github-Event": {event}, "X-Github-Delivery": {id},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sha256MAC(secret, body))},
	}}
}

type answer struct {
	Status             int
	EventID            string
	Duplicate, Ignored bool
	Code, Detail       string // of a refusal
}

func (k *kit) deliver(t testing.TB, d delivery) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/hooks/"+d.source, strings.NewReader(d.body))
	r.Header = d.header
	w := httptest.NewRecorder()
	k.Webhooks().ServeHTTP(w, r)
	a := answer{Status: w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("the answer %d is no JSON: %v", w.Code, err)
	}
	a.Status = w.Code
	return a
}

func (k *kit) wantEvidence(t testing.TB, e trigger.Event, verified map[string]string) {
	t.Helper()
	if want := must(evidence.HashValue(verified))(t); e.EvidenceHash != want {
		t.Errorf("the event %+v has another evidence hash than %v, whose hash is %s", e, verified, want)
	}
}

var releases atomic.Int64

func (k *kit) release(t testing.TB) string {
	t.Helper()
	n := releases.Add(1)
	a := k.deliver(t,
		fromGitHub("release", fmt.Sprintf("delivery-%d", n),
			fmt.Sprintf(`{"action":"published","release":{"id":%d}}`, n)))
	if a.Status != http.StatusAccepted || a.EventID == "" {
		t.Fatalf("a release was answered with %+v", a)
	}
	return a.EventID
}

func (k *kit) claimed(t testing.TB) string {
	t.Helper()
	return k.claim(t, k.release(t))
}

func (k *kit) claim(t testing.TB, id string) string {
	t.Helper()
	e := must(k.Claim(t.Context(), trigger.Claim{EventID: id, Runtime: runtime}))(t)
	if e.ID != id || e.State != trigger.Claimed || e.ClaimedBy != runtime {
		t.Fatalf("claimed %+v", e)
	}
	return e.ID
}

func (k *kit) event(t testing.TB, id string) trigger.Event {
	t.Helper()
	return must(k.Get(t.Context(), id))(t)
}

func (k *kit) ask(t testing.TB, id string) error {
	return second(k.Evidence(t.Context(), id, binding("create_post")))
}

func (k *kit) pay(t testing.TB, id, action string) trigger.Evidence {
	t.Helper()
	return must(k.Evidence(t.Context(), id, binding(action)))(t)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if got := problem.DetailsOf(err).Code; err == nil || got != code {
		t.Fatalf("got %v (%s), want %s", err, got, code)
	}
}

type brokenKey struct{}

func (brokenKey) Current(ctx context.Context) (custody.Version, error) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	v := custody.NewVersion("k", 1, nil, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	_, err := v.Sign(ctx, []byte("x"))
	return custody.Version{}, err
}

func (brokenKey) Properties() custody.Properties { return custody.Properties{} }
