package receipts_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/test/check"
)

func TestChain(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	if h := r.settled(c); h.Number != 0 || h.HeadHash != "" || h.OpenCalls != nil {
		t.Errorf("before the first call the chain stands at %+v", h)
	}
	r.mustAsk(c, hello).answer(t, answer)
	open := r.mustAsk(c, hello)
	h := r.settled(c)
	if h.Number != 1 || !evidence.IsHash(h.HeadHash) || !slices.Equal(h.OpenCalls, []string{open.record.ID}) {
		t.Errorf("the chain stands at %+v", h)
	}
	p, rec := r.post(c)
	r.wantOpen("ses_1", open.record.ID, rec.ID)
	rec.State, rec.Status = ledger.StateForwarded, 201
	p.EndPost(rec, time.Now())
	p.EndPost(rec, time.Now())
	token, err := p.Receipt(t.Context())
	must(t, err)
	c.Close(interaction.ClosedEnded)
	if _, err := r.ask(c, hello); check.CodeOf(err) != "session_required" {
		t.Errorf("a call after the session's end: %v", err)
	}
	open.answer(t, answer)
	chain := r.read("ses_1", 4)
	r.wantOpen()
	for i, want := range []struct{ id, about, outcome string }{
		{"post_000001", "model", interaction.OutcomeCompleted}, {rec.ID, "post", interaction.OutcomeCompleted},
		{open.record.ID, "model", interaction.OutcomeCompleted}, {"ses_1", "end", interaction.OutcomeCompleted},
	} {
		about := map[bool]string{chain[i].Model != nil: "model", chain[i].Post != nil: "post",
			chain[i].Closing != nil: "end"}[true]
		if chain[i].RequestID != want.id || about != want.about || chain[i].Outcome != want.outcome {
			t.Errorf("receipt %d is of %s, %s, %s; want %+v", i+1, chain[i].RequestID, about, chain[i].Outcome, want)
		}
	}
	if chain[1].Chain.PreviousReceiptHash != h.HeadHash {
		t.Error("the head that was named is not the receipt before the post's")
	}
	if last, err := r.store.Chain(t.Context(), "ses_1", 2, 1); err != nil || last[0].Token != token {
		t.Errorf("the receipt of the post is another one: %v", err)
	}
	if post := chain[1].Post; post.Status != 201 || len(post.Artifacts) != 2 ||
		post.Artifacts[0].Hash != evidence.HashToken("e30.e30.AA") {
		t.Errorf("the post: %+v", post)
	}
	if chain[3].Closing.Reason != interaction.ClosedEnded {
		t.Errorf("the end: %+v", chain[3].Closing)
	}
}

func TestOutcomes(t *testing.T) {
	r := newRig(t)
	for i, tt := range []struct {
		state ledger.State
		model string // without an answer
		post  string
	}{
		{ledger.StateIndeterminate, interaction.OutcomeIndeterminate, interaction.OutcomeIndeterminate},
		{ledger.StateFailed, interaction.OutcomeFailed, interaction.OutcomeFailed},
		{ledger.StateRefused, interaction.OutcomeFailed, interaction.OutcomeFailed},
	} {
		session := fmt.Sprint("ses_", i)
		c := r.chain(session)
		unanswered := r.mustAsk(c, hello)
		unanswered.EndModel(tt.state, unanswered.observer.Interaction(), time.Now())
		p, rec := r.post(c)
		rec.State = tt.state
		p.EndPost(rec, time.Now())
		chain := r.read(session, 2)
		if chain[0].Outcome != tt.model || chain[1].Outcome != tt.post {
			t.Errorf("%s: %s and %s, want %s and %s", tt.state, chain[0].Outcome, chain[1].Outcome, tt.model, tt.post)
		}
	}
}

