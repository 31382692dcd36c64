package trigger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

const (
	// maxMessages bounds the messages of a folder that are taken in one round.
	maxMessages = 1024
	// doneEvery is how often old messages are removed from the folder done.
	doneEvery = time.Hour
)

// The folders of a queue.
const (
	folderNew     = "new"     // producers move finished files into it
	folderClaimed = "claimed" // this service's; no event yet
	folderDone    = "done"    // an event
	folderRefused = "refused" // no event, ever
)

// Queue is a source that claims messages from a spool directory, as a mail directory is used: a producer writes a file elsewhere
// on the same file system and moves it into new; the service claims it by moving it into claimed, and into done once the event is
// durable. The file's name is the message's id, good for one event; names that begin with a full stop are left alone. What is no
// plain file of the right size and owner goes to refused. What lies in done is removed after the service's retention.
//
// Whoever can move a file into new can start an agent. One service at a time works on the directory; a further one waits for it.
type Queue struct {
	// Owners are the users whose messages are taken, besides the service's own user and the owner of the directory. It is set before
	// Run.
	Owners []uint32

	name string
	dir  string
	poll time.Duration
}

// NewQueue makes a queue over a directory, which is looked at every poll (zero means 1 s). It touches nothing: what runs the queue makes its
// folders.
func NewQueue(name, dir string, poll time.Duration) *Queue {
	if poll <= 0 {
		poll = time.Second
	}
	return &Queue{name: name, dir: dir, poll: poll}
}

// open makes the folders that are not there. It refuses one that every user may write, and one that this user may not.
func (q *Queue) open() error {
	for _, folder := range []string{"", folderNew, folderClaimed, folderDone, folderRefused} {
		if err := openFolder(q.in(folder, "")); err != nil {
			return fmt.Errorf("trigger: queue %s: %w", q.name, err)
		}
	}
	return nil
}

func openFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("every user may write to %s", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s is not this user's to read and write: %w", path, err)
	}
	return nil
}

func (q *Queue) in(folder, id string) string { return filepath.Join(q.dir, folder, id) }

// Name returns the source's name.
func (q *Queue) Name() string { return q.name }

// Run claims messages until ctx ends. A message that was claimed but not yet an event when an earlier process ended is taken
// first: its id makes sure that it becomes one event and no more.
func (q *Queue) Run(ctx context.Context, s *Service) error {
	directory, err := os.Open(q.dir)
	if err != nil {
		return fmt.Errorf("trigger: queue %s: %w", q.name, err)
	}
	defer directory.Close() // and with it the lock
	owners, err := q.owners(directory)
	if err != nil {
		return fmt.Errorf("trigger: queue %s: %w", q.name, err)
	}
	tick := time.NewTicker(q.poll)
	defer tick.Stop()
	var swept time.Time
	for {
		if syscall.Flock(int(directory.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			q.round(ctx, s, owners)
			if now := s.o.Now(); now.Sub(swept) >= doneEvery {
				q.sweep(s, now.Add(-s.o.Retention))
				swept = now
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// owners are the users whose messages are taken.
func (q *Queue) owners(directory *os.File) ([]uint32, error) {
	info, err := stat(directory)
	return append([]uint32{uint32(os.Geteuid()), info.Uid}, q.Owners...), err
}

// round takes what is there. What fails is in the log, and tried again in the next round.
func (q *Queue) round(ctx context.Context, s *Service, owners []uint32) {
	for _, folder := range []string{folderClaimed, folderNew} {
		ids, err := q.messages(folder)
		if err != nil {
			s.o.Log.Error("the queue cannot be read", zap.String("source", q.name), zap.Error(err))
		}
		for _, id := range ids {
			if ctx.Err() != nil {
				return
			}
			if err := q.take(ctx, s, folder, id, owners); err != nil && ctx.Err() == nil {
				s.o.Log.Error("a message was not taken", zap.String("source", q.name), zap.String("message", id), zap.Error(err))
			}
		}
	}
}

// messages returns the names in a folder, in order, but not more than maxMessages of them.
func (q *Queue) messages(folder string) ([]string, error) {
	d, err := os.Open(q.in(folder, ""))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxMessages)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") })
	slices.Sort(names)
	return names, err
}

// take makes an event of one message.
func (q *Queue) take(ctx context.Context, s *Service, folder, id string, owners []uint32) error {
	claimed := q.in(folderClaimed, id)
	if folder == folderNew {
		if _, err := os.Lstat(claimed); err == nil {
			return errors.New("a message of this name is being worked on") // moving would put this one in its place
		}
		if err := os.Rename(q.in(folderNew, id), claimed); err != nil {
			return err
		}
	}
	payload, err := readMessage(claimed, s.o.MaxPayload, owners)
	if err == nil {
		hash := evidence.HashBytes(payload)
		_, _, err = s.add(ctx, arrival{
			kind: evidence.TriggerSourceEvent, source: q.name, method: evidence.MethodQueueClaim, evidenceID: id, payload: payload,
			verified: map[string]string{"queue": q.name, "messageId": id, "payload": hash, "claimedAt": s.o.Now().UTC().Format(time.RFC3339Nano)},
		})
	}
	if refused := new(refusal.Refusal); errors.As(err, &refused) { // it will not get better
		s.o.Log.Warn("message refused", zap.String("source", q.name), zap.String("message", id), zap.String("code", refused.Code()), zap.Error(refused))
		return os.Rename(claimed, q.in(folderRefused, id))
	}
	if err != nil {
		return err
	}
	done := q.in(folderDone, id)
	if _, err := os.Lstat(done); err == nil {
		s.o.Log.Warn("message refused: its id has been used before", zap.String("source", q.name), zap.String("message", id))
		return os.Rename(claimed, q.in(folderRefused, id))
	}
	return os.Rename(claimed, done)
}

// readMessage reads a bounded, plain file of a known owner. A symbolic or a hard link could make any file that the service can read,
// or that one of the owners has written for something else, into a message.
func readMessage(path string, maxSize int, owners []uint32) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) { // a link, a socket
		return nil, refusal.New("event_malformed", "the message is not a plain file")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := stat(f)
	switch {
	case err != nil:
		return nil, err
	case info.Mode&unix.S_IFMT != unix.S_IFREG || info.Nlink != 1:
		return nil, refusal.New("event_malformed", "the message is not a plain file with one name")
	case !slices.Contains(owners, info.Uid):
		return nil, refusal.New("event_malformed", "the message belongs to the user %d, whose messages are not taken", info.Uid)
	}
	raw, err := io.ReadAll(io.LimitReader(f, int64(maxSize)+1))
	if len(raw) > maxSize {
		return nil, refusal.New("event_too_large", "the message is larger than %d bytes", maxSize)
	}
	return raw, err
}

func stat(f *os.File) (info unix.Stat_t, err error) {
	err = unix.Fstat(int(f.Fd()), &info)
	return info, err
}

// sweep removes messages that have long been events.
func (q *Queue) sweep(s *Service, before time.Time) {
	entries, err := os.ReadDir(q.in(folderDone, ""))
	for _, entry := range entries {
		info, e := entry.Info()
		if e == nil && info.ModTime().Before(before) {
			e = os.Remove(q.in(folderDone, entry.Name()))
		}
		if !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		s.o.Log.Error("old messages were not removed", zap.String("source", q.name), zap.Error(err))
	}
}
