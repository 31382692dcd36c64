package inference

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/sse"
)

// Bounds on what an observer holds, in bytes.
const (
	maxBehind  = 1 << 20  // of a stream that the reader has not come to
	maxPieces  = 4096     // in which that has come
	maxEvent   = 1 << 20  // of one event
	maxAnswer  = 4 << 20  // of an answer that is no stream, or of a compressed one
	maxDecoded = 16 << 20 // of a compressed answer
	keptQueue  = 4 << 10  // of the queue while nothing is in it
	readAt     = 2 << 10  // of a stream, at which a reader starts: each start takes time from the relay
)

// Options are what an [Observer] works with. All but the last four are required.
type Options struct {
	Key []byte // of the HMACs, as for [Read]
	Now func() time.Time
	// Take asks for n more bytes of memory, Free gives all of them back. Both are called from any goroutine, one at a
	// time. What does not get its memory is not followed.
	Take func(n int) bool
	Free func()

	// Measure is set where a receipt is made of the call. Sample is how much text of the answer is wanted then, in bytes.
	Measure *Measure
	Sample  int
	// Ended, if set, is called when the answer has come to its end, before the client has the last of it.
	Ended func()
	// Go runs the reader in a goroutine of its own. It must not wait.
	Go func(read func())
}

// Observer times a call, and reads its answer as it passes: an [io.Writer] that takes what the client gets. Write only
// copies: a reader in a goroutine of its own follows a stream, and is there only while enough is to be read that has
// been passed on. What is no stream is read by Interaction. The calls of the methods belong to one goroutine, but for
// what Prepare gives to another. To Prepare and Begin nil is a call that is not observed.
type Observer struct {
	o Options

	mu      sync.Mutex  // guards all below
	idle    sync.Cond   // the reader has read what there was
	in      Interaction // but for what the tally writes, while there is a reader
	lost    string      // why the answer is not followed
	held    []byte      // of an answer that is no stream, or that is compressed
	queue   []byte      // of a stream
	pieces  []piece
	spare   []byte // for queue, when the reader is done with it
	charged int    // how much memory the queue has got; the first of it is free
	reading bool   // there is a reader, to whom tally and events belong
	ended   bool
	whole   bool // the body came to its own end
	broken  bool // the body broke off, and not because the client went away
	gzip    bool
	json    bool          // the answer is no stream
	waited  time.Duration // for which the client has not taken what had come
	done    bool          // the figures are made
	brought time.Time     // when the piece came that the client has not taken yet; zero where there is none

	tally  tally
	events *sse.Reader
	answer answer
}

// piece is what one Write has brought.
type piece struct {
	size   int
	at     time.Time
	waited time.Duration // before it, as in Observer
}

// Observe begins to time a call, whose request has come at received.
func Observe(r *Request, received time.Time, o Options) *Observer {
	if o.Go == nil {
		o.Go = func(read func()) { go read() }
	}
	b := &Observer{o: o, answer: r.Dialect.answer(), charged: keptQueue,
		in: Interaction{Request: r, Received: received}}
	b.idle.L = &b.mu
	b.tally = tally{in: &b.in, key: o.Key}
	if o.Measure != nil {
		b.tally.measure, b.tally.wanted, b.tally.transport = o.Measure, o.Sample, newTransportMAC(o.Key)
	}
	return b
}

// Prepare readies the request that is sent, and sees when its head has been written.
func (b *Observer) Prepare(out *http.Request) *http.Request {
	if b == nil {
		return out
	}
	out.Header.Set("Accept-Encoding", "identity") // or the answer could not be followed
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{WroteHeaders: func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.in.Sent = b.o.Now()
	}}))
}

// Request returns what the call asks of the model.
func (b *Observer) Request() *Request { return b.in.Request }

// Begin takes the head of the answer, and has the observer take its body as it passes.
func (b *Observer) Begin(resp *http.Response) {
	if b == nil {
		return
	}
	b.head(resp.StatusCode, resp.Header)
	body.Watch(resp, b)
	resp.Body = &followed{resp.Body, b}
}

