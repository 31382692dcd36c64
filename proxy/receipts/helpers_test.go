package receipts_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var contentKey = [inference.MinKey]byte{7}

const owner = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

type switched struct {
	receipts.Ledger
	mu     sync.Mutex
	issuer receipts.Issuer
	key    error
	store  error
}

func (s *switched) fail(key, store error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.store = key, store
}

func (s *switched) failing() (key, store error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, s.store
}

func (s *switched) Issue(ctx context.Context, c interaction.Receipt) (evidence.Opened[interaction.Receipt], error) {
	if err, _ := s.failing(); err != nil {
		return evidence.Opened[interaction.Receipt]{}, err
	}
	return s.issuer.Issue(ctx, c)
}

func (s *switched) OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error {
	if _, err := s.failing(); err != nil {
		return err
	}
	return s.Ledger.OpenCalls(ctx, calls...)
}

func (s *switched) SettleReceipts(ctx context.Context, session string) error {
	if _, err := s.failing(); err != nil {
		return err
	}
	return s.Ledger.SettleReceipts(ctx, session)
}

type rig struct {
	testing.TB
	dir    string
	keys   *custody.Memory
	store  *sqlite.Ledger
	queue  *ledger.Queue
	fault  *switched
	keeper *receipts.Keeper
	posts  int
	closed bool
	passed atomic.Int64 // added to the clock
	slowly func()       // called between a request's head and body
}

func newRig(t testing.TB) *rig {
	t.Helper()
	keys, err := custody.NewMemory("interaction-key")
	must(t, err)
	r := &rig{TB: t, dir: t.TempDir(), keys: keys}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	r.Helper()
	var err error
	r.store, err = sqlite.Open(context.Background(), filepath.Join(r.dir, "ledger.db"), sqlite.Options{Now: time.Now})
	must(r, err)
	r.queue = ledger.NewQueue(r.store, func(rec ledger.Record, err error) { r.Errorf("lost: %s, %v", rec.ID, err) })
	issuer, err := signer.New(interaction.Kind, r.keys,
		signer.Options{Issuer: "sidecar", Audience: "aud", Lifetime: 10 * time.Minute, Now: r.now})
	must(r, err)
	r.fault = &switched{Ledger: r.queue, issuer: issuer}
	r.keeper, err = receipts.New(context.Background(),
		receipts.Options{Issuer: r.fault, Ledger: r.fault, Owner: owner, Agent: "agent:worker-1", Runtime: "worker-1",
			Now: r.now, Log: zap.NewNop()})
	must(r, err)
	r.closed = false
}

// stop ends the keeper like a signal. It gives up at once what cannot be stored.
func (r *rig) stop() {
	if r.closed {
		return
	}
	r.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.keeper.Close(ctx)
	must(r, r.queue.Close())
}

// crash ends the process: nothing is closed, and what was not stored is lost.
func (r *rig) crash() {
	r.Helper()
	r.closed = true
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	r.fault.fail(errors.New("the process has ended"), nil)
	r.keeper.Close(gone)
	must(r, r.queue.Close())
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.passed.Load())) }

func (r *rig) chain(session string) *receipts.Chain {
	opened := time.Now().Add(-time.Second) // before its first call, even in milliseconds
	return receipts.NewChain(session, "evt_1", opened, contentKey)
}

func (r *rig) record(flow string) ledger.Record {
	r.posts++
	hash := evidence.HashBytes([]byte(flow))
	return ledger.Record{
		ID: fmt.Sprintf("post_%06d", r.posts), Flow: flow, Session: "ses_1", Rule: "rule", Host: "api.example.com:443",
		State: ledger.StateForwarding, Started: r.now(), Manifest: hash,
		ContentHash: hash, BindingHash: hash,
		Artifacts: []ledger.Artifact{{Name: "grant", Token: "e30.e30.AA"},
			{Name: "sessionReceipt", Token: "e30.e31.AA"}},
	}
}

func read(t testing.TB, body string, m *inference.Measure) *inference.Request {
	t.Helper()
	request, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat, AllowUnknown: true},
		inference.Call{Body: []byte(body), Key: contentKey[:], Measure: m})
	must(t, err)
	return request
}

// model begins a call to a model. Unset members of q get usual values.
func (r *rig) model(c *receipts.Chain, q receipts.ModelRequest) *receipts.Call {
	r.Helper()
	if q.Record.ID == "" {
		q.Record = r.record("egress")
	}
	if q.Request == nil {
		q.Body = []byte(hello)
		q.Request = read(r, hello, r.keeper.Measure(context.Background(), c))
	}
	q.Rule = cmp.Or(q.Rule, "model")
	return r.keeper.Model(c, q)
}

