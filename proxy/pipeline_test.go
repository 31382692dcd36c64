package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// secretToken is the credential that no agent may see.
const secretToken = "the-credential-of-the-upstream"

// postRig is a whole pipeline between an agent and an upstream, with roles that can fail.
type postRig struct {
	*rig
	pipeline *Pipeline
	handler  *Handler
	sessions *session.Set
	session  *session.Session
	client   *http.Client
	record   *memoryRecord
	roles    *fakeRoles
	upstream *httptest.Server
	base     string

	mu   sync.Mutex
	sent []*http.Request // received by the upstream
	body []string
}

// memoryRecord insists on the contract: one record a call, the intent before the outcome.
type memoryRecord struct {
	t      testing.TB
	fail   error // Begin returns it
	kept   bool  // Begin keeps the intent although it fails
	away   bool  // the ledger is away
	full   error // Full returns it
	panics bool

	mu    sync.Mutex
	posts map[string]ledger.Record
	order []string
	keys  []ledger.Key // consumed by the last Begin
}

func (m *memoryRecord) Begin(_ context.Context, p ledger.Record, keys ...ledger.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil && !m.kept {
		return m.fail
	}
	if _, ok := m.posts[p.ID]; ok || p.State != ledger.StateForwarding || len(keys) == 0 {
		m.t.Errorf("Begin of %s: state %s, %d keys", p.ID, p.State, len(keys))
	}
	m.keys = keys
	if m.kept || !m.panics {
		m.posts[p.ID] = p
	}
	if m.panics {
		panic("a fault in the ledger")
	}
	return m.fail
}

func (m *memoryRecord) Finish(_ context.Context, p ledger.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !p.State.Outcome() {
		m.t.Errorf("Finish of %s as %s, which is no outcome", p.ID, p.State)
	}
	if m.away {
		return ledger.Unavailable("write the record", errors.New("the file is locked"))
	}
	if was, ok := m.posts[p.ID]; !ok || was.State != ledger.StateForwarding {
		if m.fail == nil && !m.panics {
			m.t.Errorf("Finish of %s, which had not begun or was finished", p.ID)
		}
		return ledger.ErrState
	}
	m.posts[p.ID] = p
	m.order = append(m.order, p.ID)
	return nil
}

func (m *memoryRecord) Add(ctx context.Context, p ledger.Record) error {
	if m.away {
		return ledger.Unavailable("write the record", errors.New("the file is locked"))
	}
	return m.AddLater(ctx, p)
}

func (m *memoryRecord) AddLater(_ context.Context, p ledger.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.posts[p.ID]; ok {
		m.t.Errorf("a second record of %s", p.ID)
	}
	m.posts[p.ID] = p
	m.order = append(m.order, p.ID)
	return nil
}

func (m *memoryRecord) Full(string) error { return m.full }

func (m *memoryRecord) FinishLater(ctx context.Context, p ledger.Record) error {
	return m.Finish(ctx, p)
}

// last returns the newest record and the number of records.
func (m *memoryRecord) last() (ledger.Record, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.order) == 0 {
		return ledger.Record{}, 0
	}
	return m.posts[m.order[len(m.order)-1]], len(m.order)
}

// fakeRoles are the trigger service, the control plane and the gate. They sign with real keys; fail makes a step
// refuse.
type fakeRoles struct {
	fail       map[string]error
	panics     bool
	challenges *challenge.Issuer
	origin     *signer.Issuer[evidence.TriggerOriginProof]
	receipt    *signer.Issuer[evidence.TriggerReceipt]
	decision   *signer.Issuer[evidence.PolicyDecision]
	grant      *signer.Issuer[evidence.ActionGrant]
	otherEvent bool
	token      string     // bound into the request proof; secretToken if empty
	done       []string   // events of ended sessions
	mu         sync.Mutex // guards unsent
	unsent     []string   // posts given back
	unsentAt   func()     // called by Unsent
	budget     trigger.Budget
	admitted   func() // called by Admit
	asked      gate.AdmitRequest
	decisionOf func(*evidence.PolicyDecision)
	decided    policy.Request // last request to the control plane
	// These change claims before they are signed.
	receiptOf func(*evidence.TriggerReceipt)
	grantOf   func(*evidence.ActionGrant)
}

func (f *fakeRoles) Evidence(ctx context.Context, eventID string, b evidence.Binding) (trigger.Evidence, error) {
	if err := f.fail["trigger"]; err != nil {
		return trigger.Evidence{}, err
	}
	if f.otherEvent {
		eventID = "evt_other"
	}
	h := evidence.HashBytes(nil)
	proof, _, err := f.origin.Sign(ctx,
		evidence.TriggerOriginProof{Kind: evidence.TriggerSourceEvent, Source: "github",
			VerificationMethod: evidence.MethodWebhookSignature, EventID: eventID, EvidenceID: "d", PayloadHash: h,
			BindingHash: b.Hash(), EvidenceHash: h})
	if err != nil {
		return trigger.Evidence{}, err
	}
	claims := evidence.TriggerReceipt{Kind: evidence.TriggerSourceEvent, Source: "github", EventID: eventID,
		PayloadHash: h, BindingHash: b.Hash(), OriginProofHash: evidence.HashToken(proof)}
	if f.receiptOf != nil {
		f.receiptOf(&claims)
	}
	receipt, _, err := f.receipt.Sign(ctx, claims)
	return trigger.Evidence{OriginProof: proof, TriggerReceipt: receipt}, err
}

func (f *fakeRoles) Claim(_ context.Context, c trigger.Claim) (trigger.Event, error) {
	if err := f.fail["claim"]; err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{ID: "evt_next", Kind: evidence.TriggerScheduled, Source: "hourly", ClaimedBy: c.Runtime}, nil
}

func (f *fakeRoles) Done(_ context.Context, id, _ string) (trigger.Event, error) {
	f.done = append(f.done, id)
	return trigger.Event{}, nil
}

func (f *fakeRoles) Unsent(_ context.Context, id, runtime, action, binding string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsent = append(f.unsent, strings.Join([]string{id, runtime, action, binding}, " "))
	if f.unsentAt != nil {
		f.unsentAt()
	}
	return nil
}

func (f *fakeRoles) Budget(context.Context, string) (trigger.Budget, error) {
	return f.budget, f.fail["budget"]
}

func (f *fakeRoles) Decide(ctx context.Context, r policy.Request) (policy.Decision, error) {
	f.decided = r
	if err := f.fail["decision"]; err != nil {
		return policy.Decision{}, err
	}
	h, b := evidence.HashBytes(nil), r.Binding
	decided := evidence.PolicyDecision{Action: b.Action, BindingHash: b.Hash(), ChallengeID: r.ChallengeID,
		ContentHash: b.ContentHash, Decision: evidence.DecisionAllow, EnvironmentHash: r.EnvironmentHash,
		OriginEvidenceHash: h, OriginEvidenceID: "d", OriginVerificationMethod: evidence.MethodWebhookSignature,
		PolicyHash: h, Resource: b.Resource, Rule: "r", RuntimeID: r.RuntimeID, Subject: b.Subject, TriggerEventID: "e",
		TriggerKind: "k", TriggerSource: "s"}
	if f.decisionOf != nil {
		f.decisionOf(&decided)
	}
	token, d, err := f.decision.Sign(ctx, decided)
	if err != nil {
		return policy.Decision{}, err
	}
	one := []string{"x"}
	claims := evidence.ActionGrant{Subject: b.Subject, Actions: one, BindingHashes: one, ContentHashes: one,
		EnvironmentHash: h, OriginEvidenceHashes: one, OriginEvidenceIDs: one, OriginVerificationMethods: one,
		PolicyDecisionHashes: []string{evidence.HashToken(token)}, PolicyDecisionIDs: []string{d.ID}, PolicyHash: h,
		Resources: one, RuntimeIDs: one, TriggerEventIDs: one, TriggerSources: one}
	if f.grantOf != nil {
		f.grantOf(&claims)
	}
	grant, _, err := f.grant.Sign(ctx, claims)
	return policy.Decision{PolicyDecision: token, Grant: grant}, err
}

