package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/trigger"
)

type spool struct {
	t   *testing.T
	dir string
}

func newSpool(t *testing.T) *spool {
	t.Helper()
	return &spool{t: t, dir: t.TempDir()}
}

func (s *spool) queue() *trigger.Queue {
	return trigger.NewQueue("jobs", filepath.Join(s.dir, "spool"))
}

func (s *spool) path(folder, id string) string { return filepath.Join(s.dir, "spool", folder, id) }

// put moves a finished file into new, like a producer.
func (s *spool) put(id, content string) {
	s.t.Helper()
	draft := filepath.Join(s.dir, "draft")
	s.check(os.WriteFile(draft, []byte(content), 0o600))
	s.check(os.Rename(draft, s.path("new", id)))
}

func (s *spool) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *spool) want(folder string, ids ...string) {
	s.t.Helper()
	entries, err := os.ReadDir(s.path(folder, ""))
	s.check(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, ids) {
		s.t.Errorf("the folder %s holds %v, want %v", folder, got, ids)
	}
}

func inQueue(t *testing.T, do func(t *testing.T, s *spool, q *trigger.Queue, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		q := s.queue()
		k := bubble(t, sourced(q))
		defer func() { k.Close() }()
		do(t, s, q, k)
	})
}

func TestQueue(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		s.put("b.json", `{"job": 2}`)
		s.put("a.txt", "plain text")
		s.put(".hidden", "not finished")
		stop := k.run(t)
		time.Sleep(2 * time.Second)
		stop()
		s.want("new", ".hidden")
		s.want("claimed")
		wantTimes(t, k, "a.txt", "b.json")
		e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t)
		if e.Kind != evidence.TriggerSourceEvent || e.Method != evidence.MethodQueueClaim ||
			string(e.Payload) != `"plain text"` || e.PayloadHash != evidence.HashBytes([]byte("plain text")) {
			t.Errorf("claimed %+v", e)
		}
		k.wantEvidence(t, e, map[string]string{
			"queue": "jobs", "messageId": "a.txt", "payload": e.PayloadHash,
			"claimedAt": e.ReceivedAt.Format(time.RFC3339Nano),
		})
	})
}

// TestQueueTest puts messages into the queue that the service accepts, also where root does so for another user.
func TestQueueTest(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, q *trigger.Queue, k *kit) {
		if os.Geteuid() == 0 {
			s.check(os.Chown(filepath.Join(s.dir, "spool"), 60570, 60570))
		}
		for range 2 {
			s.check(q.Test())
		}
		messages, err := filepath.Glob(s.path("new", "test-*"))
		s.check(err)
		for _, name := range messages {
			info, err := os.Stat(name)
			s.check(err)
			if of := info.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && of != 60570 {
				t.Errorf("it belongs to %d", of)
			}
		}
		stop := k.run(t)
		time.Sleep(2 * time.Second)
		stop()
		s.want("refused")
		for range 2 {
			if e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t); e.Method != evidence.MethodQueueClaim {
				t.Errorf("claimed %+v", e)
			}
		}
	})
}

func TestQueueMessageOnce(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		for range 2 {
			stop := k.run(t)
			s.put("id", time.Now().String())
			time.Sleep(2 * time.Second)
			stop()
			k.restart(t)
		}
		wantTimes(t, k, "id")
		s.want("refused", "id")
	})
}

// TestQueueAfterCrash finds two claimed messages of an earlier process. Only one is an event already.
func TestQueueAfterCrash(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		s.put("known", "1")
		stop := k.run(t)
		time.Sleep(time.Second)
		stop()
		s.put("known", "1")
		s.check(os.Rename(s.path("new", "known"), s.path("claimed", "known")))
		s.put("fresh", "2")
		s.check(os.Rename(s.path("new", "fresh"), s.path("claimed", "fresh")))
		stop = k.run(t)
		time.Sleep(time.Second)
		stop()
		wantTimes(t, k, "known", "fresh")
		s.want("claimed")
		s.want("refused")
	})
}

