package receipts_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/test/check"
)

type slow struct {
	receipts.Ledger
	asked  chan struct{}
	result chan error
}

func (s *slow) OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error {
	s.asked <- struct{}{}
	if err := <-s.result; err != nil {
		return err
	}
	return s.Ledger.OpenCalls(ctx, calls...)
}

// TestNamedCallsGetReceipts checks that a call which a post names as open gets a receipt, and that no post names a call
// before the ledger knows it: such a call may never be sent.
func TestNamedCallsGetReceipts(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	r.mustAsk(c, hello).answer(t, answer)
	r.settled(c) // nothing uses the ledger now
	s := &slow{Ledger: r.fault.Ledger, asked: make(chan struct{}), result: make(chan error)}
	r.fault.Ledger = s
	for _, result := range []error{ledger.Unavailable("write", errors.New("the disk is full")), nil} {
		asked := make(chan *call, 1)
		go func() {
			a, err := r.ask(c, hello)
			if (err == nil) != (result == nil) {
				t.Errorf("the call: %v", err)
			}
			asked <- a
		}()
		<-s.asked
		if h := r.settled(c); len(h.OpenCalls) != 0 {
			t.Errorf("a call is named as open that the ledger does not know of: %v", h.OpenCalls)
		}
		s.result <- result
		a := <-asked
		if result != nil {
			continue
		}
		if h := r.settled(c); len(h.OpenCalls) != 1 || h.OpenCalls[0] != a.record.ID {
			t.Errorf("the open calls are %v, want %s", h.OpenCalls, a.record.ID)
		}
		a.answer(t, answer)
	}
	c.Close(interaction.ClosedEnded)
	r.read("ses_1", 3)
	r.wantOpen()
}

func TestNothingIsRememberedOfTheGone(t *testing.T) {
	r := newRig(t)
	unused, used, posting := r.chain("ses_1"), r.chain("ses_2"), r.chain("ses_3")
	r.mustAsk(used, hello).answer(t, answer)
	for _, c := range []*receipts.Chain{unused, used, posting} {
		c.Close(interaction.ClosedEnded)
	}
	r.read("ses_2", 2)
	// The last receipt is stored before the chain is released.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, chains := r.keeper.Remembered(); chains == 0 || time.Now().After(deadline) {
			break
		}
	}
	wantNothing := func(after string) {
		t.Helper()
		if bytes, chains := r.keeper.Remembered(); bytes != 0 || chains != 0 {
			t.Errorf("%d bytes of %d sessions are remembered after %s", bytes, chains, after)
		}
	}
	for _, c := range []*receipts.Chain{unused, used} {
		r.relay(c, `{"name":"Ada"}`, `{"order":"ord-4711","items":30}`)
		wantNothing("a tool's call")
		c.Count(1, true)
		r.keeper.Measure(t.Context(), c)
		wantNothing("the reading of a request")
		if _, err := r.ask(c, hello); check.CodeOf(err) != "session_required" {
			t.Errorf("a call after the session's end: %v", err)
		}
		wantNothing("a call to a model")
	}
	p, err := r.keeper.Post(posting, receipts.PostRequest{Record: r.record("post"), Body: http.NoBody})
	must(t, err)
	if _, err := p.Open(); check.CodeOf(err) != "session_required" {
		t.Errorf("a post after the session's end: %v", err)
	}
	wantNothing("a post")
}