func (f *fakeRoles) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	if f.panics {
		panic("a fault in the gate")
	}
	if err := f.fail["challenge"]; err != nil {
		return challenge.Challenge{}, err
	}
	return f.challenges.Create(ctx, b)
}

func (f *fakeRoles) Admit(_ context.Context, r gate.AdmitRequest) (gate.Admission, error) {
	if f.admitted != nil {
		f.admitted()
	}
	checks := []ledger.Check{{Name: "chain", OK: f.fail["gate"] == nil}}
	f.asked = r
	return gate.Admission{Capability: "capability", CapabilityID: "cap_1",
		Keys: []ledger.Key{{Kind: "challenge", ID: "c"}}, Checks: checks}, f.fail["gate"]
}

func (f *fakeRoles) Authorize(_ context.Context, p gate.AuthorizeRequest) (gate.Authorization, error) {
	if p.AccessTokenHash != evidence.HashBytes([]byte("Bearer "+cmp.Or(f.token, secretToken))) {
		return gate.Authorization{}, errors.New("another access token")
	}
	return gate.Authorization{Keys: []ledger.Key{{Kind: "capability", ID: "cap_1"}}}, f.fail["proof"]
}

func takesPart(_ *PipelineOptions, actions []Action) { actions[0].TakesPart = true }

func expected(role string) evidence.Expected {
	return evidence.Expected{Issuers: []string{role}, Audiences: []string{"aud"}, KeyIDs: []string{role},
		MaxAge: time.Minute}
}

// newIssuer makes a role's signer and certifies its key.
func newIssuer[C any](t testing.TB, registry *custody.Memory, certificates *[]string, kind evidence.Kind[C],
	role string) *signer.Issuer[C] {
	t.Helper()
	key, err := custody.NewMemory(role)
	must(t, err)
	v, err := key.Current(context.Background())
	must(t, err)
	certify, err := signer.New(evidence.SignerCertificateKind, registry,
		signer.Options{Issuer: "registry", Audience: "aud", Lifetime: time.Hour, Now: time.Now})
	must(t, err)
	token, _, err := certify.Sign(context.Background(), evidence.SignerCertificate{
		KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{kind.Purpose}, SubjectIssuer: role,
		SubjectKeyID:     v.KeyID(),
		SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
	})
	must(t, err)
	*certificates = append(*certificates, token)
	i, err := signer.New(kind, key, signer.Options{Issuer: role, Audience: "aud", Lifetime: time.Minute, Now: time.Now})
	must(t, err)
	return i
}

// newRoles makes roles and options without rules and transport.
func newRoles(t testing.TB, sessions *session.Set, record *memoryRecord) (*fakeRoles, PipelineOptions) {
	t.Helper()
	registry, err := custody.NewMemory("registry")
	must(t, err)
	var certs []string
	secret, err := evidence.NewSecret([]byte(strings.Repeat("s", 32)))
	must(t, err)
	challenges, err := challenge.NewIssuer(secret, challenge.Options{Issuer: "gate", Audience: "gate", Now: time.Now})
	must(t, err)
	roles := &fakeRoles{
		fail: make(map[string]error), challenges: challenges,
		origin:   newIssuer(t, registry, &certs, evidence.TriggerOriginProofKind, "origin"),
		receipt:  newIssuer(t, registry, &certs, evidence.TriggerReceiptKind, "receipt"),
		decision: newIssuer(t, registry, &certs, evidence.PolicyDecisionKind, "decision"),
		grant:    newIssuer(t, registry, &certs, evidence.ActionGrantKind, "grant"),
	}
	runtime := newIssuer(t, registry, &certs, evidence.RuntimeAttestationKind, "runtime")
	session := newIssuer(t, registry, &certs, evidence.SessionReceiptKind, "session")
	prove := newIssuer(t, registry, &certs, evidence.RequestProofKind, "prove")
	root, err := registry.Current(context.Background())
	must(t, err)
	trust, err := evidence.NewTrust(
		[]evidence.Root{{KeyID: root.KeyID(), Public: root.Public(), Purpose: evidence.PurposeSignerCertificate}},
		evidence.Bundle{Certificates: certs}, evidence.SignerPolicy{Expected: expected("registry")})
	must(t, err)
	verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now})
	must(t, err)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	must(t, err)
	return roles, PipelineOptions{Sessions: sessions, Now: time.Now, EvidenceOptions: EvidenceOptions{
		Triggers: roles, Control: roles, Verifier: verifier,
		Strict: &policy.Strict{Origin: policy.OriginExpected{Expected: expected("origin")},
			Receipt: policy.ReceiptExpected{Expected: expected("receipt")}, Decision: expected("decision"),
			Grant: expected("grant"), Runtime: policy.RuntimeExpected{PolicyHash: evidence.HashBytes(nil)}},
		Deployment: func(*observe.Run) error { return roles.fail["deployment"] },
		DeploymentCertificate: func() string {
			return "deployment"
		}, Attest: signer.NewAttester(runtime, session, signer.Access{}), Prove: prove,
		RuntimeID: "worker-1", EnvironmentHash: evidence.HashBytes(nil),
	}, RecordOptions: RecordOptions{Record: record, Metrics: metrics, Log: zap.NewNop()},
		NetworkOptions: NetworkOptions{CAPEM: []byte("CA")}, BoundsOptions: BoundsOptions{SpoolDir: t.TempDir()}}
}