// followed is the body of an answer that is observed. Whoever comes for its next piece has passed on the one before:
// only then may that be read, so that the reader does not compete with the relay for a processor.
type followed struct {
	io.ReadCloser
	by *Observer
}

func (f *followed) Read(p []byte) (int, error) {
	f.by.mu.Lock()
	f.by.taken(f.by.o.Now())
	f.by.start(readAt)
	f.by.mu.Unlock()
	return f.ReadCloser.Read(p)
}

// taken says that the client has taken the piece before, or will not. The caller holds b.mu.
func (b *Observer) taken(now time.Time) {
	if !b.brought.IsZero() && !b.ended {
		b.waited += max(0, now.Sub(b.brought))
	}
	b.brought = time.Time{}
}

func (b *Observer) head(status int, header http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in.Head, b.in.Status = b.o.Now(), status
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		b.in.Streamed, b.tally.stream = true, true
		b.events = sse.NewReader(maxEvent)
	case kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"):
		b.json = true
	default:
		b.lose(ReasonType)
	}
	switch strings.ToLower(strings.Join(header["Content-Encoding"], ", ")) {
	case "", "identity":
	case "gzip", "x-gzip":
		b.gzip = true
	default:
		b.lose(ReasonEncoding)
	}
}

// lose gives up to follow the answer.
func (b *Observer) lose(reason string) {
	if b.lost == ReasonNone {
		b.lost = reason
	}
	b.held, b.queue, b.pieces, b.spare = nil, nil, nil, nil
}

// Write takes a piece of the answer. It never fails, and never waits for the reader.
func (b *Observer) Write(p []byte) (int, error) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.brought = now
	switch {
	case b.lost != ReasonNone || b.ended || len(p) == 0:
	case b.json || b.gzip:
		b.hold(p)
	default:
		b.start(readAt)
		b.put(p, now)
	}
	return len(p), nil
}

// put leaves a piece of a stream to the reader.
func (b *Observer) put(p []byte, now time.Time) {
	behind := len(b.queue) + len(p)
	switch more := behind - b.charged; {
	case behind > maxBehind || len(b.pieces) == maxPieces:
		b.lose(ReasonBehind)
		return
	case more > 0 && !b.o.Take(more):
		b.lose(ReasonNoMemory)
		return
	case more > 0:
		b.charged = behind
	}
	b.queue = append(b.queue, p...)
	b.pieces = append(b.pieces, piece{len(p), now, b.waited})
}

// start starts a reader if at least so many bytes are to be read and there is no reader yet. The caller holds b.mu.
func (b *Observer) start(from int) {
	if len(b.pieces) > 0 && len(b.queue) >= from && !b.reading {
		b.reading = true
		b.o.Go(b.follow)
	}
}

// hold keeps a piece of an answer that is read at its end.
func (b *Observer) hold(p []byte) {
	before := cap(b.held)
	if len(b.held)+len(p) > maxAnswer {
		b.lose(ReasonTooLarge)
		return
	}
	b.held = append(b.held, p...)
	if grown := cap(b.held) - before; grown > 0 && !b.o.Take(grown) {
		b.lose(ReasonNoMemory)
	}
}

// follow reads what is in the queue, until it is empty.
func (b *Observer) follow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.pieces) > 0 && b.lost == ReasonNone {
		queue, pieces := b.queue, b.pieces
		b.queue, b.pieces, b.spare = b.spare[:0], nil, nil // or the spare one would be given out again while it is read
		b.mu.Unlock()
		b.tally.carried(queue)
		reason, took := b.read(queue, pieces)
		b.mu.Lock()
		switch {
		case reason != ReasonNone:
			b.lose(reason)
		case took > 0 && !b.o.Take(took):
			b.lose(ReasonNoMemory)
		case cap(queue) <= keptQueue:
			b.spare = queue
		}
	}
	if cap(b.queue) > keptQueue {
		b.queue = nil
	}
	b.reading = false
	b.idle.Broadcast()
}