func TestTurnaround(t *testing.T) {
	r := newRig(t)
	think := func() { r.passed.Add(int64(time.Minute)) }
	for name, tt := range map[string]struct {
		slowly func()                      // before the next request's body
		take   func(t *testing.T, a *call) // reads the answer
	}{
		"the head of the request comes long before its body": {think,
			func(t *testing.T, a *call) { a.answer(t, answer) }},
		"the end of the answer is left for long": {nil, func(t *testing.T, a *call) {
			body := a.begin(answer[:60], answer[60:])
			_, err := io.ReadFull(body, make([]byte, len(answer)))
			must(t, err)
			think()
			_, err = io.Copy(io.Discard, body)
			must(t, err)
			a.EndModel(ledger.StateForwarded, a.observer.Interaction(), r.now())
		}},
		"the answer is given up after it was read": {nil, func(t *testing.T, a *call) {
			_, err := io.ReadFull(a.begin(answer[:60], answer[60:]), make([]byte, 60))
			must(t, err)
			think()
			a.EndModel(ledger.StateForwarded, a.observer.Interaction(), time.Time{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := r.chain(name)
			tt.take(t, r.mustAsk(c, hello))
			r.slowly = tt.slowly
			r.mustAsk(c, hello).answer(t, answer)
			r.slowly = nil
			if f := r.read(name, 2)[1].Model.Figures.Turnaround; f.State != interaction.StateObserved ||
				f.Value < time.Minute.Milliseconds() {
				t.Errorf("the agent took a minute, and the receipt says %+v", f)
			}
			c.Close(interaction.ClosedEnded)
		})
	}
}

// TestTurnaroundBesideOthers checks that a turnaround is measured from the previous call in the chain or not at all.
// Otherwise an agent with several open calls could pair a long answer with a short time.
func TestTurnaroundBesideOthers(t *testing.T) {
	r := newRig(t)
	think := func() { r.passed.Add(int64(time.Hour)) }
	turnaround := func(session string, n int) interaction.Figure {
		return r.read(session, n)[n-1].Model.Figures.Turnaround
	}

	overtaken := r.chain("overtaken")
	r.mustAsk(overtaken, hello).answer(t, answer)
	filler := r.mustAsk(overtaken, hello)
	r.mustAsk(overtaken, hello).answer(t, answer) // is read while the filler is open
	think()
	filler.answer(t, answer)
	if f := turnaround("overtaken", 3); f != interaction.NotMeasured {
		t.Errorf("of a call that an earlier receipt in the chain overtook: %+v", f)
	}

	crossed := r.chain("crossed")
	first := r.mustAsk(crossed, hello)
	_, err := io.Copy(io.Discard, first.begin(answer))
	must(t, err)
	think() // the answer has ended, and the call has not
	r.mustAsk(crossed, hello).answer(t, answer)
	first.EndModel(ledger.StateForwarded, first.observer.Interaction(), r.now())
	r.mustAsk(crossed, hello).answer(t, answer)
	if f := turnaround("crossed", 3); f.State != interaction.StateObserved || f.Value < time.Hour.Milliseconds() {
		t.Errorf("the answer before in the chain came an hour ago, and the receipt says %+v", f)
	}

	atOnce := r.chain("at once")
	r.mustAsk(atOnce, hello).answer(t, answer)
	one, two := r.model(atOnce, receipts.ModelRequest{}), r.model(atOnce, receipts.ModelRequest{})
	for _, call := range []*receipts.Call{one, two} {
		must(t, call.Send(t.Context()))
		call.EndModel(ledger.StateFailed, inference.Interaction{}, time.Time{})
	}
	if f := turnaround("at once", 3); f != interaction.NotMeasured {
		t.Errorf("of the second of two calls that are asked at once: %+v", f)
	}
}

func TestForkStopsOneSession(t *testing.T) {
	r := newRig(t)
	forked, other := r.chain("ses_1"), r.chain("ses_2")
	kept := ledger.Receipt{Session: "ses_1", Number: 1, Call: "post_other", Signed: time.Now(), Token: "e30.e30.other"}
	must(t, r.store.AddReceipts(t.Context(), kept))
	open := r.mustAsk(forked, hello)
	r.mustAsk(forked, hello).answer(t, answer)
	refused := func() {
		t.Helper()
		if _, err := r.keeper.Head(t.Context(), forked); check.CodeOf(err) != "custody_unavailable" {
			t.Errorf("the session that has forked stands: %v", err)
		}
	}
	refused()
	open.answer(t, answer)
	refused()
	r.mustAsk(other, hello).answer(t, answer)
	if h := r.settled(other); h.Number != 1 {
		t.Errorf("the other session stands at %d", h.Number)
	}
	forked.Close(interaction.ClosedEnded)
	refused()
	r.stop()
	if chain, err := r.store.Chain(t.Context(), "ses_1", 1, 10); err == nil && len(chain) > 1 {
		t.Errorf("the forked chain has %d receipts", len(chain))
	}
}

func TestClosingWaitsForEveryCall(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	c.Going()
	c.Going()
	r.mustAsk(c, hello).answer(t, answer)
	c.Close(interaction.ClosedEnded)
	r.settled(c)
	c.Over() // it was not sent
	if chain := r.read("ses_1", 1); chain[0].Closing != nil {
		t.Fatalf("it is closed while a call is open: %+v", chain[0])
	}
	c.Count(7, false)
	c.Over()
	if end := r.read("ses_1", 2)[1]; end.Closing == nil || end.Session.Calls != 1 || end.Session.BytesOut != 7 {
		t.Errorf("the end: %+v", end)
	}
}

type full struct{ receipts.Ledger }

func (full) AddReceiptLater(ledger.Receipt) error {
	return ledger.Unavailable("keep another receipt", errors.New("too many are waiting to be stored"))
}

func TestEndsWithAFullLedger(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	r.fault.Ledger = full{r.fault.Ledger}
	r.mustAsk(c, hello).answer(t, answer)
	if _, err := r.keeper.Head(t.Context(), c); check.CodeOf(err) != "ledger_unavailable" {
		t.Fatal(err)
	}
	r.crash()
	r.start()
	if chain := r.read("ses_1", 2); chain[0].Outcome != interaction.OutcomeIndeterminate || chain[1].Closing == nil {
		t.Errorf("the next start has made %+v", chain)
	}
}