func newPostRig(t testing.TB, answer http.HandlerFunc, change func(*PipelineOptions, []Action)) *postRig {
	t.Helper()
	p := &postRig{sessions: session.NewSet(time.Now), record: &memoryRecord{t: t, posts: make(map[string]ledger.Record)}}
	p.upstream = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var raw []byte
		if r.Header.Get("X-Unread") == "" { // the answer reads the request itself
			raw, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(raw))
		}
		p.mu.Lock()
		p.sent, p.body = append(p.sent, r), append(p.body, string(raw))
		p.mu.Unlock()
		answer(w, r)
	}))
	roles, o := newRoles(t, p.sessions, p.record)
	p.roles, o.Load.Refused = roles, 1<<20 // every refusal is recorded
	credential, err := forward.NewCredential("Authorization", "Bearer ", echo.Auto, fixed(secretToken))
	must(t, err)
	base := "https://" + at(0, p.upstream)
	p.base = base
	match := func(method, path string) match.Match {
		m := matching(t, base+path, method)
		return m
	}
	action := func(name, path string) Action {
		return Action{Name: name, Match: match("POST", path), Subject: "agent", Action: "create_post", Content: ContentJSON,
			MaxBody: 1 << 20, Credential: credential, Gate: p.roles}
	}
	actions := []Action{action("posts", "/posts"), action("solve", "/solve"), action("query", "/query"),
		action("raw", "/raw")}
	actions[1].AgentSolves, actions[2].AllowQuery, actions[3].Content, actions[3].MaxBody = true, true, ContentRaw, 4<<20
	egress := []Egress{{Name: "reads", Match: match("GET", "/**")},
		{Name: "keyed", Match: match("PUT", "/inference"), Credential: credential}}
	p.rig = newRig(t, func(po *intercept.Options) {
		if change != nil {
			change(&o, actions)
			egress[1].Credential = actions[0].Credential
		}
		if o.Transport == nil {
			o.Transport = newTestTransport(t, p.upstream)
		}
		if o.Rules == nil {
			o.Rules = rulesFor(t, actions, egress)
		}
		p.pipeline, err = NewPipeline(o)
		must(t, err)
		p.handler = NewHandler(p.pipeline)
		po.Handler, po.Connect, po.Refuse, po.Refused = p.handler, p.handler.Connect, p.handler.Refuse, p.handler.Refused
	}, p.upstream)
	p.session = p.sessions.OpenStanding(trigger.Event{ID: "evt_1", Kind: evidence.TriggerSourceEvent, Source: "github"},
		"worker-1")
	p.client = p.rig.Client(http1)
	return p
}

func tokenIn(rec ledger.Record, name string) string {
	for _, a := range rec.Artifacts {
		if a.Name == name {
			return a.Token
		}
	}
	return ""
}

func created(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "made")
}