func TestQueueRefuses(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		target := filepath.Join(s.dir, "target")
		s.check(os.WriteFile(target, []byte("secret"), 0o600))
		s.check(os.Symlink(target, s.path("new", "symlink")))
		s.check(os.Link(target, s.path("new", "hardlink")))
		s.check(syscall.Mkfifo(s.path("new", "fifo"), 0o600))
		s.check(syscall.Mknod(s.path("new", "socket"), syscall.S_IFSOCK|0o600, 0))
		s.check(os.Mkdir(s.path("new", "directory"), 0o700))
		s.put("large", strings.Repeat("x", trigger.MaxPayload+1))
		s.put("bytes", "\xff\xfe")
		s.put("a name with spaces", "{}")
		refused := []string{"a name with spaces", "bytes", "fifo", "hardlink", "large", "socket", "symlink"}
		says := []string{"printable ASCII", "UTF-8", "is a folder, and stays where it is", "more than one hard link",
			"more than one hard link", "larger than 262144 bytes", "not a regular file", "not a regular file"}
		if os.Geteuid() == 0 { // only root can give a file away
			s.put("stranger", "{}")
			s.check(os.Chown(s.path("new", "stranger"), 12345, 12345))
			refused, says = slices.Insert(refused, 6, "stranger"), slices.Insert(says, 7, "belongs to the user 12345")
		}
		s.put("exact", strings.Repeat("x", trigger.MaxPayload))
		option, logs := logged()
		option(&k.options)
		k.restart(t)
		stop := k.run(t)
		time.Sleep(2 * time.Second)
		stop()
		s.want("refused", refused...)
		s.want("new", "directory")
		for i := range says {
			says[i] = "message refused: " + says[i]
		}
		wantLog(t, logs, says...)
		wantTimes(t, k, "exact")
	})
}

func TestQueueOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	inQueue(t, func(t *testing.T, s *spool, q *trigger.Queue, k *kit) {
		q.Owners = []uint32{12345}
		s.check(os.Chown(s.path("", ""), 12346, 0))
		for id, owner := range map[string]int{"owner": 12346, "producer": 12345, "self": 0} {
			s.put(id, "{}")
			s.check(os.Chown(s.path("new", id), owner, 0))
		}
		stop := k.run(t)
		time.Sleep(time.Second)
		stop()
		wantTimes(t, k, "owner", "producer", "self")
	})
}

// TestQueueHasOneService checks that a second service waits for the end of the first.
func TestQueueHasOneService(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, first *kit) {
		second := bubble(t, sourced(s.queue()))
		defer second.Close()
		stopFirst := first.run(t)
		time.Sleep(time.Second)
		stopSecond := second.run(t)
		s.put("one", "1")
		time.Sleep(5 * time.Second)
		stopFirst()
		s.put("two", "2")
		time.Sleep(5 * time.Second)
		stopSecond()
		wantTimes(t, first, "one")
		wantTimes(t, second, "two")
	})
}

// TestQueueLockedByAReader: a process that may only read the directory, such as an agent, cannot keep its messages back.
func TestQueueLockedByAReader(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		for _, folder := range []string{"", "new", "claimed"} {
			reader, err := os.Open(s.path(folder, ""))
			s.check(err)
			defer reader.Close()
			s.check(syscall.Flock(int(reader.Fd()), syscall.LOCK_EX))
		}
		stop := k.run(t)
		s.put("one", "1")
		time.Sleep(5 * time.Second)
		stop()
		wantTimes(t, k, "one")
		if info, err := os.Stat(s.path("", "queue.lock")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("others may open the lock: %v, %v", info, err)
		}
	})
}

// TestQueueLeavesFolders checks that a folder stays in new, is logged once, and does not hinder a later message of its
// name.
func TestQueueLeavesFolders(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		option, logs := logged()
		option(&k.options)
		k.restart(t)
		s.check(os.MkdirAll(s.path("new", "id/inside"), 0o700))
		stop := k.run(t)
		defer stop()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		wantLog(t, logs, "message refused: the message is a folder, and stays where it is")
		s.want("new", "id")
		s.check(os.RemoveAll(s.path("new", "id")))
		s.put("id", "\xff")
		time.Sleep(2 * time.Second)
		wantLog(t, logs, "message refused: the event's payload is neither JSON nor text in UTF-8")
		s.want("claimed")
		s.want("refused", "id")
	})
}

// TestQueueBoundsStrangeFiles checks that one round moves away a bounded number of files that are no messages.
func TestQueueBoundsStrangeFiles(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		const most, more = 1024, 3
		for i := range most + more {
			s.check(os.Symlink("nowhere", s.path("new", fmt.Sprint("link-", i))))
		}
		stop := k.run(t)
		defer stop()
		synctest.Wait()
		for _, want := range []int{more, 0} {
			if left, err := os.ReadDir(s.path("new", "")); err != nil || len(left) != want {
				t.Errorf("%d are left, want %d: %v", len(left), want, err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
	})
}

func TestQueueEnds(t *testing.T) {
	for _, c := range []struct {
		where   string
		claimed []string
	}{{"kept", nil}, {"claimed", []string{"a"}}} {
		inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
			s.put("a", "{}")
			s.put("b", "{}")
			ctx, end := context.WithTimeout(t.Context(), time.Minute)
			defer end()
			option, logs := logged()
			option(&k.options)
			k.options.Log = k.options.Log.WithOptions(zap.Hooks(func(line zapcore.Entry) error {
				if c.where == "kept" && line.Message == "event kept" {
					end()
				}
				return nil
			}))
			k.options.Now = func() time.Time {
				if _, err := os.Lstat(s.path("claimed", "a")); c.where == "claimed" && err == nil {
					end()
				}
				return time.Now()
			}
			k.restart(t)
			s.check(k.Run(ctx))
			s.want("new", "b")
			s.want("claimed", c.claimed...)
			wantLog(t, logs)
			stop := k.run(t)
			time.Sleep(time.Second)
			stop()
			wantTimes(t, k, "a", "b")
			s.want("claimed")
		})
	}
}

