package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
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
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
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
	full   error // Reserve returns it
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

func (m *memoryRecord) Add(_ context.Context, p ledger.Record) error {
	if m.away {
		return ledger.Unavailable("write the record", errors.New("the file is locked"))
	}
	return m.AddLater(p)
}

func (m *memoryRecord) AddLater(p ledger.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.posts[p.ID]; ok {
		m.t.Errorf("a second record of %s", p.ID)
	}
	m.posts[p.ID] = p
	m.order = append(m.order, p.ID)
	return nil
}

func (m *memoryRecord) Reserve(ledger.Record, string, int) error { return m.full }
func (m *memoryRecord) Release(string)                           {}

func (m *memoryRecord) FinishLater(p ledger.Record) error {
	return m.Finish(context.Background(), p)
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
	token      string        // bound into the request proof; secretToken if empty
	bound      string        // bound instead of the token's header; that if empty
	done       []string      // events of ended sessions
	mu         sync.Mutex    // guards unsent
	unsent     []string      // posts given back
	unsentAt   func()        // called by Unsent
	admitted   func()        // called by Admit
	late       time.Duration // taken from the capability's minute
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
		Expires: time.Now().Add(time.Minute - f.late), Checks: checks,
		Keys: []ledger.Key{{Kind: "challenge", ID: "c"}}}, f.fail["gate"]
}

func (f *fakeRoles) Authorize(_ context.Context, p gate.AuthorizeRequest) (gate.Authorization, error) {
	if p.AccessTokenHash != evidence.HashBytes([]byte(cmp.Or(f.bound, "Bearer "+cmp.Or(f.token, secretToken)))) {
		return gate.Authorization{}, errors.New("another access token")
	}
	return gate.Authorization{Keys: []ledger.Key{{Kind: "capability", ID: "cap_1"}}}, f.fail["proof"]
}

func takesPart(_ *PipelineOptions, actions []rules.Action) { actions[0].TakesPart = true }

func expected(role string) evidence.Expected {
	return evidence.Expected{Issuers: []string{role}, Audiences: []string{"aud"}, KeyIDs: []string{role},
		MaxAge: time.Hour} // a slow machine takes minutes for one test
}

// newIssuer makes a role's signer and certifies its key.
func newIssuer[C any](t testing.TB, registry *custody.Memory, certificates *[]string, kind evidence.Kind[C],
	role string) *signer.Issuer[C] {
	t.Helper()
	key, err := custody.NewMemory(role)
	must(t, err)
	v, err := key.Current(context.Background())
	must(t, err)
	certify, err := signer.New(evidence.SignerCertificateKind(), registry,
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
		origin:   newIssuer(t, registry, &certs, evidence.TriggerOriginProofKind(), "origin"),
		receipt:  newIssuer(t, registry, &certs, evidence.TriggerReceiptKind(), "receipt"),
		decision: newIssuer(t, registry, &certs, evidence.PolicyDecisionKind(), "decision"),
		grant:    newIssuer(t, registry, &certs, evidence.ActionGrantKind(), "grant"),
	}
	runtime := newIssuer(t, registry, &certs, evidence.RuntimeAttestationKind(), "runtime")
	session := newIssuer(t, registry, &certs, evidence.SessionReceiptKind(), "session")
	prove := newIssuer(t, registry, &certs, evidence.RequestProofKind(), "prove")
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
		NetworkOptions: NetworkOptions{CAPEM: []byte("CA")}}
}

func newPostRig(t testing.TB, answer http.HandlerFunc, change func(*PipelineOptions, []rules.Action)) *postRig {
	t.Helper()
	p := &postRig{sessions: session.NewSet(time.Now),
		record: &memoryRecord{t: t, posts: make(map[string]ledger.Record)}}
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
	credential, err := newCredential("Authorization", "Bearer ", fixed(secretToken))
	must(t, err)
	p.base = "https://" + at(0, p.upstream)
	var actions []rules.Action
	for _, name := range []string{"posts", "solve", "query", "raw"} {
		actions = append(actions, rules.Action{Name: name, Match: matching(t, p.base+"/"+name, "POST"), Subject: "agent",
			Action: "create_post", Content: rules.ContentJSON, MaxBody: 1 << 20, Credential: credential, Gate: p.roles})
	}
	actions[1].AgentSolves, actions[2].AllowQuery, actions[3].Content, actions[3].MaxBody = true, true, rules.ContentRaw,
		4<<20
	egress := []rules.Egress{{Name: "reads", Match: matching(t, p.base+"/**", "GET")},
		{Name: "keyed", Match: matching(t, p.base+"/inference", "PUT", "POST"), Credential: credential}}
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
		po.Handler, po.Connect, po.Refuse, po.Refused = p.handler, p.handler.Connect, p.handler.Refuse,
			p.handler.Refused
	}, p.upstream)
	p.session = p.sessions.OpenStanding(trigger.Event{ID: "evt_1", Kind: evidence.TriggerSourceEvent, Source: "github"},
		"worker-1", "")
	p.client = p.rig.Client(http1)
	return p
}

// matchAt is a match at an action's origin.
func matchAt(a rules.Action, path string, methods ...string) match.Match {
	m := a.Match
	m.Path, m.Methods = path, methods
	return m
}

// reload continues with another pipeline, by these egress rules if any.
func (p *postRig) reload(egress ...rules.Egress) {
	p.T.Helper()
	o := p.pipeline.o
	o.After = p.pipeline
	if len(egress) > 0 {
		o.Rules = rulesFor(p.T, nil, egress)
	}
	var err error
	p.pipeline, err = NewPipeline(o)
	must(p.T, err)
	p.handler.Set(p.pipeline)
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

// want makes a call and demands this status. It returns the answer.
func (p *postRig) want(status int, method, path, body string, header ...string) string {
	p.T.Helper()
	resp, answer := p.send(method, path, body, header...)
	if resp.StatusCode != status {
		p.T.Fatalf("%s %.200s: got %d %s, want %d", method, path, resp.StatusCode, answer, status)
	}
	return answer
}

// wantLast demands n records, and of the last one, which it returns, the code and the other fields set in want.
func (p *postRig) wantLast(n int, want ledger.Record) ledger.Record {
	p.T.Helper()
	rec, got := p.record.last()
	wanted, has := reflect.ValueOf(want), reflect.ValueOf(rec)
	same := got == n && rec.Code == want.Code
	for i := range wanted.NumField() {
		same = same && (wanted.Field(i).IsZero() || reflect.DeepEqual(wanted.Field(i).Interface(),
			has.Field(i).Interface()))
	}
	if !same {
		p.T.Errorf("%d records, the last %+v, want %d, %+v", got, rec, n, want)
	}
	return rec
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

type faulty struct{}

func (faulty) RoundTrip(*http.Request) (*http.Response, error) { panic("a fault in the transport") }
