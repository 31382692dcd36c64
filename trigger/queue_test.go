package trigger_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/trigger"
)

// spool is a queue's directory, with a folder beside it in which producers write.
type spool struct {
	t   *testing.T
	dir string
}

func newSpool(t *testing.T) *spool {
	t.Helper()
	return &spool{t: t, dir: t.TempDir()}
}

func (s *spool) queue() *trigger.Queue {
	return trigger.NewQueue("jobs", filepath.Join(s.dir, "spool"), time.Second)
}

func (s *spool) path(folder, id string) string { return filepath.Join(s.dir, "spool", folder, id) }

// put moves a finished file into new, as a producer does.
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

// want asserts what is in the folders.
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

// inQueue runs a service with a queue in a bubble.
func inQueue(t *testing.T, do func(t *testing.T, s *spool, q *trigger.Queue, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		q := s.queue()
		k := bubble(t, func(o *trigger.Options) { o.Sources = []trigger.Source{q} })
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
		s.want("done", "a.txt", "b.json")
		s.want("new", ".hidden")
		s.want("claimed")
		wantTimes(t, k, "a.txt", "b.json")
		e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t)
		if e.Kind != evidence.TriggerSourceEvent || e.Method != evidence.MethodQueueClaim || string(e.Payload) != `"plain text"` || e.PayloadHash != evidence.HashBytes([]byte("plain text")) {
			t.Errorf("claimed %+v", e)
		}
	})
}

// TestQueueMessageOnce has a message of a known id come again, before and after a restart.
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
		s.want("done", "id")
		s.want("refused", "id")
	})
}

// TestQueueAfterCrash finds messages that an earlier process had claimed: one is an event already, the other is not.
func TestQueueAfterCrash(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		s.put("known", "1")
		stop := k.run(t)
		time.Sleep(time.Second)
		stop()
		s.check(os.Rename(s.path("done", "known"), s.path("claimed", "known")))
		s.put("fresh", "2")
		s.check(os.Rename(s.path("new", "fresh"), s.path("claimed", "fresh")))
		stop = k.run(t)
		time.Sleep(time.Second)
		stop()
		wantTimes(t, k, "known", "fresh")
		s.want("done", "fresh", "known")
	})
}

func TestQueueRefuses(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		target := filepath.Join(s.dir, "target")
		s.check(os.WriteFile(target, []byte("secret"), 0o600))
		s.check(os.Symlink(target, s.path("new", "symlink")))
		s.check(os.Link(target, s.path("new", "hardlink")))
		s.check(syscall.Mkfifo(s.path("new", "fifo"), 0o600))
		s.check(os.Mkdir(s.path("new", "directory"), 0o700))
		s.put("large", strings.Repeat("x", trigger.DefaultMaxPayload+1))
		s.put("bytes", "\xff\xfe")
		s.put("a name with spaces", "{}")
		refused := []string{"a name with spaces", "bytes", "directory", "fifo", "hardlink", "large", "symlink"}
		if os.Geteuid() == 0 { // only root can give a file away
			s.put("stranger", "{}")
			s.check(os.Chown(s.path("new", "stranger"), 12345, 12345))
			refused = append(refused, "stranger")
			slices.Sort(refused)
		}
		s.put("exact", strings.Repeat("x", trigger.DefaultMaxPayload))
		stop := k.run(t)
		time.Sleep(2 * time.Second)
		stop()
		s.want("refused", refused...)
		s.want("done", "exact")
		wantTimes(t, k, "exact")
	})
}

func TestQueueOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	inQueue(t, func(t *testing.T, s *spool, q *trigger.Queue, k *kit) {
		q.Owners = []uint32{12345}
		s.put("producer", "{}")
		s.check(os.Chown(s.path("new", "producer"), 12345, 12345))
		stop := k.run(t)
		time.Sleep(time.Second)
		stop()
		wantTimes(t, k, "producer")
	})
}

// TestQueueHasOneService has a second service wait for the first one's end.
func TestQueueHasOneService(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, first *kit) {
		second := bubble(t, func(o *trigger.Options) { o.Sources = []trigger.Source{s.queue()} })
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

// TestQueueRemovesOldMessages looks for what is done after the retention.
func TestQueueRemovesOldMessages(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		k.options.Retention = time.Hour
		k.restart(t)
		stop := k.run(t)
		s.put("id", "{}")
		time.Sleep(2 * time.Second)
		now := time.Now()
		s.check(os.Chtimes(s.path("done", "id"), now, now)) // files have the real time, not the bubble's
		time.Sleep(30 * time.Minute)
		s.want("done", "id")
		time.Sleep(2 * time.Hour)
		stop()
		s.want("done")
	})
}

func TestQueueNotMade(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.MkdirAll(filepath.Join(open, "new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, "new"), 0o777); err != nil {
		t.Fatal(err)
	}
	k := newKit(t)
	for name, path := range map[string]string{"a file": file, "open to all": open, "cannot be written": "/proc/queue"} {
		if err := k.SetSources([]trigger.Source{trigger.NewQueue("q", path, 0)}); err == nil || !strings.Contains(err.Error(), "queue q: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
