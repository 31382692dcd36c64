package inference

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/cond"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/frames"
	"github.com/actionproof/mediator/proxy/sse"
)

// Bounds in bytes.
const (
	maxBehind  = 1 << 20 // of a stream that waits for the reader
	maxPieces  = 4096    // in number, of the same
	maxEvent   = 1 << 20
	maxAnswer  = 4 << 20 // of a compressed answer, or one that is no stream
	maxDecoded = 16 << 20
	keptQueue  = 4 << 10 // of an empty queue
	readAt     = 2 << 10 // bytes that start a reader: each start delays the relay
)

// All but the last four are required.
type Options struct {
	Key []byte // for the HMACs, see [Read]
	Now func() time.Time
	// Take reserves n bytes of memory, and Free releases all. They are called one at a time. If Take fails, the answer
	// is no longer followed.
	Take func(n int) bool
	Free func()

	// for a call that gets a receipt; Sample is then the wanted text of the answer, in bytes
	Measure *Measure
	Sample  int
	// called at the end of the answer, before the client has the last piece
	Ended func()
	// runs the reader in another goroutine
	Go func(read func())
}

// Observer times a call, and is an [io.Writer] that reads the answer as the client gets it. Write only copies: a reader
// in another goroutine follows a stream while there is enough to read. Other answers are read at the end. One goroutine
// calls all methods.
type Observer struct {
	o Options

	mu      sync.Mutex  // guards all below
	idle    sync.Cond   // the reader has read everything
	in      Interaction // the tally writes to it while there is a reader
	lost    string      // why the answer is not followed
	held    []byte      // a compressed answer, or one that is no stream
	queue   []byte      // of a stream
	pieces  []piece
	spare   []byte // a free buffer for queue
	charged int    // memory reserved for the queue; its first bytes are free
	reading bool   // a reader runs, and owns tally and events
	ended   bool
	whole   bool // the body came to its end
	broken  bool // the body broke off, though the client had not left
	gzip    bool
	json    bool
	waited  time.Duration // time for which the client left content unread
	done    bool
	brought time.Time // when the piece came that the client has not read yet, or zero

	tally   tally
	events  frames.Reader
	release func()
	event   func(sse.Event) // made once, because the framing could keep it
	failed  string          // the event being read
}

type piece struct {
	size   int
	at     time.Time
	waited time.Duration // see Observer
}

// Observe begins to time a call whose request came at received.
func Observe(r *Request, received time.Time, o Options) *Observer {
	if o.Go == nil {
		o.Go = func(read func()) { go read() }
	}
	b := &Observer{o: o, charged: keptQueue, in: Interaction{Request: r, Received: received}}
	b.idle.L = &b.mu
	b.tally = tally{in: &b.in, key: o.Key}
	if o.Measure != nil {
		b.tally.measure, b.tally.wanted, b.tally.transport = o.Measure, o.Sample, newMAC(o.Key, "transport")
	}
	return b
}

// Prepare asks for an unencoded answer, and notes when the head is written.
func (b *Observer) Prepare(out *http.Request) *http.Request {
	out.Header.Set("Accept-Encoding", "identity") // other encodings could not be followed
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{WroteHeaders: func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.in.Sent = b.o.Now()
	}}))
}

func (b *Observer) Request() *Request { return b.in.Request }

// Begin follows the body of resp as it is read.
func (b *Observer) Begin(resp *http.Response) {
	b.head(resp.StatusCode, resp.Header)
	b.release = b.in.Request.kept.Reading(b.catchUp)
	body.Watch(resp, b)
	resp.Body = &followed{resp.Body, b}
}

// followed starts the reader only when the caller reads on, and so has passed on the previous piece: then the reader
// does not compete with the relay for a processor.
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

// taken notes that the client has read the last piece, or will not.
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
		b.events = sse.NewReader(maxEvent)
	case kind == "application/x-ndjson":
		b.events = frames.NewLines(maxEvent)
	case kind == "application/vnd.amazon.eventstream":
		b.events = frames.NewEventStream(maxEvent)
	case kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"):
		b.json = true
	default:
		b.lose(ReasonType)
	}
	b.event = func(e sse.Event) {
		if b.failed == ReasonNone && !b.tally.readEvent(e) {
			b.failed = ReasonFormat
		}
	}
	b.in.Streamed = b.events != nil
	b.tally.stream = b.in.Streamed
	switch strings.ToLower(strings.Join(header["Content-Encoding"], ", ")) {
	case "", "identity":
	case "gzip", "x-gzip":
		b.gzip = true
	default:
		b.lose(ReasonEncoding)
	}
}

