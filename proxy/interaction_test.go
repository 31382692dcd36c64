package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/signer"
)

// receiptsRig is a choke point that makes receipts. Its key and its ledger can be taken away.
type receiptsRig struct {
	*postRig
	ledger *faultyLedger
	key    *faultyKey
	node   *fakeNode
}

type faultyLedger struct {
	*ledger.Queue
	away atomic.Bool
}

func (f *faultyLedger) OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error {
	if f.away.Load() {
		return ledger.Unavailable("open a call", errors.New("the disk is full"))
	}
	return f.Queue.OpenCalls(ctx, calls...)
}

type faultyKey struct {
	*signer.Issuer[interaction.Receipt]
	away atomic.Bool
}

func (f *faultyKey) Issue(ctx context.Context, c interaction.Receipt) (evidence.Opened[interaction.Receipt], error) {
	if f.away.Load() {
		return evidence.Opened[interaction.Receipt]{}, errors.New("the key is away")
	}
	return f.Issuer.Issue(ctx, c)
}

// newReceiptsRig is a choke point that observes calls to a model at /v1/chat/completions.
func newReceiptsRig(t testing.TB, answer http.HandlerFunc) *receiptsRig {
	t.Helper()
	key, err := custody.NewMemory("interaction-key")
	must(t, err)
	issuer, err := signer.New(interaction.Kind, key, signer.Options{Issuer: "sidecar", Audience: "aud", Lifetime: interaction.Lifetime, Now: time.Now})
	must(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: time.Now})
	must(t, err)
	r := &receiptsRig{ledger: &faultyLedger{Queue: ledger.NewQueue(store, func(ledger.Record, error) {})}, key: &faultyKey{Issuer: issuer}}
	keeper, err := receipts.New(t.Context(), receipts.Options{
		Issuer: r.key, Ledger: r.ledger, Owner: strings.Repeat("o", 43), Agent: "agent", Runtime: "worker-1", Now: time.Now, Log: zap.NewNop(),
	})
	must(t, err)
	r.postRig = newPostRig(t, answer, func(o *PipelineOptions, actions []Action) {
		m := match.Match{Scheme: actions[0].Match.Scheme, Host: actions[0].Match.Host, Port: actions[0].Match.Port, Path: "/v1/chat/completions", Methods: []string{"POST"}}
		o.Rules, err = NewRules(actions, []Egress{{Name: "model", Match: m, Observe: &inference.Rule{Dialect: inference.OpenAIChat}, Generate: &generate.Rule{Models: []string{"m"}, MaxTokens: 100}}})
		must(t, err)
		o.Node = r.relay(t)
		o.Strict.ManifestHash, o.Receipts = evidence.HashBytes([]byte("manifest")), keeper
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		keeper.Close(ctx)
		must(t, r.ledger.Close())
	})
	return r
}

const askModel = `{"model":"gpt-5","messages":[{"role":"user","content":"` + secretText + `"}]}`

// chain waits until the session has so many receipts, and returns them.
func (r *receiptsRig) chain(t testing.TB, want int) (all []interaction.Receipt) {
	t.Helper()
	var stored []ledger.Receipt
	for deadline := time.Now().Add(time.Minute); len(stored) < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d receipts are stored, want %d", len(stored), want)
		}
		var err error
		stored, err = r.ledger.Chain(context.Background(), r.session.ID, 1, ledger.MaxChain)
		must(t, err)
	}
	for _, s := range stored {
		c, err := evidence.UnverifiedClaims(interaction.Kind, s.Token)
		must(t, err)
		all = append(all, c)
	}
	return all
}

// named returns what the last post names of its session's chain.
func (r *receiptsRig) named(t testing.TB) evidence.InteractionHead {
	t.Helper()
	named := r.roles.asked.Opened.SessionReceipt.Claims()
	if named.Interactions == nil || !slices.Contains(named.Observed, "interactions") {
		t.Fatalf("the post names no chain: %+v", named)
	}
	return *named.Interactions
}

