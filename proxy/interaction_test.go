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
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/signer"
)

// receiptsRig makes receipts. Its key and its ledger can fail.
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

// newReceiptsRig observes calls to a model at /v1/chat/completions.
func newReceiptsRig(t testing.TB, answer http.HandlerFunc) *receiptsRig {
	t.Helper()
	key, err := custody.NewMemory("interaction-key")
	must(t, err)
	issuer, err := signer.New(interaction.Kind, key,
		signer.Options{Issuer: "sidecar", Audience: "aud", Lifetime: interaction.Lifetime, Now: time.Now})
	must(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: time.Now})
	must(t, err)
	r := &receiptsRig{ledger: &faultyLedger{Queue: ledger.NewQueue(store, func(ledger.Record, error) {})},
		key: &faultyKey{Issuer: issuer}}
	keeper, err := receipts.New(t.Context(), receipts.Options{
		Issuer: r.key, Ledger: r.ledger, Owner: strings.Repeat("o", 43), Agent: "agent", Runtime: "worker-1",
		Now: time.Now,
		Log: zap.NewNop(),
	})
	must(t, err)
	r.postRig = newPostRig(t, answer, func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(t, actions,
			[]rules.Egress{{Name: "model", Match: matchAt(actions[0], "/v1/chat/completions", "POST"), Observe: chat,
				Generate: &generate.Rule{Models: []string{"m"}, MaxTokens: 100}}})
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

// chain waits for this many receipts of the session.
func (r *receiptsRig) chain(t testing.TB, want int) (all []interaction.Receipt) {
	t.Helper()
	var stored []ledger.Receipt
	eventually(t, func() bool {
		var err error
		stored, err = r.ledger.Chain(context.Background(), r.session.ID, 1, ledger.MaxChain)
		must(t, err)
		return len(stored) >= want
	}, "there are no %d receipts", want)
	for _, s := range stored {
		c, err := evidence.UnverifiedClaims(interaction.Kind, s.Token)
		must(t, err)
		all = append(all, c)
	}
	return all
}

func (r *receiptsRig) posts(t testing.TB) *http.Response {
	t.Helper()
	resp, answer := r.send("POST", "/posts", "{}")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, answer)
	}
	return resp
}

// named returns the chain's head in the last post.
func (r *receiptsRig) named(t testing.TB) evidence.InteractionHead {
	t.Helper()
	named := r.roles.asked.Opened.SessionReceipt.Claims()
	if named.Interactions == nil || !slices.Contains(named.Observed, "interactions") {
		t.Fatalf("the post names no chain: %+v", named)
	}
	return *named.Interactions
}

// Model calls and posts form one chain, across a reload. A post names what came before it.
func TestReceiptsOfASession(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	post := func() (rec ledger.Record) {
		t.Helper()
		id := r.posts(t).Header.Get("ActionProof-Post")
		eventually(t, func() bool { rec, _ = r.record.last(); return rec.ID == id }, "the post %s has no record", id)
		return rec
	}
	first := post()
	if h := r.named(t); h.Number != 0 {
		t.Errorf("the first post names %+v", h)
	}
	r.send("POST", "/v1/chat/completions", askModel) // an agent with the answer can post at once
	second := post()
	h := r.named(t)
	if h.Number != 2 || len(h.OpenCalls) != 0 || second.Interactions == nil || second.Interactions.Number != 2 ||
		second.Interactions.Head != h.HeadHash {
		t.Errorf("the second post names %+v, and its record %+v", h, second.Interactions)
	}
	r.reload()
	r.send("POST", "/v1/chat/completions", askModel)
	r.sessions.Close(r.session.ID)
	chain := r.chain(t, 5)
	for i, want := range []string{first.ID, "", second.ID, "", r.session.ID} {
		if c := chain[i]; want != "" && c.RequestID != want || c.Chain.SequenceNumber != int64(i+1) || i > 0 &&
			c.Chain.PreviousReceiptHash == "" {
			t.Errorf("receipt %d is of %s, want %s: %+v", i+1, c.RequestID, want, c.Chain)
		}
	}
	if m := chain[1].Model; m.Model != "gpt-5" || m.AnsweredBy != "gpt-5-2025" ||
		m.Figures.OutputTokens != interaction.Declared(6) || m.Host == "" || m.Rule != "model" {
		t.Errorf("the call to the model: %+v", m)
	}
	if p := chain[2].Post; p.BindingHash != second.BindingHash || len(p.Artifacts) != len(second.Artifacts) {
		t.Errorf("the post: %+v", p)
	}
	if total := chain[4].Session; total.Calls != 4 || total.CallsObserved != 4 ||
		total.BytesOut != int64(2*len(askModel)+2*len("{}")) || total.BytesOut != total.BytesOutObserved {
		t.Errorf("the session counts %+v", total)
	}
	for _, rec := range r.record.posts {
		if strings.Contains(fmt.Sprintf("%+v", rec), "launch code") {
			t.Errorf("the record has what was said: %+v", rec)
		}
	}
}