func TestQueueWithoutAFolder(t *testing.T) {
	const unread, stays = "the queue cannot be read: openat ", "a message was not taken: renameat "
	for _, c := range []struct {
		folder, message string
		says            []string
		refused         []string
		events          []string
	}{
		{"new", "", []string{unread}, nil, []string{"first"}},
		{"claimed", "next", []string{unread, stays}, nil, []string{"first", "next"}},
		{"refused", "a b", []string{"message refused: printable ASCII", stays}, []string{"a b"}, []string{"first"}},
	} {
		inQueue(t, func(t *testing.T, s *spool, q *trigger.Queue, k *kit) {
			option, logs := logged()
			option(&k.options)
			k.options.Sources = []trigger.Source{trigger.NewQueue("jobs", s.path("", ""))}
			k.restart(t)
			s.put("first", "{}")
			stop := k.run(t)
			synctest.Wait()
			wantLog(t, logs)
			if c.message != "" {
				s.put(c.message, "{}")
			}
			s.check(os.Rename(s.path(c.folder, ""), s.path("away", "")))
			time.Sleep(time.Second)
			synctest.Wait()
			wantLog(t, logs, c.says...)
			s.check(os.Rename(s.path("away", ""), s.path(c.folder, "")))
			time.Sleep(time.Second)
			synctest.Wait()
			stop()
			s.want("new")
			s.want("claimed")
			s.want("refused", c.refused...)
			wantTimes(t, k, c.events...)
		})
	}
}

// TestQueueWhoseEventsAreNotKept checks that a message stays claimed until it is an event, and that another of its name
// does not replace it.
func TestQueueWhoseEventsAreNotKept(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		stop := k.run(t)
		db := k.sql(t, "ALTER TABLE seen RENAME TO gone")
		for _, content := range []string{"1", "2"} {
			s.put("id", content)
			time.Sleep(2 * time.Second)
			s.want("claimed", "id")
		}
		s.want("new", "id")
		k.sql(t, "ALTER TABLE gone RENAME TO seen")
		time.Sleep(3 * time.Second)
		stop()
		db.Close()
		s.want("claimed")
		s.want("refused", "id")
		if e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t); string(e.Payload) != "1" {
			t.Errorf("claimed %+v", e)
		}
	})
}

func TestQueueWithoutItsDirectory(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		s.check(os.RemoveAll(s.path("", "")))
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if err := k.Run(ctx); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the service ended with %v", err)
		}
	})
}

func TestQueueNotMade(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, mode os.FileMode, folder string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(path, folder), 0o700),
			os.Chmod(filepath.Join(path, folder), mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := newKit(t)
	for name, c := range map[string]struct{ path, says string }{
		"a file":               {file, "not a directory"},
		"open to all":          {made("open", 0o777, ""), "every user may write to "},
		"a folder open to all": {made("open-folder", 0o777, "new"), "every user may write to "},
		"cannot be made":       {"/proc/queue", "mkdir /proc/queue"},
		"cannot be written":    {made("read-only", 0o500, ""), "cannot be read and written by this user: permission denied"},
		"a folder without access": {made("shut-folder", 0, "claimed"),
			"cannot be read and written by this user: permission denied"},
	} {
		err := unprivileged(t, func() error { return k.SetSources([]trigger.Source{trigger.NewQueue("q", c.path)}) })
		if err == nil || !strings.Contains(err.Error(), "queue q: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// unprivileged runs do in a thread without capabilities, so that file modes count for root too.
func unprivileged(t *testing.T, do func() error) error {
	t.Helper()
	answer := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // and never unlocked: the thread keeps no capability
		none := [2]unix.CapUserData{}
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
			t.Errorf("drop the capabilities: %v", err)
		}
		answer <- do()
		leaktest.Park()
	}()
	return <-answer
}