func (b *Observer) lose(reason string) {
	if b.lost == ReasonNone {
		b.lost = reason
	}
	b.held, b.queue, b.pieces, b.spare = nil, nil, nil, nil
}

// Write never fails or waits for the reader.
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

func (b *Observer) start(from int) {
	if len(b.pieces) > 0 && len(b.queue) >= from && !b.reading {
		b.reading = true
		b.o.Go(b.follow)
	}
}

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

func (b *Observer) follow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.pieces) > 0 && b.lost == ReasonNone {
		queue, pieces := b.queue, b.pieces
		b.queue, b.pieces, b.spare = b.spare[:0], nil, nil // a spare in use must not be given out again
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

// read returns why it failed, and how much more memory it holds.
func (b *Observer) read(queue []byte, pieces []piece) (reason string, took int) {
	defer func() {
		if recover() != nil { // the value may hold a text
			reason = ReasonFault
		}
	}()
	before := max(b.events.Held()+b.tally.held(), keptQueue)
	for _, p := range pieces {
		b.tally.now = p
		b.events.Write(queue[:p.size], b.event)
		b.tally.doubt(b.events.Odd())
		queue = queue[p.size:]
		if b.events.Over() {
			b.failed = ReasonTooLarge
		}
		if b.failed != ReasonNone {
			return b.failed, 0
		}
	}
	return ReasonNone, max(0, b.events.Held()+b.tally.held()-before)
}

// errLeft ends an answer that was not read to its end.
var errLeft = errors.New("inference: the answer was not read to its end")

// End ends the answer, or a call without one: [io.EOF] means a complete answer, [context.Canceled] that the client has
// gone. Only the first call counts.
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

// Interaction waits for the reader, and releases all memory. If the answer has not ended, the client gave it up; it is
// complete if the API's own mark of its end has come.
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
	// Some clients take an event without its end.
	odd := false
	if b.events != nil {
		rest := b.events.End()
		odd = b.events.Odd() || jsontext.Value(rest).IsValid() || len(rest) > 0 && b.in.Request.Dialect == Gemini
	}
	b.tally.doubt(odd)
	unmarked := b.in.Request.Dialect == Gemini || b.in.Request.Dialect == BedrockConverse // more may follow the end
	b.tally.ended = b.tally.ended && !b.broken && (!unmarked || b.whole && !odd)
	b.tally.conclude(b.lost)
	if b.in.Ready.IsZero() {
		b.in.Ready = b.in.End.Add(-b.waited)
	}
	b.held, b.queue, b.spare, b.events = nil, nil, nil, nil
	b.o.Free()
	if b.release != nil {
		b.release()
	}
	b.idle.Broadcast()
	return b.in
}

// catchUp waits until all is read that the client may have.
func (b *Observer) catchUp(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.start(0)
	_ = cond.Wait(ctx, &b.idle, func() bool { // a caller whose time is up reads what there is
		return b.done || b.lost != ReasonNone || !b.reading && !b.ended && !jsontext.Value(b.held).IsValid()
	})
}

// The times of a compressed stream's pieces are unknown.
func (b *Observer) readHeld() (reason string) {
	defer func() {
		if recover() != nil {
			reason = ReasonFault
		}
	}()
	body := b.held
	b.tally.carried(body)
	if b.gzip {
		var err error
		if body, err = frames.Gunzip(body, maxDecoded, b.o.Take); err != nil {
			return map[error]string{frames.ErrEncoding: ReasonEncoding, frames.ErrTooLarge: ReasonTooLarge,
				frames.ErrNoMemory: ReasonNoMemory}[err]
		}
	}
	b.tally.stream = false
	switch {
	case b.json && !b.whole:
		return ReasonNone // half a JSON text says nothing
	case b.json && !b.tally.readWhole(body):
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