func TestPostNamesOpenCalls(t *testing.T) {
	goOn := make(chan struct{})
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/posts" {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		<-goOn
		_, _ = io.WriteString(w,
			"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	resp := r.start(t.Context(), "POST", "/v1/chat/completions", askModel)
	r.posts(t)
	h := r.named(t)
	if h.Number != 0 || len(h.OpenCalls) != 1 {
		t.Errorf("the post names %+v", h)
	}
	r.sessions.Close(r.session.ID) // the chain waits for the call
	close(goOn)
	_, _ = io.Copy(io.Discard, resp.Body)
	chain := r.chain(t, 3)
	if last := chain[1]; last.RequestID != h.OpenCalls[0] || last.Outcome != interaction.OutcomeCompleted ||
		chain[2].Closing == nil {
		t.Errorf("the chain ends with %+v, %+v", last, chain[2])
	}
}

// Without the receipt key a session with model calls cannot post; without the ledger no call is sent.
func TestReceiptsFailClosed(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	r.ledger.away.Store(true)
	r.wantRefused("ledger_unavailable", "POST", "/v1/chat/completions", askModel)
	r.ledger.away.Store(false)
	r.posts(t) // the call left nothing
	r.chain(t, 1)
	r.key.away.Store(true)
	r.send("POST", "/v1/chat/completions", askModel)
	r.wantModel(t)
	r.wantRefused("custody_unavailable", "POST", "/posts", "{}")
	r.key.away.Store(false)
	r.chain(t, 2)
	r.posts(t)
	if h := r.named(t); h.Number != 2 {
		t.Errorf("the post names %+v", h)
	}
}

func TestHandedOver(t *testing.T) {
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for req.Context().Err() == nil {
			flush(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
			if req.Header.Get("X-Model") == "whole" {
				return
			}
		}
	})
	for _, model := range []string{"left", "whole"} {
		ask := strings.Replace(askModel, "gpt-5", model, 1)
		resp := r.start(t.Context(), "POST", "/v1/chat/completions", ask, "X-Model", model)
		if model == "whole" {
			_, err := io.Copy(io.Discard, resp.Body)
			must(t, err)
		}
		must(t, resp.Body.Close())
	}
	for _, c := range r.chain(t, 2) {
		if handed := c.Timing.ResponseSent != 0; handed != (c.Model.Model == "whole") {
			t.Errorf("the answer that was %s was handed over at %d: %s", c.Model.Model, c.Timing.ResponseSent,
				c.Outcome)
		}
	}
}

// A call without a connection does not count as sent or relayed. Otherwise an agent could inflate its counts with calls
// to hosts that do not answer.
func TestWhatDidNotGoOut(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	at := func(url string) match.Match { return matching(t, url, "POST") }
	r.reload(rules.Egress{Name: "model", Match: at(r.base + "/v1/chat/completions"), Observe: chat},
		rules.Egress{Name: "away", Match: at("https://nowhere.example.com/v1/chat/completions"), Observe: chat},
		rules.Egress{Name: "mcp", Match: at("https://nowhere.example.com/mcp"),
			MCP: &mcp.Rule{Tools: []string{"look"}}},
		rules.Egress{Name: "other", Match: at("https://nowhere.example.com/other")})
	for _, call := range []struct{ path, body string }{
		{"/mcp", toolCall("look")}, {"/v1/chat/completions", askModel}, {"/other", "{}"},
	} {
		if _, answer := r.send("POST", "https://nowhere.example.com"+call.path, call.body); !strings.Contains(answer,
			"upstream_unresolvable") {
			t.Fatal(answer)
		}
	}
	r.send("POST", "/v1/chat/completions", askModel)
	r.sessions.Close(r.session.ID)
	chain := r.chain(t, 3)
	if failed := chain[0]; failed.Outcome != interaction.OutcomeFailed || failed.RelayedCount != 0 ||
		failed.Session.Calls != 0 {
		t.Errorf("the call that had no connection: %s, relayed %+v, %+v", failed.Outcome, failed.Relayed,
			failed.Session)
	}
	if end := chain[2].Session; end.Calls != 1 || end.CallsObserved != 1 || end.BytesOut != int64(len(askModel)) ||
		end.BytesOutObserved != end.BytesOut {
		t.Errorf("one call went out, and the session counts %+v", end)
	}
}