// request makes a request; header pairs follow the body.
func (p *postRig) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	p.T.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = p.base + path
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	must(p.T, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// start returns once the answer begins.
func (p *postRig) start(ctx context.Context, method, path, body string, header ...string) *http.Response {
	p.T.Helper()
	resp, err := p.client.Do(p.request(ctx, method, path, body, header...))
	must(p.T, err)
	p.T.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// send returns the whole answer.
func (p *postRig) send(method, path, body string, header ...string) (*http.Response, string) {
	p.T.Helper()
	resp := p.start(context.Background(), method, path, body, header...)
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	must(p.T, err)
	return resp, string(raw)
}

// wantRefused demands a refusal with this code, one record of it, and an upstream that saw nothing.
func (p *postRig) wantRefused(code, method, path, body string, header ...string) {
	p.T.Helper()
	_, before := p.record.last()
	sent := len(p.sent)
	_, answer := p.send(method, path, body, header...)
	var d problem.Details
	if err := json.Unmarshal([]byte(answer), &d); err != nil || d.Code != code {
		p.T.Fatalf("got %s, want code %s", answer, code)
	}
	rec, n := p.record.last()
	if n != before+1 || rec.Code != code || rec.State != ledger.StateRefused || rec.ID != d.Post {
		p.T.Errorf("%d records, the last %+v", n-before, rec)
	}
	if len(p.sent) != sent {
		p.T.Error("the upstream saw the call")
	}
}

func TestPostIsForwardedOnce(t *testing.T) {
	p := newPostRig(t, created, nil)
	const body = "{ \"b\":1,\n\"a\":2 }"
	resp, answer := p.send("POST", "/posts", body, "Authorization", "Bearer the-agents-own", "Cookie", "a=b",
		"X-Goog-Api-Key", "mine", "Api-Key", "mine", "Idempotency-Key", "mine", "ActionProof-Capability", "forged",
		"ActionProof-Caller", "forged", "X-Keep", "kept")
	if resp.StatusCode != http.StatusCreated || answer != "made" {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if len(p.sent) != 1 || p.body[0] != body {
		t.Fatalf("the upstream saw %d calls, %q", len(p.sent), p.body)
	}
	for name, want := range map[string]string{"Authorization": "Bearer " + secretToken, "Cookie": "", "X-Goog-Api-Key": "",
		"Api-Key": "", "Idempotency-Key": "cap_1", "Actionproof-Capability": "", "Actionproof-Request-Proof": "",
		"Actionproof-Caller": "", "X-Keep": "kept"} {
		if got := strings.Join(p.sent[0].Header.Values(name), "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	rec, n := p.record.last()
	if n != 1 || rec.State != ledger.StateForwarded || rec.Status != 201 ||
		rec.ID != resp.Header.Get("ActionProof-Post") || rec.Flow != "post" {
		t.Errorf("%d records, %+v", n, rec)
	}
	e, o := p.roles.asked.Envelope, p.roles.asked.Opened
	for token, opened := range map[string]string{
		e.OriginProof: o.OriginProof.Token(), e.TriggerReceipt: o.TriggerReceipt.Token(),
		e.PolicyDecision: o.PolicyDecision.Token(),
		e.Grant:          o.Grant.Token(), e.Attestation: o.Attestation.Token(), e.SessionReceipt: o.SessionReceipt.Token(),
	} {
		if token == "" || opened != token {
			t.Errorf("the gate has to open %q again: %q was opened", token, opened)
		}
	}
	hash, err := evidence.HashJSON([]byte(`{"a":2,"b":1}`))
	must(t, err)
	if rec.ContentHash != hash || rec.Resource != "POST /posts" || len(rec.Artifacts) != 10 {
		t.Errorf("content %s, resource %s, %d artifacts", rec.ContentHash, rec.Resource, len(rec.Artifacts))
	}
	var steps []string
	for _, s := range rec.Steps {
		steps = append(steps, s.Name)
	}
	if got := strings.Join(steps, " "); got !=
		"session match deployment content challenge trigger decision attest gate proof consume upstream relay" {
		t.Errorf("steps: %s", got)
	}
	raw, err := json.Marshal(rec)
	must(t, err)
	if strings.Contains(string(raw), secretToken) {
		t.Error("the record holds the credential")
	}
}

func TestEvidenceHeadersGoOnlyToWhoReadsThem(t *testing.T) {
	p := newPostRig(t, created, takesPart)
	p.send("POST", "/posts", "{}")
	if p.sent[0].Header.Get("ActionProof-Capability") != "capability" ||
		p.sent[0].Header.Get("ActionProof-Request-Proof") == "" {
		t.Errorf("got %v", p.sent[0].Header)
	}
}

// TestTaintedSession is refused for good and recorded as tainted, even if it also contradicts the manifest.
func TestTaintedSession(t *testing.T) {
	p := newPostRig(t, created, nil)
	watch := observe.NewWatcher(nil, time.Now, func(*observe.Run, look.Finding) {})
	launcher := exec.Command("sleep", "1000")
	must(t, launcher.Start())
	t.Cleanup(func() { _ = launcher.Process.Kill() })
	p.session.Run = watch.Begin("evt_1", observe.Launch{PID: launcher.Process.Pid})
	if resp, _ := p.send("POST", "/posts", "{}"); resp.StatusCode != http.StatusCreated {
		t.Fatalf("a session that is not tainted is refused: %d", resp.StatusCode)
	}
	rec, _ := p.record.last()
	if i := slices.IndexFunc(rec.Checks, func(k ledger.Check) bool { return k.Name == CheckUnattended }); i >= 0 {
		t.Errorf("the record says of a run that is not isolated that it is unattended: %+v", rec.Checks)
	}
	must(t, launcher.Process.Kill())
	_ = launcher.Wait()
	for range 2 {
		p.wantRefused("session_tainted", "POST", "/posts", "{}")
		p.roles.fail["deployment"] = refusal.New("deployment_contradicted", "by this session")
	}
	rec, _ = p.record.last()
	if !strings.Contains(rec.Reason,
		fmt.Sprintf("process %d (sleep) was to launch the agent and has ended", launcher.Process.Pid)) {
		t.Errorf("the reason is %q", rec.Reason)
	}
	if tokenIn(rec, "sessionReceipt") == "" {
		t.Error("the record lacks the session receipt")
	}
	if _, _, err := p.sessions.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil); err != nil ||
		len(p.sessions.Runs()) != 2 {
		t.Errorf("%d runs, %v", len(p.sessions.Runs()), err)
	}
}

func TestEachStepFailsClosed(t *testing.T) {
	refusal := refusal.New("policy_denied", "refused by the test")
	for _, step := range []string{"deployment", "challenge", "trigger", "decision", "gate", "proof"} {
		t.Run(step, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			p.roles.fail[step] = refusal
			p.wantRefused("policy_denied", "POST", "/posts", "{}")
			if rec, _ := p.record.last(); step == "decision" {
				// What was signed meanwhile is on record.
				for _, name := range []string{"runtimeAttestation", "sessionReceipt"} {
					if tokenIn(rec, name) == "" {
						t.Errorf("the record lacks the %s", name)
					}
				}
			}
			delete(p.roles.fail, step)
			if resp, _ := p.send("POST", "/posts", "{}"); resp.StatusCode != http.StatusCreated {
				t.Errorf("the valid post is refused too: %d", resp.StatusCode)
			}
		})
	}
	t.Run("an error that nobody classified", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.roles.fail["gate"] = errors.New("secret detail " + secretToken)
		p.wantRefused("internal", "POST", "/posts", "{}")
		if rec, _ := p.record.last(); strings.Contains(fmt.Sprint(rec), secretToken) {
			t.Error("the record holds what nobody classified")
		}
	})
	t.Run("a panic", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.roles.panics = true
		p.wantRefused("internal", "POST", "/posts", "{}")
	})
	t.Run("a panic while it is sent", func(t *testing.T) {
		p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.Transport = faulty{} })
		for i, call := range []struct{ method, path string }{{"POST", "/posts"}, {"PUT", "/inference"}} {
			_, answer := p.send(call.method, call.path, "{}")
			if rec, n := p.record.last(); n != i+1 || rec.State != ledger.StateIndeterminate || rec.Code != "indeterminate" ||
				!strings.Contains(answer, `"code":"indeterminate"`) {
				t.Errorf("%s: %d records, the last %s with %s; answer %s", call.path, n, rec.State, rec.Code, answer)
			}
		}
	})
	t.Run("a panic while its intent is written", func(t *testing.T) {
		for kept, state := range map[bool]ledger.State{true: ledger.StateFailed, false: ledger.StateRefused} {
			p := newPostRig(t, created, nil)
			p.record.panics, p.record.kept = true, kept
			p.send("POST", "/posts", "{}")
			if rec, n := p.record.last(); n != 1 || rec.State != state || rec.Code != "internal" || len(p.sent) != 0 {
				t.Errorf("kept %t: %d records, the last %s with %s", kept, n, rec.State, rec.Code)
			}
		}
	})
	t.Run("a key used before", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.record.fail = &ledger.ConsumedError{Key: ledger.Key{Kind: "capability", ID: "cap_1"}}
		p.wantRefused("replayed", "POST", "/posts", "{}")
	})
	t.Run("nobody knows whether the intent is durable", func(t *testing.T) {
		for kept, state := range map[bool]ledger.State{true: ledger.StateFailed, false: ledger.StateRefused} {
			p := newPostRig(t, created, nil)
			p.record.fail, p.record.kept = ledger.Unavailable("commit", errors.New("connection lost")), kept
			_, answer := p.send("POST", "/posts", "{}")
			rec, n := p.record.last()
			if !strings.Contains(answer, `"code":"ledger_unavailable"`) || len(p.sent) != 0 || n != 1 || rec.State != state ||
				rec.Code != "ledger_unavailable" {
				t.Errorf("kept %t: got %s, %d calls sent, %d records, %+v", kept, answer, len(p.sent), n, rec)
			}
		}
	})
	t.Run("a refusal while the ledger is away", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.roles.fail["gate"], p.record.away = refusal, true
		p.wantRefused("policy_denied", "POST", "/posts", "{}")
	})
	t.Run("an intent while the ledger is away", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.record.fail, p.record.away = ledger.Unavailable("begin", errors.New("no connection")), true
		p.wantRefused("ledger_unavailable", "POST", "/posts", "{}")
	})
	t.Run("evidence for another event", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.roles.otherEvent = true
		p.wantRefused("artifacts_mismatch", "POST", "/posts", "{}")
	})
	other := evidence.HashBytes([]byte("other"))
	for name, change := range map[string]func(*evidence.TriggerReceipt){
		"a receipt for another binding":      func(c *evidence.TriggerReceipt) { c.BindingHash = other },
		"a receipt for another origin proof": func(c *evidence.TriggerReceipt) { c.OriginProofHash = other },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			p.roles.receiptOf = change
			p.wantRefused("artifacts_mismatch", "POST", "/posts", "{}")
		})
	}
	for name, change := range map[string]func(*evidence.ActionGrant){
		"a grant for another decision": func(c *evidence.ActionGrant) { c.PolicyDecisionHashes = []string{other} },
		"a grant for several decisions": func(c *evidence.ActionGrant) {
			c.PolicyDecisionHashes = append(c.PolicyDecisionHashes, other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			p.roles.grantOf = change
			p.wantRefused("artifacts_mismatch", "POST", "/posts", "{}")
		})
	}
	t.Run("a receipt by an unknown key", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		registry, err := custody.NewMemory("registry")
		must(t, err)
		p.roles.receipt = newIssuer(t, registry, new([]string), evidence.TriggerReceiptKind, "receipt")
		p.wantRefused("signature_invalid", "POST", "/posts", "{}")
	})
}

func TestCallsThatAreRefused(t *testing.T) {
	p := newPostRig(t, created, nil)
	for _, tt := range []struct {
		name, code, method, path, body string
		header                         []string
	}{
		{"no rule", "action_unmatched", "POST", "/other", "{}", nil},
		{"another method", "action_unmatched", "DELETE", "/posts", "", nil},
		{"upper case", "action_unmatched", "POST", "/Posts", "{}", nil},
		{"a slash after it", "action_unmatched", "POST", "/posts/", "{}", nil},
		{"two slashes", "request_malformed", "POST", "//posts", "{}", nil},
		{"a needless escape", "request_malformed", "POST", "/%70osts", "{}", nil},
		{"an escaped dot segment", "request_malformed", "POST", "/x/%2e%2e/posts", "{}", nil},
		{"a query", "override_refused", "POST", "/posts?a=b", "{}", nil},
		{"an empty query", "override_refused", "POST", "/posts?", "{}", nil},
		{"a method override", "override_refused", "POST", "/posts", "{}", []string{"X-HTTP-Method-Override", "DELETE"}},
		{"an upgrade", "egress_denied", "GET", "/", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		{"no JSON", "content_malformed", "POST", "/posts", "{", nil},
		{"a duplicate key", "content_malformed", "POST", "/posts", `{"a":1,"\u0061":2}`, nil},
		{"a number without a canonical form", "content_malformed", "POST", "/posts", `{"a":9007199254740993}`, nil},
		{"deep nesting", "content_malformed", "POST", "/posts", strings.Repeat("[", 101) + strings.Repeat("]", 101), nil},
		{"an encoded body", "content_malformed", "POST", "/posts", "{}", []string{"Content-Encoding", "gzip"}},
		{"two types", "content_malformed", "POST", "/posts", "{}", []string{"Content-Type", "text/plain"}},
		{"a large body", "content_too_large", "POST", "/posts", `"` + strings.Repeat("x", 1<<20) + `"`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.T = t
			p.wantRefused(tt.code, tt.method, tt.path, tt.body, tt.header...)
		})
	}
}