// TestReceiptsOfASession: the calls of a session to a model, and its posts, are in one chain, also when the configuration is replaced in between. A
// post names what came before it.
func TestReceiptsOfASession(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	post := func() ledger.Record {
		t.Helper()
		resp, answer := r.send("POST", "/posts", "{}")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, answer)
		}
		id := resp.Header.Get("ActionProof-Post")
		for {
			if rec, _ := r.record.last(); rec.ID == id {
				return rec
			}
			time.Sleep(time.Millisecond)
		}
	}
	first := post()
	if h := r.named(t); h.Number != 0 {
		t.Errorf("the first post names %+v", h)
	}
	r.send("POST", "/v1/chat/completions", askModel) // an agent that has the answer posts at once
	second := post()
	h := r.named(t)
	if h.Number != 2 || len(h.OpenCalls) != 0 || second.Interactions == nil || second.Interactions.Number != 2 || second.Interactions.Head != h.HeadHash {
		t.Errorf("the second post names %+v, and its record %+v", h, second.Interactions)
	}
	o := r.pipeline.o
	o.After = r.pipeline
	next, err := NewPipeline(o)
	must(t, err)
	r.handler.Set(next)
	r.send("POST", "/v1/chat/completions", askModel)
	r.sessions.Close(r.session.ID)
	chain := r.chain(t, 5)
	for i, want := range []string{first.ID, "", second.ID, "", r.session.ID} {
		if c := chain[i]; want != "" && c.RequestID != want || c.Chain.SequenceNumber != int64(i+1) || i > 0 && c.Chain.PreviousReceiptHash == "" {
			t.Errorf("receipt %d is of %s, want %s: %+v", i+1, c.RequestID, want, c.Chain)
		}
	}
	if m := chain[1].Model; m.Model != "gpt-5" || m.AnsweredBy != "gpt-5-2025" || m.Figures.OutputTokens != interaction.Declared(6) || m.Host == "" || m.Rule != "model" {
		t.Errorf("the call to the model: %+v", m)
	}
	if p := chain[2].Post; p.BindingHash != second.BindingHash || len(p.Artifacts) != len(second.Artifacts) {
		t.Errorf("the post: %+v", p)
	}
	if total := chain[4].Session; total.Calls != 4 || total.CallsObserved != 4 || total.BytesOut != int64(2*len(askModel)+2*len("{}")) || total.BytesOut != total.BytesOutObserved {
		t.Errorf("the session counts %+v", total)
	}
	for _, rec := range r.record.posts {
		if strings.Contains(fmt.Sprintf("%+v", rec), "launch code") {
			t.Errorf("the record has what was said: %+v", rec)
		}
	}
}

// TestPostNamesOpenCalls: a call whose answer is still coming is named as open, and gets its receipt in the end.
func TestPostNamesOpenCalls(t *testing.T) {
	goOn := make(chan struct{})
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/posts" {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+"/v1/chat/completions", strings.NewReader(askModel))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp, answer := r.send("POST", "/posts", "{}"); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, answer)
	}
	h := r.named(t)
	if h.Number != 0 || len(h.OpenCalls) != 1 {
		t.Errorf("the post names %+v", h)
	}
	r.sessions.Close(r.session.ID) // the chain waits for the call
	close(goOn)
	_, _ = io.Copy(io.Discard, resp.Body)
	chain := r.chain(t, 3)
	if last := chain[1]; last.RequestID != h.OpenCalls[0] || last.Outcome != interaction.OutcomeCompleted || chain[2].Closing == nil {
		t.Errorf("the chain ends with %+v, %+v", last, chain[2])
	}
}

// TestReceiptsFailClosed: without the key of receipts a session that has called a model makes no post, and without the ledger no call is sent.
func TestReceiptsFailClosed(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	r.ledger.away.Store(true)
	r.wantRefused("ledger_unavailable", "POST", "/v1/chat/completions", askModel)
	r.ledger.away.Store(false)
	if resp, answer := r.send("POST", "/posts", "{}"); resp.StatusCode != http.StatusOK { // nothing was left of the call
		t.Fatalf("%d %s", resp.StatusCode, answer)
	}
	r.chain(t, 1)
	r.key.away.Store(true)
	r.send("POST", "/v1/chat/completions", askModel)
	r.wantModel(t)
	r.wantRefused("custody_unavailable", "POST", "/posts", "{}")
	r.key.away.Store(false)
	r.chain(t, 2)
	if resp, answer := r.send("POST", "/posts", "{}"); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, answer)
	}
	if h := r.named(t); h.Number != 2 {
		t.Errorf("the post names %+v", h)
	}
}

// TestHandedOver: a receipt says when the agent had the answer, and nothing where it went away before.
func TestHandedOver(t *testing.T) {
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for req.Context().Err() == nil {
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			if req.Header.Get("X-Model") == "whole" {
				return
			}
		}
	})
	for _, model := range []string{"left", "whole"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+"/v1/chat/completions", strings.NewReader(strings.Replace(askModel, "gpt-5", model, 1)))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Model", model)
		resp, err := r.client.Do(req)
		must(t, err)
		if model == "whole" {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		must(t, err)
		must(t, resp.Body.Close())
	}
	for _, c := range r.chain(t, 2) {
		if handed := c.Timing.ResponseSent != 0; handed != (c.Model.Model == "whole") {
			t.Errorf("the answer that was %s was handed over at %d: %s", c.Model.Model, c.Timing.ResponseSent, c.Outcome)
		}
	}
}

// with has the choke point go on with these egress rules alone.
func (r *receiptsRig) with(t testing.TB, egress ...Egress) {
	t.Helper()
	o := r.pipeline.o
	var err error
	o.Rules, err = NewRules(nil, egress)
	must(t, err)
	o.After = r.pipeline
	r.pipeline, err = NewPipeline(o)
	must(t, err)
	r.handler.Set(r.pipeline)
}

