package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"

	"golang.org/x/sync/semaphore"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Bodies bounds what the bodies of all posts that are on their way take together, in bytes. A body counts as it comes, not as it is
// announced; the call that would go beyond is refused (overloaded). What is streamed, as by egress rules, is not held and does not count.
type Bodies struct {
	Memory int64 // held in memory: JSON, and what else has no more than 1 MiB; 64 MiB if 0
	Spool  int64 // held in unlinked files; 1 GiB if 0
}

// bodies holds the bodies of posts while they are verified and sent.
type bodies struct {
	dir           string
	memory, spool budget
	answers       budget // of MCP servers, while they are read
	// hashing admits as many normalisations of JSON as there are processors: each takes several times the memory of its text.
	hashing *semaphore.Weighted
}

// maxAnswers bounds what is held of answers of MCP servers to be read, in bytes. What does not fit is not read, and goes on all the same.
const maxAnswers = 64 << 20

func newBodies(l Bodies, dir string) *bodies {
	return &bodies{
		dir: dir, memory: newBudget("memory", cmp.Or(l.Memory, 64<<20)), spool: newBudget("the spool", cmp.Or(l.Spool, 1<<30)), answers: newBudget("answers", maxAnswers),
		hashing: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
	}
}

// budget is bytes of one kind, for all bodies together.
type budget struct {
	kind  string
	limit int64
	left  *semaphore.Weighted
}

func newBudget(kind string, limit int64) budget {
	return budget{kind, limit, semaphore.NewWeighted(limit)}
}

// share is what one body has of a budget.
type share struct {
	budget
	taken int64
}

func (s *share) take(n int) error {
	if !s.left.TryAcquire(int64(n)) {
		return refusal.New("overloaded", "the bodies of posts take the %d bytes of %s that they may take together; nothing was sent", s.limit, s.kind)
	}
	s.taken += int64(n)
	return nil
}

func (s *share) free() {
	s.left.Release(s.taken)
	s.taken = 0
}

// metered is a reader of which each byte counts against a share.
type metered struct {
	io.Reader
	share *share
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if full := m.share.take(n); full != nil {
		return 0, full
	}
	return n, err
}

// content is the body of a post, read once: what was hashed is what will be sent.
type content struct {
	hash string
	size int64
	mem  []byte
	file *os.File // unlinked; nil while the body fits in memory

	memory, spool share
}

// hold reads body to its end, into memory or, from inMemory bytes on, into an unlinked file, and hashes the bytes. announced is its length, or
// less where that is not known.
func (b *bodies) hold(body io.Reader, announced, inMemory int64) (*content, error) {
	c := &content{memory: share{budget: b.memory}, spool: share{budget: b.spool}}
	if err := c.read(body, announced, inMemory, b.dir); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *content) read(body io.Reader, announced, inMemory int64, dir string) error {
	var mem bytes.Buffer
	mem.Grow(int(min(max(announced, 0), spoolAnnounced)) + bytes.MinRead)
	if _, err := mem.ReadFrom(io.LimitReader(metered{body, &c.memory}, inMemory)); err != nil {
		return err
	}
	if c.size = int64(mem.Len()); c.size < inMemory {
		c.mem, c.hash = mem.Bytes(), evidence.HashBytes(mem.Bytes())
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
	c.size = more
	c.hash = hex.EncodeToString(sum.Sum(nil))
	c.memory.free()
	return nil
}

// unlinkedFile makes a file that nobody reads but its descriptor, and that is gone with the process.
func unlinkedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "body-*")
	if err != nil {
		return nil, refusal.New("content_spool", "the body could not be kept while it is verified; the mediator's disk may be full")
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, refusal.New("content_spool", "the body could not be kept privately while it is verified")
	}
	return f, nil
}

// spoolFile tells what is wrong with the disk from what is wrong with the body.
type spoolFile struct{ f *os.File }

func (s spoolFile) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if err != nil {
		return n, refusal.New("content_spool", "the body could not be kept while it is verified; the mediator's disk may be full")
	}
	return n, nil
}

// hashJSON hashes JSON text in its canonical form, once it is its turn.
func (b *bodies) hashJSON(ctx context.Context, text []byte) (string, error) {
	if b.hashing.Acquire(ctx, 1) != nil {
		return "", refusal.New("overloaded", "the body did not get its turn to be normalised in time; nothing was sent")
	}
	defer b.hashing.Release(1)
	return evidence.HashJSON(text)
}

// reader returns the body from its start.
func (c *content) reader() io.Reader {
	if c.file == nil {
		return bytes.NewReader(c.mem)
	}
	return io.NewSectionReader(c.file, 0, c.size)
}

// Close frees what holds the body.
func (c *content) Close() {
	if c.file != nil {
		_ = c.file.Close()
	}
	c.memory.free()
	c.spool.free()
}