// read reads pieces of a stream. It returns why it cannot, and how much more memory the reader holds.
func (b *Observer) read(queue []byte, pieces []piece) (reason string, took int) {
	defer func() {
		if recover() != nil { // what it was may hold a text
			reason = ReasonFault
		}
	}()
	before := max(b.events.Held()+b.tally.held(), keptQueue)
	for _, p := range pieces {
		b.tally.now = p
		b.events.Write(queue[:p.size], func(e sse.Event) {
			if reason == ReasonNone && !readEvent(b.answer, &b.tally, e.Data) {
				reason = ReasonFormat
			}
		})
		queue = queue[p.size:]
		if b.events.Over() {
			reason = ReasonTooLarge
		}
		if reason != ReasonNone {
			return reason, 0
		}
	}
	return ReasonNone, max(0, b.events.Held()+b.tally.held()-before)
}

// errLeft ends an answer that nobody read to its end.
var errLeft = errors.New("inference: the answer was not read to its end")

// End says how the answer, or the call without one, has ended: by [io.EOF] as a whole, by [context.Canceled] because
// its client has gone. Only the first End counts.
func (b *Observer) End(err error) {
	now := b.o.Now()
	if b.o.Ended != nil {
		b.o.Ended()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken(now); !b.ended {
		b.ended, b.whole, b.in.End = true, errors.Is(err, io.EOF), now
		b.broken = !b.whole && !errors.Is(err, context.Canceled) && !errors.Is(err, errLeft)
	}
}

// Interaction waits until what was taken of the answer is read, and returns what is known of the call. It gives back
// all memory. An answer that has not ended before was given up by its client. It is complete all the same if its own
// end had come by then: nothing of what was said is missing.
func (b *Observer) Interaction() Interaction {
	b.End(errLeft)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.start(0)
	for b.reading {
		b.idle.Wait()
	}
	if b.done {
		return b.in
	}
	b.done = true
	if b.lost == ReasonNone && (b.json || b.gzip) {
		b.lost = b.readHeld()
	}
	b.tally.ended = b.tally.ended && !b.broken
	b.tally.conclude(b.lost)
	if b.in.Ready.IsZero() {
		b.in.Ready = b.in.End.Add(-b.waited)
	}
	b.held, b.queue, b.spare, b.events = nil, nil, nil, nil
	b.o.Free()
	return b.in
}

// readHeld reads an answer that was held. Of a compressed stream nothing says when it came.
func (b *Observer) readHeld() (reason string) {
	defer func() {
		if recover() != nil {
			reason = ReasonFault
		}
	}()
	body := b.held
	b.tally.carried(body)
	if b.gzip {
		if body, reason = decompress(body, b.o.Take); reason != ReasonNone {
			return reason
		}
	}
	b.tally.stream = false
	switch {
	case b.json && !b.whole:
		return ReasonNone // half of a JSON text says nothing
	case b.json && !readWhole(b.answer, &b.tally, body):
		return ReasonFormat
	case b.json:
		return ReasonNone
	}
	b.tally.stream = true
	reason, _ = b.read(body, []piece{{size: len(body)}})
	b.tally.stream = false
	b.in.First, b.in.Ready, b.in.Deltas = time.Time{}, time.Time{}, unmeasured
	return reason
}

// decompress returns what a gzip text holds; of one that is cut what comes before the cut. It asks take for the memory
// that this needs.
func decompress(body []byte, take func(n int) bool) (out []byte, reason string) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, ReasonEncoding
	}
	for err == nil {
		if len(out) > maxDecoded {
			return nil, ReasonTooLarge
		}
		if len(out) == cap(out) {
			more := max(len(out), keptQueue)
			if !take(more) {
				return nil, ReasonNoMemory
			}
			out = slices.Grow(out, more)
		}
		var n int
		n, err = r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
	}
	if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) { //nolint:errorlint // io.Reader's contract
		return nil, ReasonEncoding
	}
	return out, ReasonNone
}