func TestHeadersOfAnAction(t *testing.T) {
	credential, err := forward.NewCredential("X-Vendor-Token", "Bearer ", echo.Auto, fixed(secretToken))
	must(t, err)
	p := newPostRig(t, created, func(_ *PipelineOptions, actions []Action) {
		actions[0].Headers, actions[3].Headers, actions[3].Credential = []string{"If-Match", "X-Kept"}, []string{}, credential
	})
	usual := []string{"Accept", "*/*", "User-Agent", "sdk", "Authorization", "Bearer mine", "Idempotency-Key", "1",
		"Connection", "X-Kept", "Traceparent", "00", "Sec-Fetch-Mode", "cors"}
	for _, tt := range []struct {
		code, path string
		header     []string
	}{
		{"", "/posts", nil},
		{"", "/posts", []string{"X-Kept", "1", "if-match", "2"}},
		{"", "/raw", []string{"X-Vendor-Token", "mine"}},
		{"", "/query", []string{"On-Behalf-Of", "somebody"}},
		{"override_refused", "/posts", []string{"On-Behalf-Of", "somebody"}},
		{"override_refused", "/posts", []string{"X_Kept", "1"}},
		{"override_refused", "/raw", []string{"X-Kept", "1"}},
		{"override_refused", "/raw", []string{"Content-Encoding", "gzip"}},
		{"override_refused", "/raw", []string{"X-Forwarded-For", "192.0.2.1"}},
	} {
		t.Run(tt.path+" "+strings.Join(tt.header, " "), func(t *testing.T) {
			p.T, p.roles.token = t, ""
			header := append(usual[:len(usual):len(usual)], tt.header...)
			if tt.code != "" {
				p.wantRefused(tt.code, "POST", tt.path, "{}", header...)
			} else if resp, answer := p.send("POST", tt.path, "{}", header...); resp.StatusCode != http.StatusCreated {
				t.Errorf("got %d %s", resp.StatusCode, answer)
			}
		})
	}
}

// An agent can be refused as often as it likes.
func TestRecordsOfRefusalsAreSmall(t *testing.T) {
	p := newPostRig(t, created, nil)
	long := strings.Repeat("A", 30_000)
	p.wantRefused("action_unmatched", long, "/"+long, "")
	if rec, _ := p.record.last(); len(rec.Method) > 40 || len(rec.Path) > 1100 || !strings.HasPrefix(rec.Path, "/AAA") ||
		!strings.HasSuffix(rec.Path, "…") {
		t.Errorf("the record holds a method of %d bytes and a path of %d", len(rec.Method), len(rec.Path))
	}
	p.wantRefused("not_found", long, "http://"+InternalHost+"/"+long, "")
	p.wantRefused("artifact_malformed", "POST", "/query?"+long, "{}")
	raw, err := json.Marshal(p.record.posts)
	must(t, err)
	if len(raw) > 6<<10 {
		t.Errorf("the three records have %d bytes", len(raw))
	}
	p.send("GET", "/"+long, "")
	if rec, _ := p.record.last(); len(rec.Path) != 1+len(long) {
		t.Errorf("the path of a call that was sent is cut to %d bytes", len(rec.Path))
	}
}

func TestQueryIsPartOfTheResource(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.send("POST", "/query?a=b", "{}")
	if rec, _ := p.record.last(); rec.Resource != "POST /query?a=b" || rec.State != ledger.StateForwarded {
		t.Errorf("got %+v", rec)
	}
}

func TestRawBodiesAreSpooled(t *testing.T) {
	p := newPostRig(t, created, nil)
	body := strings.Repeat("\x00binary", 400_000)
	resp, answer := p.send("POST", "/raw", body, "Content-Type", "multipart/form-data; boundary=x")
	if len(p.body) != 1 {
		t.Fatalf("%d calls arrived: %d %s", len(p.body), resp.StatusCode, answer)
	}
	rec, _ := p.record.last()
	if resp.StatusCode != http.StatusCreated || p.body[0] != body || rec.ContentHash != evidence.HashBytes([]byte(body)) ||
		rec.BytesOut != int64(len(body)) {
		t.Errorf("status %d, %d bytes arrived, record %+v", resp.StatusCode, len(p.body[0]), rec)
	}
}

// TestRefusedPostsAreGivenBack: a post refused after its event has paid is given back, unless an API that takes part
// has seen it.
func TestRefusedPostsAreGivenBack(t *testing.T) {
	for _, tt := range []struct {
		step        string
		back, shown bool // by our own gate, and by an API that takes part
	}{
		{"deployment", false, false}, {"challenge", false, false}, {"trigger", false, false}, // the event has not paid
		{"decision", true, true}, {"gate", true, false}, {"proof", true, false},
	} {
		for _, presents := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.step, presents), func(t *testing.T) {
				p := newPostRig(t, created, func(_ *PipelineOptions, actions []Action) { actions[0].TakesPart = presents })
				p.roles.fail[tt.step] = refusal.New("policy_denied", "refused by the test")
				p.roles.unsentAt = func() {
					if rec, n := p.record.last(); n != 1 || rec.State != ledger.StateRefused || rec.Code != "policy_denied" {
						t.Errorf("the event is given back before the refusal is on record: %+v", rec)
					}
				}
				p.wantRefused("policy_denied", "POST", "/posts", "{}")
				if want := presents && tt.shown || !presents && tt.back; (len(p.roles.unsent) == 1) != want {
					t.Errorf("given back %q", p.roles.unsent)
				}
			})
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Run("the upstream cannot be reached", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.upstream.Close()
		p.roles.unsentAt = func() {
			if rec, n := p.record.last(); n != 1 || rec.State != ledger.StateFailed || rec.Code != "upstream_unreachable" {
				t.Errorf("the event is given back before the outcome is durable: %+v", rec)
			}
		}
		_, answer := p.send("POST", "/posts", "{}")
		rec, n := p.record.last()
		if n != 1 || rec.State != ledger.StateFailed || rec.Code != "upstream_unreachable" ||
			!strings.Contains(answer, "upstream_unreachable") {
			t.Errorf("got %+v, %s", rec, answer)
		}
		if !strings.Contains(answer, "connection refused") {
			t.Errorf("the answer does not say why: %s", answer)
		}
		if want := "evt_1 worker-1 create_post " + rec.BindingHash; !slices.Equal(p.roles.unsent, []string{want}) {
			t.Errorf("given back %q, want %q", p.roles.unsent, want)
		}
	})
	t.Run("the upstream cannot be reached, nor the ledger", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.upstream.Close()
		p.roles.admitted = func() { p.record.away = true } // once the post is on its way
		p.send("POST", "/posts", "{}")
		if len(p.roles.unsent) != 0 {
			t.Errorf("given back, although the outcome is not durable: %q", p.roles.unsent)
		}
	})
	t.Run("the upstream of an API that takes part cannot be reached", func(t *testing.T) {
		p := newPostRig(t, created, takesPart)
		p.upstream.Close()
		p.send("POST", "/posts", "{}")
		if rec, _ := p.record.last(); rec.State != ledger.StateFailed || len(p.roles.unsent) != 0 {
			t.Errorf("given back %q, record %+v", p.roles.unsent, rec)
		}
	})
	t.Run("an address that may not be dialled", func(t *testing.T) {
		p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) {
			public, err := upstream.NewTransport(
				upstream.Options{Dialer: upstream.Dialer{Resolver: names{hostOf(0): {loopback}}}})
			must(t, err)
			o.Transport = public
		})
		p.wantRefused("egress_address_denied", "GET", "/x", "")
		p.send("POST", "/posts", "{}") // its intent is durable, so it has an outcome
		if rec, n := p.record.last(); n != 2 || rec.State != ledger.StateFailed || rec.Code != "egress_address_denied" ||
			len(p.sent) != 0 {
			t.Errorf("%d calls arrived, record %+v", len(p.sent), rec)
		}
	})
	t.Run("the upstream is lost after it was sent", func(t *testing.T) {
		p := newPostRig(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil)
		p.upstream.Config.ErrorLog = nil
		p.send("POST", "/posts", "{}")
		if rec, n := p.record.last(); n != 1 || rec.State != ledger.StateIndeterminate || len(p.sent) != 1 {
			t.Errorf("%d calls arrived, record %+v", len(p.sent), rec)
		}
	})
	t.Run("the agent goes away", func(t *testing.T) {
		arrived, answer := make(chan struct{}), make(chan struct{})
		p := newPostRig(t, func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-answer
			w.WriteHeader(http.StatusCreated)
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := p.client.Do(p.request(ctx, "POST", "/posts", "{}")); err == nil {
				resp.Body.Close()
			}
		}()
		<-arrived
		cancel()
		<-done
		close(answer)
		if rec := p.wait(1); rec.State != ledger.StateForwarded || rec.Status != 201 {
			t.Errorf("got %+v", rec)
		}
	})
}

