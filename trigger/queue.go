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
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

const (
	// maxMessages bounds the folder entries read at once.
	maxMessages = 1024
	// maxStrange bounds the links, FIFOs and so on that one round moves away.
	maxStrange = 1024
	// maxTold bounds the remembered log lines.
	maxTold = 1024
)

const (
	folderNew     = "new"     // producers move finished files here
	folderClaimed = "claimed" // taken by the service
	folderRefused = "refused" // never events
)

// Queue claims messages from a spool directory, like a mail directory. A producer moves a finished file into new,
// within one file system. The service moves it to claimed, and removes it once the event is durable. The file's name is
// the message's id, good for one event. A name with a leading full stop is ignored.
//
// Files of the wrong type, size or owner go to refused. Folders stay, because their content is unbounded, and so do
// files that cannot be moved, such as a link under Landlock; the log reports them once. Only plain files are opened.
//
// Anyone who can move a file into new can start an agent. Only one service at a time works on a directory; others wait.
type Queue struct {
	// Owners are users whose messages are accepted, besides the service's user and the directory's owner. Set it before
	// Run.
	Owners []uint32

	name string
	dir  string
}

// NewQueue makes a queue that reads a directory every second. It touches no files yet.
func NewQueue(name, dir string) *Queue { return &Queue{name: name, dir: dir} }

