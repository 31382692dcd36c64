// Package body reads calls' bodies once, bounded and hashed, and holds them until they have been sent.
package body

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/internal/wire"
)

const (
	// MaxJSON bounds a JSON body, which is held in memory, in bytes.
	MaxJSON = 8 << 20
	// spoolAt is the size from which a raw body goes to an unlinked file.
	spoolAt = 1 << 20
	// spoolAnnounced bounds the memory reserved for an announced body.
	spoolAnnounced = 64 << 10
	// small texts, up to this many bytes, are read without a turn.
	small = 64 << 10
	// maxAnswers bounds the answers held for reading, in bytes. Others go on unread.
	maxAnswers = 64 << 20
)

// Limits bounds the bodies of all posts on their way together, in bytes. One session gets at most as much as it leaves
// free ([share.Pool]). A body counts as it arrives, not as announced; the call that would exceed a limit is refused
// (overloaded). Streamed bodies, as under egress rules, do not count.
type Limits struct {
	Memory int64 // in memory: JSON, and others up to 1 MiB; 64 MiB if 0
	Spool  int64 // in unlinked files; 1 GiB if 0
}

// Store holds bodies while their calls are verified and sent. It is safe for concurrent use.
type Store struct {
	dir           string
	memory, spool *budget
	answers       *budget // of MCP servers and models, being read
	// reading admits one reading of JSON per processor: each takes many times its text's memory.
	reading *share.Turns
}

// NewStore makes a store with its unlinked files in dir.
func NewStore(l Limits, dir string) *Store {
	return &Store{
		dir: dir, memory: newBudget("memory", cmp.Or(l.Memory, 64<<20)),
		spool: newBudget("the spool", cmp.Or(l.Spool, 1<<30)), answers: newBudget("answers", maxAnswers),
		reading: share.NewTurns(runtime.GOMAXPROCS(0)),
	}
}

type budget struct {
	kind  string
	limit int64
	share.Pool
}

func newBudget(kind string, limit int64) *budget { return &budget{kind: kind, limit: limit} }

// Share is one body's part of a budget.
type Share struct {
	of      *budget
	session string
	taken   int64
}

// Take takes n bytes more, or refuses.
func (s *Share) Take(n int) error {
	if !s.of.Take(s.session, int64(n), s.of.limit) {
		return refusal.New("overloaded",
			"the session's posts use its whole share of the %d bytes of %s; nothing was sent", s.of.limit, s.of.kind)
	}
	s.taken += int64(n)
	return nil
}

// Free returns all that was taken.
func (s *Share) Free() {
	s.of.Give(s.session, s.taken)
	s.taken = 0
}

type metered struct {
	io.Reader
	share *Share
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if full := m.share.Take(n); full != nil {
		return 0, full
	}
	return n, err
}

// Body is the body of a call, read once: the hashed bytes are the sent bytes.
type Body struct {
	// Hash is the lowercase hex SHA-256 of the bytes; empty for JSON, see [Store.HashJSON].
	Hash string
	Size int64
	// Text holds the bytes if they are in memory, as JSON always is.
	Text []byte

	file *os.File // unlinked; nil if the body fits in memory

	memory, spool Share
	closed        sync.Once
}

// read reads body to its end: into memory, or from inMemory bytes on into an unlinked file and hashed. announced is its
// length, or less if unknown.
func (c *Body) read(body io.Reader, announced, inMemory int64, dir string) error {
	var mem bytes.Buffer
	mem.Grow(int(min(max(announced, 0), spoolAnnounced)) + bytes.MinRead)
	if _, err := mem.ReadFrom(io.LimitReader(metered{body, &c.memory}, inMemory)); err != nil {
		return err
	}
	if c.Size = int64(mem.Len()); c.Size < inMemory {
		c.Text = mem.Bytes()
		return nil
	}
	var err error
	if c.file, err = unlinkedFile(dir); err != nil {
		return err
	}
	sum := sha256.New()
	more, err := io.Copy(io.MultiWriter(spoolFile{c.file}, sum), metered{io.MultiReader(&mem, body), &c.spool})
	if err != nil {
		return err
	}
	c.Size = more
	c.Hash = hex.EncodeToString(sum.Sum(nil))
	c.memory.Free()
	return nil
}

// unlinkedFile makes a file that only its descriptor reaches, and that ends with the process.
func unlinkedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "body-*")
	if err != nil {
		return nil, refusal.New("ledger_unavailable",
			"the body could not be stored for verification; the mediator's disk may be full")
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, refusal.New("ledger_unavailable", "the body could not be stored privately for verification")
	}
	return f, nil
}

// spoolFile distinguishes faults of the disk from faults of the body.
type spoolFile struct{ f *os.File }

func (s spoolFile) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if err != nil {
		return n, refusal.New("ledger_unavailable",
			"the body could not be stored for verification; the mediator's disk may be full")
	}
	return n, nil
}

// Answers returns a share for the answers to a session.
func (b *Store) Answers(session string) *Share { return &Share{of: b.answers, session: session} }

// HashJSON hashes JSON text in canonical form, in its turn.
func (b *Store) HashJSON(ctx context.Context, session string, text []byte) (string, error) {
	done, err := b.Turn(ctx, session, len(text))
	if err != nil {
		return "", err
	}
	defer done()
	return evidence.HashJSON(text)
}

// Turn waits until a session may read a text of this size. The caller then calls done. Small texts do not wait, and a
// session waits for at most one text of each other session.
func (b *Store) Turn(ctx context.Context, session string, size int) (done func(), err error) {
	if size <= small {
		return func() {}, nil
	}
	if done, err = b.reading.Wait(ctx, session); err != nil {
		return nil, refusal.New("overloaded", "the body waited too long for its turn to be read; nothing was sent")
	}
	return done, nil
}

// Reader returns the body from its start.
func (c *Body) Reader() io.Reader {
	if c.file == nil {
		return bytes.NewReader(c.Text)
	}
	return io.NewSectionReader(c.file, 0, c.Size)
}

// Close frees the body's memory and file. Any goroutine may call it, more than once.
func (c *Body) Close() {
	c.closed.Do(func() {
		c.Text = nil
		if c.file != nil {
			_ = c.file.Close()
		}
		c.memory.Free()
		c.spool.Free()
	})
}

// Read reads the body of a session's request, at most limit bytes, as JSON or raw.
func (b *Store) Read(w http.ResponseWriter, r *http.Request, session string, limit int64, isJSON bool) (*Body, error) {
	if len(r.Trailer) > 0 {
		return nil, refusal.New("request_malformed", "the request announces trailers, which the content hash would not cover")
	}
	inMemory := int64(spoolAt)
	if isJSON {
		if err := wire.CheckJSON(r.Header); err != nil {
			return nil, err
		}
		limit, inMemory = min(limit, MaxJSON), MaxJSON+1 // never in a file
	}
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	c := &Body{memory: Share{of: b.memory, session: session}, spool: Share{of: b.spool, session: session}}
	if err := c.read(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, inMemory, b.dir); err != nil {
		c.Close()
		return nil, readError(err, limit)
	}
	if !isJSON && c.file == nil {
		c.Hash = evidence.HashBytes(c.Text)
	}
	if len(r.Trailer) > 0 { // unannounced trailers appear after the body
		c.Close()
		return nil, refusal.New("request_malformed", "the request carries trailers, which the content hash would not cover")
	}
	return c, nil
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
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return err
	}
	return refusal.New("content_incomplete", "the body ended early or could not be read")
}