type call struct {
	*receipts.Call
	observer *inference.Observer
	record   ledger.Record
}

func (r *rig) ask(c *receipts.Chain, body string) (*call, error) {
	r.Helper()
	out := &call{record: r.record("egress")}
	if r.slowly != nil {
		r.slowly()
	}
	measure := r.keeper.Measure(context.Background(), c)
	request := read(r, body, measure)
	out.Call = r.model(c, receipts.ModelRequest{Record: out.record, Request: request, Body: []byte(body)})
	out.observer = inference.Observe(request, out.record.Started, inference.Options{
		Key: contentKey[:], Now: r.now, Take: func(int) bool { return true }, Free: func() {},
		Measure: measure, Sample: c.Wants(out.record.Host, request.Model), Ended: out.Ending,
	})
	return out, out.Send(context.Background())
}

func (c *call) begin(pieces ...string) io.Reader {
	var all []io.Reader
	for _, p := range pieces {
		all = append(all, strings.NewReader(p))
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(io.MultiReader(all...))}
	c.observer.Begin(resp)
	return resp.Body
}

func (c *call) answer(t testing.TB, body string) {
	t.Helper()
	_, err := io.Copy(io.Discard, c.begin(body))
	must(t, err)
	c.EndModel(ledger.StateForwarded, c.observer.Interaction(), time.Now())
}

func (r *rig) mustAsk(c *receipts.Chain, body string) *call {
	r.Helper()
	out, err := r.ask(c, body)
	must(r, err)
	return out
}

func (r *rig) post(c *receipts.Chain) (*receipts.Call, ledger.Record) {
	r.Helper()
	rec := r.record("post")
	p, err := r.keeper.Post(c, receipts.PostRequest{Record: rec, Body: strings.NewReader("{}")})
	must(r, err)
	rec.Open, err = p.Open()
	must(r, err, r.queue.Begin(context.Background(), rec))
	p.Sent()
	return p, rec
}

func (r *rig) settled(c *receipts.Chain) *evidence.InteractionHead {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h, err := r.keeper.Head(ctx, c)
	must(r, err)
	return h
}

// read returns a session's stored chain once it has want receipts, and checks its links.
func (r *rig) read(session string, want int) []interaction.Receipt {
	r.Helper()
	var stored []ledger.Receipt
	for deadline := time.Now().Add(time.Minute); len(stored) < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("%d receipts are stored, want %d", len(stored), want)
		}
		var err error
		stored, err = r.store.Chain(context.Background(), session, 0, ledger.MaxChain)
		must(r, err)
	}
	var all []interaction.Receipt
	before, issued := "", int64(0)
	for i, s := range stored {
		c, err := evidence.UnverifiedClaims(interaction.Kind, s.Token)
		must(r, err)
		link := interaction.ChainLink{PreviousReceiptHash: before, SessionID: session, SequenceNumber: int64(i + 1)}
		if c.Chain != link || s.Number != link.SequenceNumber || s.Call != c.RequestID {
			r.Errorf("receipt %d has the place %+v, want %+v, and is stored as %d of %s", i+1, c.Chain, link, s.Number,
				s.Call)
		}
		if c.IssuedAt < issued || i < len(stored)-1 && c.Closing != nil {
			r.Errorf("receipt %d is issued before the one before it, or follows the end", i+1)
		}
		all, before, issued = append(all, c), evidence.HashToken(s.Token), c.IssuedAt
	}
	if len(all) != want {
		r.Errorf("%d receipts are stored, want %d", len(all), want)
	}
	return all
}

func (r *rig) wantOpen(want ...string) {
	r.Helper()
	open, err := r.store.LeftOpen(context.Background())
	must(r, err)
	var ids []string
	for _, c := range open {
		ids = append(ids, c.ID)
	}
	if fmt.Sprint(ids) != fmt.Sprint(want) {
		r.Errorf("open in the ledger: %v, want %v", ids, want)
	}
}

const (
	hello  = `{"model":"m","messages":[{"role":"user","content":"hello there"}]}`
	answer = `{"id":"c1","model":"m-1","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"good day to you"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,` +
		`"completion_tokens":6}}`
)

type nowhere struct{ receipts.Ledger }

func (nowhere) OpenCalls(context.Context, ...ledger.OpenCall) error { return nil }
func (nowhere) AddReceiptLater(ledger.Receipt) error                { return nil }
func (nowhere) SettleReceipts(context.Context, string) error        { return nil }