// TestWhatDidNotGoOut: a call that had no connection to its host is in no count of what went out, and no tool of that host was called: an agent can
// make as many as it likes, to every host of a rule that nobody answers at.
func TestWhatDidNotGoOut(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	rule := func(url string, change func(*Egress)) Egress {
		m, err := match.Parse(url, []string{http.MethodPost})
		must(t, err)
		e := Egress{Name: url, Match: m}
		change(&e)
		return e
	}
	observe := func(e *Egress) { e.Observe = &inference.Rule{Dialect: inference.OpenAIChat} }
	r.with(t,
		rule(r.base+"/v1/chat/completions", observe), rule("https://nowhere.example.com/v1/chat/completions", observe),
		rule("https://nowhere.example.com/mcp", func(e *Egress) { e.MCP = &mcp.Rule{Tools: []string{"look"}} }),
		rule("https://nowhere.example.com/other", func(*Egress) {}),
	)
	for _, call := range []struct{ path, body string }{
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`}, {"/v1/chat/completions", askModel}, {"/other", "{}"},
	} {
		if _, answer := r.send("POST", "https://nowhere.example.com"+call.path, call.body); !strings.Contains(answer, "upstream_unresolvable") {
			t.Fatal(answer)
		}
	}
	r.send("POST", "/v1/chat/completions", askModel)
	r.sessions.Close(r.session.ID)
	chain := r.chain(t, 3)
	if failed := chain[0]; failed.Outcome != interaction.OutcomeFailed || failed.RelayedCount != 0 || failed.Session.Calls != 0 {
		t.Errorf("the call that had no connection: %s, relayed %+v, %+v", failed.Outcome, failed.Relayed, failed.Session)
	}
	if end := chain[2].Session; end.Calls != 1 || end.CallsObserved != 1 || end.BytesOut != int64(len(askModel)) || end.BytesOutObserved != end.BytesOut {
		t.Errorf("one call went out, and the session counts %+v", end)
	}
}

// TestStreamOfAnEndedSession: a session whose agent leaves a call open is closed all the same, soon after its end.
func TestStreamOfAnEndedSession(t *testing.T) {
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/v1/chat/completions" {
			answerModels(w, req)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	})
	r.pipeline.o.Timeouts.Forward = 10 * time.Millisecond
	read, err := match.Parse(r.base+"/stream", []string{http.MethodGet})
	must(t, err)
	model, err := match.Parse(r.base+"/v1/chat/completions", []string{http.MethodPost})
	must(t, err)
	r.with(t, Egress{Name: "stream", Match: read}, Egress{Name: "model", Match: model, Observe: &inference.Rule{Dialect: inference.OpenAIChat}})
	r.send("POST", "/v1/chat/completions", askModel)
	resp, err := r.client.Get(r.base + "/stream")
	must(t, err)
	defer resp.Body.Close()
	r.sessions.Close(r.session.ID)
	if end := r.chain(t, 2)[1]; end.Closing == nil || end.Session.Calls != 2 {
		t.Errorf("the end: %+v", end)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the answer that was broken off looks whole")
	}
	for { // the record comes after the receipt
		if rec, _ := r.record.last(); rec.Path == "/stream" {
			if rec.Code != "session_required" {
				t.Errorf("the record says %s: %s", rec.Code, rec.Reason)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestReceiptCountsItsCall: a receipt counts the call that it is of, also where the answer brings it to the agent.
func TestReceiptCountsItsCall(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	_, answer := r.send("POST", "http://"+InternalHost+"/v1/generate", `{"prompt":"hello"}`)
	r.send("POST", "/v1/chat/completions", askModel)
	for i, c := range r.chain(t, 2) {
		if c.Session.Calls != int64(i+1) || c.Session.CallsObserved != c.Session.Calls {
			t.Errorf("receipt %d counts %+v; the first answer was %s", i+1, c.Session, answer)
		}
	}
}

// TestNothingIsKeptOfARequest: while its answer comes, a call keeps nothing of what its request says to the model.
func TestNothingIsKeptOfARequest(t *testing.T) {
	key := make([]byte, inference.MinKey)
	asked, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat}, []byte(askModel), key)
	must(t, err)
	c := &call{
		p: new(Pipeline), r: httptest.NewRequest(http.MethodPost, "/", http.NoBody), session: new(session.Session), held: new(body.Body),
	}
	m := &modelCall{plain: plain{c}, observer: inference.Observe(asked, time.Now(), inference.Options{Key: key, Now: time.Now})}
	_, err = m.sent(c.r)
	must(t, err)
	if m.observer.Request().Asked != nil || asked.AskedCount != 1 {
		t.Errorf("it keeps %+v", asked)
	}
}