func TestLongestChain(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	c.Pass(interaction.MaxReceipts - 3)
	r.fault.Ledger = nowhere{}
	first := r.mustAsk(c, hello)
	second := r.mustAsk(c, hello)
	refused := func() {
		t.Helper()
		if _, err := r.ask(c, hello); check.CodeOf(err) != "session_full" {
			t.Errorf("a call to a model: %v", err)
		}
		p, err := r.keeper.Post(c, receipts.PostRequest{Record: r.record("post"), Body: strings.NewReader("{}")})
		must(t, err)
		if _, err := p.Open(); check.CodeOf(err) != "session_full" {
			t.Errorf("a post: %v", err)
		}
	}
	refused()
	first.answer(t, answer)
	refused()
	second.answer(t, answer)
	refused()
	if h := r.settled(c); h.Number != interaction.MaxReceipts-1 {
		t.Errorf("the chain stands at %d", h.Number)
	}
}

func TestClockSetBack(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	r.passed.Store(int64(time.Hour))
	p, rec := r.post(c)
	a := r.mustAsk(c, hello)
	r.passed.Store(0)
	handed := r.now().Add(-time.Second)
	rec.State = ledger.StateForwarded
	p.EndPost(rec, handed)
	a.EndModel(ledger.StateFailed, a.observer.Interaction(), handed)
	for _, got := range r.read("ses_1", 2) {
		if sent := handed.UnixMilli(); got.Timing.ResponseSent != sent || got.Timing.RequestReceived != sent {
			t.Errorf("the answer was handed over at %d: %+v", sent, got.Timing)
		}
	}
}

func TestKeyOutage(t *testing.T) {
	r := newRig(t)
	c, other := r.chain("ses_1"), r.chain("ses_2")
	r.mustAsk(c, hello).answer(t, answer)
	first := r.settled(c)
	r.fault.fail(errors.New("the key is away"), nil)
	ended := 1
	for {
		a, err := r.ask(c, hello)
		if err != nil {
			if check.CodeOf(err) != "custody_unavailable" {
				t.Fatal(err)
			}
			break
		}
		a.answer(t, answer)
		ended++
	}
	if ended != 65 {
		t.Errorf("%d calls were sent", ended)
	}
	if h, err := r.keeper.Head(t.Context(), c); check.CodeOf(err) != "custody_unavailable" {
		t.Errorf("a head is named that is not signed: %+v, %v", h, err)
	}
	if h := r.settled(other); h.Number != 0 {
		t.Errorf("another session: %+v", h)
	}
	r.fault.fail(nil, nil)
	chain := r.read("ses_1", ended)
	if h := r.settled(c); h.Number != int64(ended) || chain[1].Chain.PreviousReceiptHash != first.HeadHash {
		t.Errorf("the chain stands at %+v", h)
	}
}

func TestDatabaseOutage(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	a := r.mustAsk(c, hello)
	away := ledger.Unavailable("write", errors.New("the disk is full"))
	r.fault.fail(nil, away)
	if _, err := r.ask(c, hello); check.CodeOf(err) != "ledger_unavailable" {
		t.Errorf("a call is sent that nobody knows of after a crash: %v", err)
	}
	a.answer(t, answer)
	if _, err := r.keeper.Head(t.Context(), c); check.CodeOf(err) != "ledger_unavailable" {
		t.Errorf("a head is named that is not stored: %v", err)
	}
	if _, err := a.Receipt(t.Context()); check.CodeOf(err) != "ledger_unavailable" {
		t.Errorf("a receipt is given out that is not stored: %v", err)
	}
	first := r.chain("ses_2") // its first post is refused, because the ledger stores nothing
	p, err := r.keeper.Post(first, receipts.PostRequest{Record: r.record("post"), Body: strings.NewReader("{}")})
	must(t, err)
	_, err = p.Open()
	must(t, err)
	p.EndPost(ledger.Record{State: ledger.StateRefused}, time.Time{})
	if _, err := r.keeper.Head(t.Context(), first); check.CodeOf(err) != "ledger_unavailable" {
		t.Errorf("the second post: %v", err)
	}
	r.fault.fail(nil, nil)
	r.read("ses_2", 1)
	for _, chain := range []*receipts.Chain{c, first} {
		if h := r.settled(chain); h.Number != 1 || len(h.OpenCalls) != 0 {
			t.Errorf("the chain stands at %+v", h)
		}
	}
}

