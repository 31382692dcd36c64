// Package body reads calls' bodies once, bounded and hashed, and holds them until they have been sent.
package body

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/internal/wire"
)

const (
	// MaxJSON bounds a JSON body, in bytes.
	MaxJSON = 8 << 20
	// Max bounds any body: half of defaultMemory, the most that one session gets.
	Max = defaultMemory / 2
	// defaultMemory bounds the bodies of all posts on their way together.
	defaultMemory = 64 << 20
	// maxAnnounced bounds the memory reserved for an announced body.
	maxAnnounced = 64 << 10
	// small texts, up to this many bytes, are read without a turn. A byte of a URL, or of a message with many parts,
	// can take a microsecond: calls without turns would keep the processors from other sessions, and from the observer
	// of runs.
	small = 4 << 10
	// maxAnswers bounds the answers held for reading, in bytes. Others go on unread.
	maxAnswers = 64 << 20
)

// Store holds bodies in memory while their calls are verified and sent. A body counts as it arrives, not as announced;
// the call that would exceed a limit is refused (overloaded). It is safe for concurrent use.
type Store struct {
	bodies  budget // of posts; streamed bodies, as under egress rules, do not count
	answers budget // of MCP servers and models, being read
	// reading admits one reading of a text per processor: of JSON, each takes many times its text's memory.
	reading *share.Turns
}

// NewStore makes a store for at most so many bytes of bodies; 64 MiB if 0. One party gets at most as much as it
// leaves free ([share.Pool]).
func NewStore(bodies int64) *Store {
	return &Store{
		bodies:  budget{kind: "memory", limit: cmp.Or(bodies, defaultMemory)},
		answers: budget{kind: "answers", limit: maxAnswers}, reading: share.NewTurns(runtime.GOMAXPROCS(0), 1),
	}
}

type budget struct {
	kind  string
	limit int64
	share.Pool
}

// Share is one body's part of a budget.
type Share struct {
	of    *budget
	party string
	taken int64
}

// Take takes n bytes more, or refuses.
func (s *Share) Take(n int) error {
	if !s.of.Take(s.party, int64(n), s.of.limit) {
		return refusal.New("overloaded",
			"the session's posts have used up its share of the %d bytes of %s for all sessions; nothing was sent",
			s.of.limit, s.of.kind)
	}
	s.taken += int64(n)
	return nil
}

// Free returns all that was taken.
func (s *Share) Free() {
	s.of.Give(s.party, s.taken)
	s.taken = 0
}

// Metered takes memory for the bytes that it reads. It ends where Take refuses.
type Metered struct {
	io.Reader
	Take func(n int) error
}

func (m Metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if full := m.Take(n); full != nil {
		return 0, full
	}
	return n, err
}

// Body is the body of a call, read once: the hashed bytes are the sent bytes.
type Body struct {
	// Hash is the lowercase hex SHA-256 of the bytes; empty for JSON, see [Store.HashJSON].
	Hash string
	Size int64
	Text []byte

	memory Share
	closed sync.Once
}

// Answers returns a share for the answers to a party.
func (b *Store) Answers(party string) *Share { return &Share{of: &b.answers, party: party} }

// HashJSON hashes JSON text in canonical form, in its turn.
func (b *Store) HashJSON(ctx context.Context, party string, text []byte) (string, error) {
	done, err := b.Turn(ctx, party, len(text))
	if err != nil {
		return "", err
	}
	defer done()
	return evidence.HashJSON(text)
}

// Turn waits until a party may read a text of this size. The caller then calls done. Small texts do not wait, and a
// party waits for at most one text of each other party.
func (b *Store) Turn(ctx context.Context, party string, size int) (done func(), err error) {
	if size <= small {
		return func() {}, nil
	}
	if done, err = b.reading.Wait(ctx, party); err != nil {
		return nil, refusal.New("overloaded", "the call waited too long for its turn to be judged; nothing was sent")
	}
	return done, nil
}

// Reader returns the body from its start.
func (c *Body) Reader() io.Reader { return bytes.NewReader(c.Text) }

// Close frees the body's memory. Any goroutine may call it, more than once.
func (c *Body) Close() {
	c.closed.Do(func() {
		c.Text = nil
		c.memory.Free()
	})
}

// Read reads the body of a party's request, at most limit bytes, as JSON or raw. It refuses a judged body that could
// change the call's method.
func (b *Store) Read(w http.ResponseWriter, r *http.Request, party string, limit int64, isJSON, judged bool) (*Body,
	error) {
	if len(r.Trailer) > 0 {
		return nil, errTrailers()
	}
	if isJSON {
		if err := wire.CheckJSON(r.Header); err != nil {
			return nil, err
		}
		limit = min(limit, MaxJSON)
	}
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	c := &Body{memory: Share{of: &b.bodies, party: party}}
	var text bytes.Buffer
	text.Grow(int(min(max(r.ContentLength, 0), maxAnnounced)) + bytes.MinRead)
	if _, err := text.ReadFrom(Metered{http.MaxBytesReader(w, r.Body, limit), c.memory.Take}); err != nil {
		c.Close()
		return nil, readError(err, limit)
	}
	if c.Text, c.Size = text.Bytes(), int64(text.Len()); !isJSON {
		c.Hash = evidence.HashBytes(c.Text)
	}
	if len(r.Trailer) > 0 { // unannounced trailers appear after the body
		c.Close()
		return nil, errTrailers()
	}
	if judged {
		if err := b.checkMethod(r, party, c.Text); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func errTrailers() error {
	return refusal.New("request_malformed", "the request has trailers, which the content hash would not cover")
}

// checkMethod refuses a body that could change the call's method, in its turn.
func (b *Store) checkMethod(r *http.Request, party string, text []byte) error {
	if name := hidesFields(r.Method, r.Header); name != "" && len(text) > 0 {
		return refusal.New("override_refused", "the header %s hides fields of the body, from which some servers take the "+
			"call's method: send the body uncompressed, in UTF-8", name)
	}
	done, err := b.Turn(r.Context(), party, len(text))
	if err != nil {
		return err
	}
	defer done()
	if name := methodOverride(r.Method, r.Header, text); name != "" {
		return refusal.New("override_refused", "some servers take the call's method from the body's field %.40q", name)
	}
	return nil
}

// TooLarge refuses a body of more than limit bytes.
func TooLarge(limit int64) error {
	return refusal.New("content_too_large", "the body is larger than the %d bytes that this action allows", limit)
}

// readError explains a failed read. limit is the body's bound.
func readError(err error, limit int64) error {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return TooLarge(limit)
	}
	if refusal.CodeOf(err) != "" {
		return err
	}
	return refusal.New("content_incomplete", "the body ended early or could not be read")
}