// leftTriggers answers once the agent has left.
type leftTriggers struct {
	*fakeRoles
	asked  chan struct{}
	answer error
}

func (l leftTriggers) Evidence(ctx context.Context, _ string, _ evidence.Binding) (trigger.Evidence, error) {
	close(l.asked)
	<-ctx.Done()
	return trigger.Evidence{}, l.answer
}

// TestAgentLeavesEarly: when the agent leaves, no other party is blamed, and a verdict is kept.
func TestAgentLeavesEarly(t *testing.T) {
	for code, want := range map[string]string{"process_unavailable": "client_gone", "event_closed": "event_closed"} {
		t.Run(code, func(t *testing.T) {
			left := leftTriggers{asked: make(chan struct{}), answer: refusal.New(code, "said the trigger service")}
			p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) {
				left.fakeRoles = o.Triggers.(*fakeRoles)
				o.Triggers = left
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-left.asked; cancel() }()
			if resp, err := p.client.Do(p.request(ctx, "POST", "/posts", "{}")); err == nil {
				resp.Body.Close() // it came while the client left
			} else if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			must(t, p.Proxy.Shutdown(context.Background())) // waits for running calls
			rec, n := p.record.last()
			if n != 1 || rec.Code != want || rec.State != ledger.StateRefused ||
				!strings.Contains(rec.Reason, "said the trigger service") || len(p.sent) != 0 {
				t.Errorf("%d records, the last %s, %s: %s", n, rec.State, rec.Code, rec.Reason)
			}
		})
	}
}

func TestAgentSolves(t *testing.T) {
	p := newPostRig(t, created, nil)
	ask := func() challenge.Challenge {
		resp, answer := p.send("POST", "/solve", "{}")
		var d problem.Details
		must(t, json.Unmarshal([]byte(answer), &d))
		if resp.StatusCode != http.StatusPreconditionRequired || d.Code != "challenge_required" {
			t.Fatalf("got %d %s", resp.StatusCode, answer)
		}
		ch, err := challenge.ParseChallenge(d.Challenge)
		must(t, err)
		return ch
	}
	ch := ask()
	answers, err := challenge.Solve(context.Background(), ch.Tasks)
	must(t, err)
	raw, err := json.Marshal(evidence.Response{ChallengeID: ch.ID, Answers: answers})
	must(t, err)
	response := base64.RawURLEncoding.EncodeToString(raw)
	const token, answer = "ActionProof-Challenge", "ActionProof-Response"
	p.wantRefused("challenge_refused", "POST", "/solve", "{}", token, ch.Token)
	p.wantRefused("challenge_refused", "POST", "/solve", "{}", token, ch.Token, answer, response, answer, response)
	p.wantRefused("challenge_refused", "POST", "/solve", "{}", token, ch.Token, answer, "no base64!")
	p.wantRefused("challenge_refused", "POST", "/solve", `{"other":1}`, token, ch.Token, answer, response)
	if resp, body := p.send("POST", "/solve", "{}", token, ch.Token, answer, response); resp.StatusCode !=
		http.StatusCreated {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if h := p.sent[0].Header; h.Get(token) != "" || h.Get(answer) != "" {
		t.Error("the answer went to the upstream")
	}
}

func TestEgress(t *testing.T) {
	next := make(chan struct{})
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/events" {
			created(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			flush(w, fmt.Sprintf("data: %d\n\n", i))
			<-next
		}
	}, nil)
	resp := p.start(t.Context(), "GET", "/events", "")
	events := bufio.NewReader(resp.Body)
	for i := range 3 { // each event arrives before the next is made
		line, err := events.ReadString('\n')
		must(t, err)
		if line != fmt.Sprintf("data: %d\n", i) {
			t.Errorf("got %q", line)
		}
		_, err = events.ReadString('\n')
		must(t, err)
		next <- struct{}{}
	}
	_, _ = io.Copy(io.Discard, resp.Body)

	p.send("PUT", "/inference", "{}", "Authorization", "Bearer the-agents-own")
	if got := p.sent[1].Header.Get("Authorization"); got != "Bearer "+secretToken {
		t.Errorf("the credential was not injected: %s", got)
	}
	p.send("GET", "/x", "", "Authorization", "Bearer the-agents-own")
	if got := p.sent[2].Header.Get("Authorization"); got != "Bearer the-agents-own" {
		t.Errorf("a rule without a credential changed the agent's own: %s", got)
	}
	if rec, n := p.record.last(); n != 3 || rec.Flow != "egress" || rec.State != ledger.StateForwarded ||
		rec.Rule != "reads" {
		t.Errorf("%d records, %+v", n, rec)
	}
}