func TestCrash(t *testing.T) {
	r := newRig(t)
	c, other := r.chain("ses_1"), r.chain("ses_2")
	r.mustAsk(c, hello).answer(t, answer)
	r.settled(c)
	open := r.mustAsk(c, hello)
	p, rec := r.post(c)
	unsigned := r.mustAsk(other, hello)
	_ = p
	r.fault.fail(errors.New("the key is away"), nil)
	unsigned.answer(t, answer)
	left, err := r.store.LeftOpen(t.Context())
	must(t, err)
	for _, of := range left { // a draft has no half of the later figures
		if known := strings.Contains(of.Draft, `"input_bytes"`); known != strings.Contains(of.Draft, `"model_call"`) ||
			strings.Contains(of.Draft, `"output_bytes"`) {
			t.Errorf("what is kept of an open call: %s", of.Draft)
		}
	}
	r.crash()
	r.start()
	chain := r.read("ses_1", 4)
	for i, want := range []struct {
		id, outcome string
	}{{"post_000001", interaction.OutcomeCompleted}, {open.record.ID, interaction.OutcomeIndeterminate},
		{rec.ID, interaction.OutcomeIndeterminate}, {"ses_1", interaction.OutcomeCompleted}} {
		if chain[i].RequestID != want.id || chain[i].Outcome != want.outcome {
			t.Errorf("receipt %d is of %s, %s; want %+v", i+1, chain[i].RequestID, chain[i].Outcome, want)
		}
	}
	lost := r.read("ses_2", 2)
	if lost[0].RequestID != unsigned.record.ID || lost[0].Outcome != interaction.OutcomeIndeterminate ||
		lost[0].Model.Figures.InputBytes != interaction.Observed(11) {
		t.Errorf("a call whose receipt was lost: %+v", lost[0])
	}
	want := interaction.ModelFigures{InputBytes: interaction.Observed(11), NewInputWords: interaction.Observed(2),
		UnmatchedResults: interaction.Observed(0), SelfReferences: interaction.Observed(0)}
	if want.Complete(); lost[0].Model.Figures != want {
		t.Errorf("the figures of a call whose answer is lost: %+v", lost[0].Model.Figures)
	}
	for _, end := range []interaction.Receipt{chain[3], lost[1]} {
		if end.Closing == nil || end.Closing.Reason != interaction.ClosedLost {
			t.Errorf("the end: %+v", end.Closing)
		}
	}
	r.wantOpen()
	r.stop()
	r.start() // nothing is made twice
	r.read("ses_1", 4)
}

// TestCrashAfterAnOutage: the ledger failed to begin the session's only post, which still gets its receipt.
func TestCrashAfterAnOutage(t *testing.T) {
	r := newRig(t)
	c, rec := r.chain("ses_1"), r.record("post")
	p, err := r.keeper.Post(c, receipts.PostRequest{Record: rec, Body: strings.NewReader("{}")})
	must(t, err)
	_, err = p.Open()
	must(t, err)
	rec.State = ledger.StateRefused
	p.EndPost(rec, time.Time{})
	r.settled(c)
	r.wantOpen("ses_1")
	r.crash()
	r.start()
	chain := r.read("ses_1", 2)
	if end := chain[1].Closing; end == nil || end.Reason != interaction.ClosedLost {
		t.Errorf("the end: %+v", end)
	}
}