// Values of a result that the agent may not have taken give no depth.
func TestDepthOfAnUnseenResult(t *testing.T) {
	for result, want := range map[string]interaction.Figure{
		"complete": interaction.Observed(1), "another kind": interaction.NotMeasured,
	} {
		r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if req.URL.Path == "/mcp" {
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":7,"result":{"resultType":%q,"order":"ORDER-123456"}}`, result)
				return
			}
			_, _ = fmt.Fprintf(w,
				`{"choices":[{"message":{"tool_calls":[{"id":"c1","function":{"name":"look","arguments":%q}}]}}]}`,
				req.Header.Get("X-Arguments"))
		})
		at := func(path string) match.Match { return matching(t, r.base+path, "POST") }
		r.reload(rules.Egress{Name: "model", Match: at("/v1/chat/completions"), Observe: chat},
			rules.Egress{Name: "mcp", Match: at("/mcp"), MCP: &mcp.Rule{Tools: []string{"look"}}})
		r.send("POST", "/v1/chat/completions", askModel, "X-Arguments", `{"title":"a"}`)
		r.send("POST", "/mcp", toolCall("look"))
		r.send("POST", "/v1/chat/completions", askModel, "X-Arguments", `{"order":"ORDER-123456"}`)
		if got := r.chain(t, 2)[1].Model.Figures.DepthRelayed; got != want {
			t.Errorf("%s: %+v", result, got)
		}
	}
}

// A session with an open call closes soon after its end.
func TestStreamOfAnEndedSession(t *testing.T) {
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/v1/chat/completions" {
			answerModels(w, req)
			return
		}
		flush(w)
		<-req.Context().Done()
	})
	r.pipeline.o.Timeouts.Forward = 10 * time.Millisecond
	r.reload(rules.Egress{Name: "stream", Match: matching(t, r.base+"/stream", "GET")},
		rules.Egress{Name: "model", Match: matching(t, r.base+"/v1/chat/completions", "POST"), Observe: chat})
	r.send("POST", "/v1/chat/completions", askModel)
	resp := r.start(t.Context(), "GET", "/stream", "")
	r.sessions.Close(r.session.ID)
	if end := r.chain(t, 2)[1]; end.Closing == nil || end.Session.Calls != 2 {
		t.Errorf("the end: %+v", end)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the answer that was broken off looks whole")
	}
	if rec := r.wait(2); rec.Path != "/stream" || rec.Code != "session_required" {
		t.Errorf("the record of %s says %s: %s", rec.Path, rec.Code, rec.Reason)
	}
}

// While the answer comes, the call keeps nothing of its request to the model.
func TestNothingIsKeptOfARequest(t *testing.T) {
	key := make([]byte, inference.MinKey)
	asked, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat},
		inference.Call{Body: []byte(askModel), Key: key})
	must(t, err)
	c := &call{
		p: new(Pipeline), r: httptest.NewRequest(http.MethodPost, "/", http.NoBody), session: new(session.Session),
		held: new(body.Body),
	}
	m := &modelCall{plain: plain{c},
		observer: inference.Observe(asked, time.Now(), inference.Options{Key: key, Now: time.Now})}
	_, err = m.sent(c.r)
	must(t, err)
	if m.observer.Request().Asked != nil || asked.AskedCount != 1 {
		t.Errorf("it keeps %+v", asked)
	}
}