// A call without evidence is not sent if its record might be lost.
func TestNoRoomForARecord(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.record.full = ledger.Unavailable("keep another record", errors.New("it is away"))
	p.wantRefused("ledger_unavailable", "GET", "/x", "")
	p.wantRefused("ledger_unavailable", "PUT", "/inference", "{}")
	p.record.full = nil
	if resp, _ := p.send("GET", "/x", ""); resp.StatusCode != http.StatusCreated {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestAnswerBeforeTheRequestEnds(t *testing.T) {
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		for first := make([]byte, 5); ; {
			n, err := io.ReadFull(r.Body, first)
			if n == 0 || err != nil {
				return
			}
			_, _ = w.Write(first)
			flush(w)
		}
	}, nil)
	body, request := io.Pipe()
	req, err := http.NewRequest("PUT", p.base+"/inference", body)
	must(t, err)
	req.ContentLength = 15
	req.Header.Set("X-Unread", "1")
	go func() { _, _ = request.Write([]byte("one..")) }()
	resp, err := p.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	for _, want := range []string{"one..", "two..", "three"} {
		if want != "one.." {
			_, err = request.Write([]byte(want))
			must(t, err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	must(t, request.Close())
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
}

func TestSessionEndsInsideATunnel(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.send("GET", "/x", "")
	p.sessions.Close(p.session.ID)
	p.wantRefused("session_required", "GET", "/x", "")
	resp, _ := p.send("GET", "/x", "")
	if resp.StatusCode != http.StatusProxyAuthRequired || resp.Header.Get("Proxy-Authenticate") == "" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
}

func TestSessionEndsWhileItsPostIsVerified(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.roles.admitted = func() { p.sessions.Close(p.session.ID) }
	p.wantRefused("session_required", "POST", "/posts", "{}")
	p.session = p.sessions.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1")
	p.roles.admitted = func() { p.sessions.OpenStanding(trigger.Event{ID: "evt_3"}, "worker-1") } // not the call's session
	p.wantRefused("session_required", "POST", "/posts", "{}")
}

func TestRefusedConnectLeavesOneRecord(t *testing.T) {
	p := newPostRig(t, created, nil)
	for _, tt := range []struct{ name, request, code string }{
		{"no rule for the host", "CONNECT elsewhere.example.org:443 HTTP/1.1\r\nHost: elsewhere.example.org:443\r\n\r\n",
			"egress_denied"},
		{"wrong credentials",
			"CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\nProxy-Authorization: Basic c2VzOm5v\r\n\r\n",
			"session_required"},
		{"not a proxy request", "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", "not_a_proxy_request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, before := p.record.last()
			c := p.Dial()
			defer c.Close()
			resp := roundTripRaw(t, c, tt.request)
			var d problem.Details
			must(t, json.NewDecoder(resp.Body).Decode(&d))
			rec, n := p.record.last()
			if d.Code != tt.code || n != before+1 || rec.Code != tt.code || rec.ID != d.Post {
				t.Errorf("answer %+v, %d records, %+v", d, n-before, rec)
			}
		})
	}
}

func TestInternalPages(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.Standing = true })
	const at = "http://" + InternalHost
	if _, body := p.send("GET", at+"/v1/event", ""); !strings.Contains(body, `"id":"evt_1"`) {
		t.Errorf("got %s", body)
	}
	if _, body := p.send("GET", at+"/v1/ca.pem", ""); body != "CA" {
		t.Errorf("got %s", body)
	}
	p.wantRefused("not_found", "GET", at+"/v1/sessions", "")
	p.wantRefused("not_found", "POST", at+"/v1/event", "{}")
	p.wantRefused("query_malformed", "GET", at+"/v1/event/next?wait=1h", "")
	if _, body := p.send("GET", at+"/v1/event/next?wait=1s", ""); !strings.Contains(body, `"id":"evt_next"`) {
		t.Errorf("got %s", body)
	}
	if _, open := p.sessions.Get(p.session.ID); open {
		t.Error("the earlier session is still open")
	}
	if len(p.roles.done) != 1 || p.roles.done[0] != "evt_1" {
		t.Errorf("ended events: %v", p.roles.done)
	}
	p.roles.fail["claim"] = refusal.New("event_none", "none")
	p.wantRefused("event_none", "GET", at+"/v1/event/next?wait=0s", "")
	if _, body := p.send("GET", at+"/v1/event", ""); !strings.Contains(body, `"id":"evt_next"`) || len(p.roles.done) != 1 {
		t.Errorf("after waiting in vain: %s, ended events: %v", body, p.roles.done)
	}
	p.sessions.CloseStanding()
	p.wantRefused("session_required", "GET", at+"/v1/event", "")

	single := newPostRig(t, created, nil)
	single.wantRefused("event_closed", "GET", at+"/v1/event/next", "")
}

func TestSessions(t *testing.T) {
	s := session.NewSet(time.Now)
	session, password, err := s.Open(trigger.Event{ID: "evt_1"}, "worker-1", nil)
	must(t, err)
	if got, err := s.Find(basic(session.ID, password)); err != nil || got != session {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = s.Find("")
	wantCode(t, err, "session_required")
	standing := s.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1")
	if got, err := s.Find(""); err != nil || got != standing {
		t.Errorf("got %v, %v", got, err)
	}
	for name, header := range map[string]string{
		"wrong password": basic(session.ID, password+"x"), "no password": basic(session.ID, ""),
		"unknown session":                      basic("ses_x", password),
		"the standing session has no password": basic(standing.ID, ""), "no Basic": "Bearer x", "no base64": "Basic %",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Find(header)
			wantCode(t, err, "session_required")
		})
	}
	first := session.Transcript()
	session.Note("a")
	second := session.Transcript()
	session.Note("a")
	if first == second || second == session.Transcript() || !evidence.IsHash(second) {
		t.Error("the transcript does not grow with each call")
	}
	if !s.Close(session.ID) || s.Close(session.ID) {
		t.Error("a session is closed once")
	}
	_, err = s.Find(basic(session.ID, password))
	wantCode(t, err, "session_required")
	if session.Life().Err() == nil {
		t.Error("the life of a closed session has not ended")
	}
}