func TestCrashWithUnreadableChains(t *testing.T) {
	r := newRig(t)
	r.mustAsk(r.chain("ses_whole"), hello)
	for i := range 8 {
		session := fmt.Sprint("ses_", i)
		r.mustAsk(r.chain(session), hello)
		must(t, r.store.AddReceipts(t.Context(),
			ledger.Receipt{Session: session, Number: 1, Call: "call", Signed: time.Now(), Token: "no token"}))
	}
	r.crash()
	r.start()
	r.read("ses_whole", 2)
	r.crash() // a stop would wait for the others
}

func TestShutdown(t *testing.T) {
	r := newRig(t)
	done, open := r.chain("ses_1"), r.chain("ses_2")
	r.mustAsk(done, hello).answer(t, answer)
	left := r.mustAsk(open, hello)
	r.stop()
	r.start()
	if end := r.read("ses_1", 2)[1]; end.Closing == nil || end.Closing.Reason != interaction.ClosedShutdown {
		t.Errorf("the end: %+v", end)
	}
	chain := r.read("ses_2", 2)
	if chain[0].RequestID != left.record.ID || chain[0].Outcome != interaction.OutcomeIndeterminate ||
		chain[1].Closing.Reason != interaction.ClosedLost {
		t.Errorf("a call that was open at the end: %+v", chain)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRig(t)
	chains := []*receipts.Chain{r.chain("ses_1"), r.chain("ses_2")}
	const atOnce, each = 50, 3
	var mu sync.Mutex // guards the rig's counter
	var all sync.WaitGroup
	for _, c := range chains {
		for range atOnce {
			all.Go(func() {
				for range each {
					ask := func() (*call, error) {
						mu.Lock()
						defer mu.Unlock()
						return r.ask(c, hello)
					}
					a, err := ask()
					for ; check.CodeOf(err) == "custody_unavailable"; a, err = ask() { // signing is behind
						r.settled(c)
					}
					must(t, err)
					a.answer(t, answer)
				}
			})
		}
		all.Go(func() {
			number := int64(0)
			for range 20 {
				h, err := r.keeper.Head(t.Context(), c)
				must(t, err)
				if h.Number < number {
					t.Errorf("the chain went back from %d to %d", number, h.Number)
				}
				number = h.Number
			}
		})
	}
	must(t, r.keys.Rotate())
	all.Wait()
	for i, c := range chains {
		c.Close(interaction.ClosedEnded)
		r.read(fmt.Sprint("ses_", i+1), atOnce*each+1)
	}
	r.wantOpen()
}

func TestRotation(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	r.mustAsk(c, hello).answer(t, answer)
	r.settled(c)
	must(t, r.keys.Rotate())
	r.mustAsk(c, hello).answer(t, answer)
	r.settled(c)
	r.read("ses_1", 2)
	stored, err := r.store.Chain(t.Context(), "ses_1", 1, 2)
	must(t, err)
	kids := make(map[string]bool)
	for _, s := range stored {
		head, _, _ := strings.Cut(s.Token, ".")
		kids[head] = true
	}
	if len(kids) != 2 {
		t.Errorf("signed with the headers %v", kids)
	}
}

func TestNil(t *testing.T) {
	var k *receipts.Keeper
	c := receipts.NewChain("ses_1", "evt_1", time.Now(), contentKey)
	if h, err := k.Head(t.Context(), c); h != nil || err != nil {
		t.Error(h, err)
	}
	if m := k.Measure(t.Context(), c); m != nil {
		t.Error(m)
	}
	call := k.Model(c, receipts.ModelRequest{})
	must(t, call.Send(t.Context()))
	open, err := call.Open()
	if open != nil || err != nil {
		t.Error(open, err)
	}
	call.Sent()
	call.Ending()
	call.Drop()
	call.EndPost(ledger.Record{}, time.Now())
	c.Going()
	c.Count(1, true)
	c.Over()
	k.Relay(c, receipts.Relayed{})
	c.Close(interaction.ClosedEnded)
	if _, err := call.Receipt(t.Context()); check.CodeOf(err) != "custody_unavailable" {
		t.Error(err)
	}
}