// open creates missing folders. It refuses folders that every user may write, or that this user may not.
func (q *Queue) open() error {
	for _, folder := range []string{"", folderNew, folderClaimed, folderRefused} {
		if err := openFolder(filepath.Join(q.dir, folder)); err != nil {
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
		return fmt.Errorf("%s cannot be read and written by this user: %w", path, err)
	}
	return nil
}

func (q *Queue) Name() string { return q.name }

// Run claims messages until ctx ends, first those claimed by an earlier process: a message's id ensures that it makes
// one event.
func (q *Queue) Run(ctx context.Context, s *Service) error {
	info, err := os.Stat(q.dir)
	if err != nil {
		return fmt.Errorf("trigger: queue %s: %w", q.name, err)
	}
	w := &queueRun{Queue: q, service: s, owners: append([]uint32{uint32(os.Geteuid()), ownerOf(info).Uid}, q.Owners...)}
	defer func() { _ = w.lock.Close() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		w.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

type queueRun struct {
	*Queue
	service *Service
	owners  []uint32
	lock    *os.File // of the one service that takes messages; nil before this one is it
	root    *os.Root // in a round, the directory: links that a producer puts in place of its folders lead nowhere else
	// told and tells are the log lines of the last round and this one about files that stay. Each is logged once until
	// it changes.
	told, tells map[string]bool
	strange     int
}

// round takes all messages. It logs failures and tries again in the next round.
func (w *queueRun) round(ctx context.Context) {
	w.told, w.tells, w.strange = w.tells, make(map[string]bool), 0
	var err error
	if w.lock == nil {
		// Not the directory's own lock: whoever may read that, such as an agent, could hold it.
		w.lock, err = files.Lock(filepath.Join(w.dir, "queue"))
	}
	if errors.Is(err, files.ErrInUse) {
		return
	}
	if err == nil {
		w.root, err = os.OpenRoot(w.dir)
	}
	if err != nil {
		w.say(zap.ErrorLevel, "the queue cannot be read", "", err)
		return
	}
	defer w.root.Close()
	for _, folder := range []string{folderClaimed, folderNew} {
		if err := w.takeAll(ctx, folder); err != nil {
			w.say(zap.ErrorLevel, "the queue cannot be read", "", err)
		}
	}
}

// takeAll takes a folder's messages, many at a time in order of their names. Messages that cannot be taken do not hide
// others.
func (w *queueRun) takeAll(ctx context.Context, folder string) error {
	d, err := w.root.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	for ctx.Err() == nil {
		entries, err := d.ReadDir(maxMessages)
		slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, entry := range entries {
			if ctx.Err() != nil {
				return nil
			}
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			if err := w.take(ctx, folder, entry); err != nil && ctx.Err() == nil {
				w.say(zap.ErrorLevel, "a message was not taken", entry.Name(), err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *queueRun) say(level zapcore.Level, line, id string, err error) {
	key := line + "\n" + id + "\n" + err.Error()
	if len(w.tells) < maxTold {
		w.tells[key] = true
	}
	if !w.told[key] {
		w.log(level, line, id, err)
	}
}

func (w *queueRun) log(level zapcore.Level, line, id string, err error) {
	w.service.strangers.Log(level, line, zap.String("source", w.name), zap.String("message", id),
		zap.String("code", codeOf(err)), zap.Error(err))
}

func codeOf(err error) string {
	if refused := new(refusal.Refusal); errors.As(err, &refused) {
		return refused.Code()
	}
	return ""
}

func (w *queueRun) take(ctx context.Context, folder string, entry os.DirEntry) error {
	id, claimed := entry.Name(), filepath.Join(folderClaimed, entry.Name())
	if !entry.Type().IsRegular() {
		if w.strange++; w.strange > maxStrange {
			return nil
		}
		if entry.IsDir() {
			w.say(zap.WarnLevel, "message refused", id, errFolder)
			return nil
		}
		return w.refuse(folder, id, errNotPlain)
	}
	if folder == folderNew {
		if _, err := w.root.Lstat(claimed); err == nil {
			return errors.New("a message of this name is being worked on") // moving would replace it
		}
		if err := w.root.Rename(filepath.Join(folderNew, id), claimed); err != nil {
			return err
		}
	}
	fresh := false
	payload, err := w.read(claimed)
	if err == nil {
		hash := evidence.HashBytes(payload)
		_, fresh, err = w.service.add(ctx, arrival{
			kind: evidence.TriggerSourceEvent, source: w.name, method: evidence.MethodQueueClaim, evidenceID: id,
			payload: payload,
			verified: map[string]string{"queue": w.name, "messageId": id, "payload": hash,
				"claimedAt": w.service.o.Now().UTC().Format(time.RFC3339Nano)},
		})
	}
	if codeOf(err) != "" { // a retry would not help
		return w.refuse(folderClaimed, id, err)
	}
	if err != nil {
		return err
	}
	if !fresh && folder == folderNew { // a claimed one can be an event of an earlier process
		return w.refuse(folderClaimed, id, errors.New("its id has been used before"))
	}
	return w.root.Remove(claimed)
}

func (w *queueRun) refuse(folder, id string, because error) error {
	const line = "message refused"
	err := w.root.Rename(filepath.Join(folder, id), filepath.Join(folderRefused, id))
	if err != nil {
		w.say(zap.WarnLevel, line, id, because)
	} else {
		w.log(zap.WarnLevel, line, id, because)
	}
	return err
}

var (
	errNotPlain = refusal.New("event_malformed", "the message is not a regular file, or has more than one hard link")
	errFolder   = refusal.New("event_malformed", "the message is a folder, and stays where it is: remove it")
)

// read reads a bounded, plain file of an accepted owner. A link could turn a file that an owner wrote for another
// purpose into a message. So it checks the file before and after opening it.
func (w *queueRun) read(path string) ([]byte, error) {
	named, err := w.root.Lstat(path)
	if err == nil {
		err = w.check(named)
	}
	if err != nil {
		return nil, err
	}
	f, err := w.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !os.SameFile(named, opened):
		return nil, errNotPlain
	}
	if err := w.check(opened); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, MaxPayload+1))
	if len(raw) > MaxPayload {
		return nil, refusal.New("content_too_large", "the message is larger than %d bytes", MaxPayload)
	}
	return raw, err
}

func (w *queueRun) check(info os.FileInfo) error {
	switch of := ownerOf(info); {
	case !info.Mode().IsRegular() || of.Nlink != 1:
		return errNotPlain
	case !slices.Contains(w.owners, of.Uid):
		return refusal.New("event_malformed", "the message belongs to the user %d, who is not a configured owner",
			of.Uid)
	}
	return nil
}

func ownerOf(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