// TestSessionOfAListener: only the listener identifies such a session; it has no password.
func TestSessionOfAListener(t *testing.T) {
	s := session.NewSet(time.Now)
	session, err := s.OpenListening(trigger.Event{ID: "evt_1"}, "worker-1", nil)
	must(t, err)
	other, password, err := s.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil)
	must(t, err)
	for _, header := range []string{"", basic(other.ID, password), "Bearer x"} {
		if got, err := s.Of(intercept.Route{Session: session.ID, ProxyAuthorization: header}); err != nil || got != session {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	for _, header := range []string{basic(session.ID, ""), basic(session.ID, password),
		basic(session.ID, strings.Repeat("\x00", 32))} {
		_, err := s.Of(intercept.Route{ProxyAuthorization: header})
		wantCode(t, err, "session_required")
	}
	s.OpenStanding(trigger.Event{ID: "evt_3"}, "worker-1")
	s.Close(session.ID)
	_, err = s.Of(intercept.Route{Session: session.ID})
	wantCode(t, err, "session_required")
}

type faulty struct{}

func (faulty) RoundTrip(*http.Request) (*http.Response, error) { panic("a fault in the transport") }

type fixed string

func (f fixed) Secret(context.Context) (string, error) { return string(f), nil }
func (fixed) Refused(string)                           {}

// rotating changes its secret once it is refused.
type rotating struct {
	secrets []string
	fail    error
}

func (r *rotating) Secret(context.Context) (string, error) { return r.secrets[0], r.fail }

func (r *rotating) Refused(secret string) {
	if secret == r.secrets[0] {
		r.secrets = r.secrets[1:]
	}
}

// TestCredentialIsReplaced: a refused credential is read again for the next call, and no call is repeated.
func TestCredentialIsReplaced(t *testing.T) {
	for _, call := range []struct{ method, path string }{{"POST", "/posts"}, {"PUT", "/inference"}} {
		t.Run(call.path, func(t *testing.T) {
			source := &rotating{secrets: []string{"old-token", "new-token"}}
			credential, err := forward.NewCredential("Authorization", "Bearer ", echo.Auto, source)
			must(t, err)
			p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer old-token" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}, func(_ *PipelineOptions, actions []Action) { actions[0].Credential = credential })
			for i, want := range []int{401, 200} {
				p.roles.token = source.secrets[0]
				if resp, _ := p.send(call.method, call.path, "{}"); resp.StatusCode != want || len(p.sent) != i+1 {
					t.Errorf("call %d: status %d, %d calls sent", i, resp.StatusCode, len(p.sent))
				}
			}
			source.fail = refusal.New("custody_unavailable", "not now")
			p.wantRefused("custody_unavailable", call.method, call.path, "{}")
			source.fail = nil
			for _, secret := range []string{"", "seven77", "two\r\nlines", "an end\n"} {
				source.secrets = []string{secret}
				p.wantRefused("custody_unavailable", call.method, call.path, "{}")
			}
		})
	}
}

// TestCookiesForACredential: cookies for an injected credential do not reach the agent.
func TestCookiesForACredential(t *testing.T) {
	p := newPostRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Set-Cookie", "session=logged-in")
		w.Header().Add("Set-Cookie", "other=1")
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "session=logged-in")
	}, nil)
	for _, tt := range []struct {
		method, path string
		cookies      int
	}{{"POST", "/posts", 0}, {"PUT", "/inference", 0}, {"GET", "/x", 2}} {
		if resp, _ := p.send(tt.method, tt.path, "{}"); resp.StatusCode != http.StatusOK ||
			len(resp.Cookies()) != tt.cookies || len(resp.Trailer) > 0 {
			t.Errorf("%s %s: status %d, %d cookies, trailers %v", tt.method, tt.path, resp.StatusCode, len(resp.Cookies()),
				resp.Trailer)
		}
	}
}

// TestCredentialHasNoSecondSpelling: the agent's header in another spelling does not go out beside the credential.
func TestCredentialHasNoSecondSpelling(t *testing.T) {
	credential, err := forward.NewCredential("X-Vendor-Token", "", echo.Auto, fixed(secretToken))
	must(t, err)
	p := newPostRig(t, created, func(_ *PipelineOptions, actions []Action) { actions[0].Credential = credential })
	for _, name := range []string{"X-Vendor-Token", "X_Vendor_Token", "x-vendor_token", "X.Vendor.Token"} {
		p.send("PUT", "/inference", "{}", name, "mine")
	}
	for _, r := range p.sent {
		for name, values := range r.Header {
			if wire.CGIName(name) == "X-Vendor-Token" &&
				(name != "X-Vendor-Token" || len(values) != 1 || values[0] != secretToken) {
				t.Errorf("the upstream saw %s: %s", name, values)
			}
		}
	}
	req, err := http.NewRequest("PUT", p.base+"/inference", io.MultiReader(strings.NewReader("{}")))
	must(t, err)
	req.Trailer = http.Header{"X-Vendor-Token": {"mine"}, "X-Checksum": {"1"}}
	resp, err := p.client.Do(req)
	must(t, err)
	_ = resp.Body.Close()
	if len(p.sent) != 5 || len(p.sent[4].Trailer) != 1 || p.sent[4].Trailer.Get("X-Checksum") != "1" {
		t.Errorf("the upstream saw %d calls, the last with the trailers %v", len(p.sent), p.sent[len(p.sent)-1].Trailer)
	}
}

// TestRefusalOfALargeBody: clients that send everything before they read still get the refusal.
func TestRefusalOfALargeBody(t *testing.T) {
	for _, tt := range []struct {
		name, path, code string
		size             int
	}{
		{"no rule", "/elsewhere", "action_unmatched", 16 << 20},
		{"larger than the action takes", "/posts", "content_too_large", 16 << 20},
		{"the connection is good for more", "/elsewhere", "action_unmatched", 1 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			host := strings.TrimPrefix(p.base, "https://")
			c := p.MustTunnel(host)
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
				tt.path, host, tt.size)
			resp := roundTripRaw(t, c, head+strings.Repeat(" ", tt.size))
			var d problem.Details
			raw, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, json.Unmarshal(raw, &d)); err != nil || d.Code != tt.code {
				t.Fatalf("got %q, %v; want %s", raw, err, tt.code)
			}
			if resp.Close {
				return
			}
			if resp := roundTripRaw(t, c, "GET /after HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); resp.StatusCode !=
				http.StatusCreated {
				t.Errorf("after the refusal: %s", resp.Status)
			}
		})
	}
}

// awayKey's custody does not answer.
type awayKey struct{}

func (awayKey) Current(context.Context) (custody.Version, error) {
	return custody.Version{}, custody.Unavailable(nil, "the key is away")
}
func (awayKey) Properties() custody.Properties { return custody.Properties{} }

func TestCustodyIsAway(t *testing.T) {
	o := signer.Options{Issuer: "away", Audience: "aud", Lifetime: time.Minute, Now: time.Now}
	runtime, err1 := signer.New(evidence.RuntimeAttestationKind, awayKey{}, o)
	session, err2 := signer.New(evidence.SessionReceiptKind, awayKey{}, o)
	prove, err3 := signer.New(evidence.RequestProofKind, awayKey{}, o)
	must(t, errors.Join(err1, err2, err3))
	for name, change := range map[string]func(*PipelineOptions){
		"attestation and session receipt": func(o *PipelineOptions) {
			o.Attest = signer.NewAttester(runtime, session, signer.Access{})
		},
		"request proof": func(o *PipelineOptions) { o.Prove = prove },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { change(o) })
			p.wantRefused("custody_unavailable", "POST", "/posts", "{}")
		})
	}
}

func TestTimeoutsOfAPost(t *testing.T) {
	t.Run("the body", func(t *testing.T) {
		p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.Timeouts.Step = 100 * time.Millisecond })
		body, stop := io.Pipe()
		defer stop.Close()
		resp, err := p.client.Post(p.base+"/posts", "application/json", io.MultiReader(strings.NewReader("{"), body))
		must(t, err)
		defer resp.Body.Close()
		var d problem.Details
		must(t, json.NewDecoder(resp.Body).Decode(&d))
		if d.Code != "content_incomplete" || len(p.sent) > 0 {
			t.Errorf("got %q, and %d calls went out", d.Code, len(p.sent))
		}
	})
	answered := func(t *testing.T, within time.Duration) bool {
		p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusCreated)
			must(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		}, func(o *PipelineOptions, _ []Action) { o.Timeouts.Forward = within })
		resp, err := p.client.Post(p.base+"/posts", "application/json", strings.NewReader("{}"))
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			return false
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the answer looks whole")
		}
		if post, _ := p.record.last(); post.State != ledger.StateForwarded || post.Code != "upstream_timeout" {
			t.Errorf("the record says %s, %s", post.State, post.Code)
		}
		return true
	}
	t.Run("the answer", func(t *testing.T) {
		// a busy machine needs longer to begin the answer
		for within := 100 * time.Millisecond; !answered(t, within); within *= 4 {
			if within > time.Minute {
				t.Fatal("no answer begins")
			}
		}
	})
}
