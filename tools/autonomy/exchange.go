package autonomy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
)

// piece is a piece of an answer and its time since the request was sent.
type piece struct {
	after time.Duration
	data  []byte
}

// answer is the response to a call.
type answer struct {
	status int // HTTP status, or 0 for no response
	kind   string
	gzip   bool
	pieces []piece
	cut    bool // it breaks off after its pieces
}

// exchange is one model call through the sidecar.
type exchange struct {
	to      *model
	body    []byte
	answer  answer
	start   time.Duration // since the exchange began
	upload  time.Duration // from the request's head to its end
	connect time.Duration // until its head is written
	slow    time.Duration // delay of the agent in reading each piece
	unsent  bool          // the connection fails

	s        *sidecar
	now      time.Time // may be behind the session's
	sent     time.Time
	record   ledger.Record
	call     *receipts.Call
	observer *inference.Observer
	request  *http.Request
	taken    io.ReadCloser // of the answer, as the agent reads it
	next     int           // piece
}

// lasts returns how long the call takes, from its start.
func (f *exchange) lasts() time.Duration {
	if len(f.answer.pieces) == 0 {
		return f.upload + f.connect + time.Second
	}
	return f.upload + f.connect + f.answer.pieces[len(f.answer.pieces)-1].after
}

// moment is a step of a call at its time.
type moment struct {
	at time.Time
	do func() error
}

// carry sends overlapping calls through the sidecar and sets the clock to the end of the last one.
func (s *sidecar) carry(all ...*exchange) error {
	var plan []moment
	begin := s.now()
	for _, f := range all {
		f.s = s
		plan = append(plan, f.plan(begin.Add(f.start))...)
	}
	slices.SortStableFunc(plan, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range plan {
		s.until(m.at)
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// plan returns the steps of the call, which begins at a time.
func (f *exchange) plan(at time.Time) []moment {
	received, whole := at, at.Add(f.upload)
	f.sent = whole.Add(f.connect)
	plan := []moment{{received, f.receive}, {whole, f.send}}
	if !f.unsent {
		plan = append(plan, moment{f.sent, f.wrote})
	}
	if f.answer.status == 0 {
		return append(plan, moment{at.Add(f.lasts()), f.end})
	}
	first := f.sent
	if len(f.answer.pieces) > 0 {
		first = f.sent.Add(f.answer.pieces[0].after)
	}
	plan = append(plan, moment{first, f.head})
	for _, p := range f.answer.pieces {
		plan = append(plan, moment{f.sent.Add(p.after), f.take})
	}
	return append(plan, moment{at.Add(f.lasts()), f.end})
}

// receive: the head of the request arrives.
func (f *exchange) receive() error {
	f.record = f.s.record("model", f.to.host)
	return nil
}

// send: the whole request has arrived.
func (f *exchange) send() error {
	s := f.s
	f.now = s.now()
	measure := s.keeper.Measure(context.Background(), s.chain)
	asked, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat},
		inference.Call{Body: f.body, Key: s.secret[:], Measure: measure})
	if err != nil {
		return err
	}
	f.observer = inference.Observe(asked, f.record.Started, inference.Options{
		Key: s.secret[:], Now: func() time.Time { return f.now }, Take: func(int) bool { return true }, Free: func() {},
		Measure: measure, Sample: s.chain.Wants(f.record.Host, asked.Model), Ended: func() { f.call.Ending() },
	})
	f.call = s.keeper.Model(s.chain, receipts.ModelRequest{Record: f.record, Rule: "model", Request: asked, Body: f.body})
	if err := f.call.Send(context.Background()); err != nil {
		return err
	}
	f.request, err = http.NewRequestWithContext(context.Background(), http.MethodPost, "https://"+f.to.host, http.NoBody)
	if err == nil {
		f.request = f.observer.Prepare(f.request)
	}
	return err
}

// wrote: the head of the request has been written.
func (f *exchange) wrote() error {
	f.now = f.s.now()
	httptrace.ContextClientTrace(f.request.Context()).WroteHeaders()
	return nil
}

// head: the head of the answer arrives.
func (f *exchange) head() error {
	f.now = f.s.now()
	header := http.Header{"Content-Type": {f.answer.kind}}
	if f.answer.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	resp := &http.Response{StatusCode: f.answer.status, Header: header, Body: arriving{f}}
	f.observer.Begin(resp)
	f.taken = resp.Body
	return nil
}

// take: the agent reads the next piece.
func (f *exchange) take() error {
	f.now = minTime(f.now.Add(f.slow), f.s.now())
	_, err := f.taken.Read(make([]byte, len(f.answer.pieces[f.next].data)))
	return err
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// arriving is the body of an answer as it comes from the model.
type arriving struct{ f *exchange }

// Read returns the next piece, whose time has come.
func (a arriving) Read(p []byte) (int, error) {
	f := a.f
	switch {
	case f.next < len(f.answer.pieces):
		f.now = f.s.now()
		f.next++
		return copy(p, f.answer.pieces[f.next-1].data), nil
	case f.answer.cut:
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

// Close does nothing.
func (arriving) Close() error { return nil }

// end: the call is over.
func (f *exchange) end() error {
	s := f.s
	f.now = s.now()
	state, handed := ledger.StateForwarded, f.now
	switch {
	case f.unsent:
		state, handed = ledger.StateFailed, time.Time{}
	case f.answer.status == 0:
		state, handed = ledger.StateIndeterminate, time.Time{}
	default:
		_, err := f.taken.Read(make([]byte, 1))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			handed = time.Time{}
		} else if !errors.Is(err, io.EOF) {
			return err
		}
	}
	said := f.observer.Interaction()
	s.chain.Count(int64(len(f.body)), true)
	f.call.EndModel(state, said, handed)
	return settled(f.call)
}
