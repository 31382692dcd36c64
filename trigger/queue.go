package trigger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
)

// Queue is a source that claims messages from a spool directory, as a mail directory is used: a producer writes a file elsewhere
// on the same file system and moves it into new; the service claims it by moving it into claimed, which the file system lets one
// process do, and into done once the event is durable. The file's name is the message's id.
type Queue struct {
	name string
	dir  string
	poll time.Duration
}

// NewQueue makes a queue over a directory and makes its folders new, claimed and done.
func NewQueue(name, dir string, poll time.Duration) (*Queue, error) {
	if poll <= 0 {
		poll = time.Second
	}
	q := &Queue{name: name, dir: dir, poll: poll}
	for _, sub := range []string{"new", "claimed", "done"} {
		if err := os.MkdirAll(q.in(sub, ""), 0o700); err != nil {
			return nil, fmt.Errorf("trigger: queue %s: %w", name, err)
		}
	}
	return q, nil
}

func (q *Queue) in(sub, id string) string { return filepath.Join(q.dir, sub, id) }

// Name returns the source's name.
func (q *Queue) Name() string { return q.name }

// Run claims messages until ctx ends. A message that was claimed but not yet an event when an earlier process ended is taken
// first: its id makes sure that it becomes one event and no more.
func (q *Queue) Run(ctx context.Context, s *Service) error {
	tick := time.NewTicker(q.poll)
	defer tick.Stop()
	for {
		for _, sub := range []string{"claimed", "new"} {
			if err := q.take(ctx, s, sub); err != nil && ctx.Err() == nil {
				s.o.Log.Error("the queue could not be read", zap.String("source", q.name), zap.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// take makes an event of each message in a folder.
func (q *Queue) take(ctx context.Context, s *Service, sub string) error {
	entries, err := os.ReadDir(q.in(sub, ""))
	if err != nil {
		return err
	}
	var failed error
	for _, entry := range entries {
		if sub == "new" {
			err := os.Rename(q.in("new", entry.Name()), q.in("claimed", entry.Name()))
			if errors.Is(err, os.ErrNotExist) {
				continue // another process has claimed it
			}
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
		}
		if err := q.event(ctx, s, entry.Name()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("message %s: %w", entry.Name(), err))
		}
	}
	return failed
}

func (q *Queue) event(ctx context.Context, s *Service, id string) error {
	payload, err := readMessage(q.in("claimed", id))
	if err != nil {
		return err
	}
	e, err := newEvent(evidence.TriggerSourceEvent, q.name, evidence.MethodQueueClaim, id, "", payload, map[string]string{
		"queue": q.name, "messageId": id, "payload": evidence.HashBytes(payload),
	})
	if err != nil {
		return err
	}
	if _, _, err := s.add(ctx, e); err != nil {
		return err
	}
	return os.Rename(q.in("claimed", id), q.in("done", id))
}

// readMessage reads a bounded, regular file. A link could make any file that the service can read into a message.
func readMessage(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPayload {
		return nil, fmt.Errorf("it is not a regular file of at most %d bytes", maxPayload)
	}
	return io.ReadAll(io.LimitReader(f, maxPayload))
}
