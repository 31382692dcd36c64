package trigger_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/trigger"
)

type written struct {
	mu    sync.Mutex // guards all
	bytes bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.Write(p)
}

func (w *written) Sync() error { return nil }

func (w *written) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.bytes.Reset()
	return w.bytes.String()
}

func (w *written) option(o *trigger.Options) {
	o.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), w, zapcore.InfoLevel))
}

const lineSize = 1000

// TestDeliveryFlood checks that unsigned and repeated deliveries leave a few lines in the log and nothing in the store.
func TestDeliveryFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(written)
		k := bubble(t, log.option)
		defer k.Close()
		signed := fromGitHub("push", "id", `{"ref":"main"}`)
		if a := k.deliver(t, signed); a.Status != http.StatusAccepted {
			t.Fatalf("%+v", a)
		}
		log.take()
		rows := func() (n int) {
			db := k.sql(t)
			defer db.Close()
			if err := db.QueryRow(`SELECT (SELECT count(*) FROM seen) + (SELECT count(*) FROM events)`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := rows()
		const each = 500
		for i := range each {
			for _, d := range []struct {
				delivery
				status int
			}{
				{fromGitHub("push", fmt.Sprint(i), `{}`), http.StatusUnauthorized},
				{delivery{source: "github", body: "{}", header: http.Header{}}, http.StatusUnauthorized},
				{delivery{source: fmt.Sprintf("source-%d", i), body: "{}", header: http.Header{}}, http.StatusNotFound},
				{delivery{source: "github", header: http.Header{"X-Hub-Signature-256": {"a", "b"}}},
					http.StatusBadRequest},
				{signed, http.StatusOK},
			} {
				if d.header.Get("X-Github-Delivery") == fmt.Sprint(i) {
					d.header.Set("X-Hub-Signature-256", "sha256=00")
				}
				if a := k.deliver(t, d.delivery); a.Status != d.status {
					t.Fatalf("%+v was answered with %+v", d, a)
				}
			}
		}
		const kinds = 4 // webhook_signature, not_found, event_malformed, and known already
		if said := log.take(); len(said) > kinds*flood.Lines*lineSize ||
			strings.Count(said, "\n") != kinds*flood.Lines {
			t.Errorf("%d deliveries left %d bytes in the log", 5*each, len(said))
		}
		if now := rows(); now != before {
			t.Errorf("the store has %d rows, and had %d", now, before)
		}
		time.Sleep(flood.Window)
		synctest.Wait()
		said := log.take()
		for _, want := range []string{
			`"lines":990,"line":"delivery refused","code":"webhook_signature","reason":"","source":"github"`,
			`"lines":490,"line":"delivery refused","code":"not_found","reason":"","source":""`,
			`"lines":490,"line":"known already"`,
		} {
			if !strings.Contains(said, want) {
				t.Errorf("the log does not say %s: %s", want, said)
			}
		}
	})
}

// TestQueueInLinkedFolders checks that a producer who can write the queue's directory reaches no folder outside of it.
func TestQueueInLinkedFolders(t *testing.T) {
	for _, folder := range []string{"new", "claimed", "refused"} {
		inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
			outside := filepath.Join(s.dir, "outside")
			s.check(os.Mkdir(outside, 0o700))
			s.check(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
			s.put("a b", "{}") // is refused
			s.check(os.Rename(s.path(folder, ""), s.path("away", "")))
			s.check(os.Symlink(outside, s.path(folder, "")))
			stop := k.run(t)
			time.Sleep(2 * time.Second)
			stop()
			if left, err := os.ReadDir(outside); err != nil || len(left) != 1 || left[0].Name() != "secret" {
				t.Errorf("%s: the folder outside has %v: %v", folder, left, err)
			}
			wantTimes(t, k)
		})
	}
}

// TestQueueOfLinks checks that links, FIFOs and the like are never opened, hide no messages, and are logged once.
func TestQueueOfLinks(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		log := new(written)
		log.option(&k.options)
		k.restart(t)
		opened := newOpenings(t)
		target := filepath.Join(s.dir, "target")
		s.check(os.WriteFile(target, []byte("secret"), 0o600))
		opened.watch(target)
		stuck := func(id string) { // cannot be moved to refused, as under Landlock
			s.check(os.MkdirAll(s.path("refused", id+"/x"), 0o700))
		}
		const links = 2100 // more than two batches
		for i := range links {
			id := fmt.Sprintf("a-link-%d", i)
			s.check(os.Symlink(target, s.path("new", id)))
			stuck(id)
		}
		s.check(syscall.Mkfifo(s.path("new", "a-fifo"), 0o600))
		opened.watch(s.path("new", "a-fifo"))
		stuck("a-fifo")
		s.check(syscall.Mkfifo(s.path("new", "b-fifo"), 0o600))
		opened.watch(s.path("new", "b-fifo"))
		s.check(os.Link(target, s.path("new", "hardlink")))
		var ids []string
		for i := range 8 {
			ids = append(ids, fmt.Sprintf("message-%d", i))
			s.put(ids[i], "{}")
		}
		stop := k.run(t)
		time.Sleep(time.Second / 2)
		if n := len(k.fireTimes(t)); n != len(ids) {
			t.Errorf("%d events of %d messages", n, len(ids))
		}
		time.Sleep(5 * time.Second)
		stop()
		if n := len(log.take()); n > 100*lineSize {
			t.Errorf("%d links left %d bytes in the log", links, n)
		}
		opened.want(0)
	})
}

// TestQueueSaysItOnce checks that a message which cannot be taken is logged once, and once more after it has gone and
// come again.
func TestQueueSaysItOnce(t *testing.T) {
	inQueue(t, func(t *testing.T, s *spool, _ *trigger.Queue, k *kit) {
		option, logs := logged()
		option(&k.options)
		k.restart(t)
		stop := k.run(t)
		defer stop()
		s.check(os.MkdirAll(s.path("refused", "fifo/x"), 0o700))
		for range 2 {
			s.check(syscall.Mkfifo(s.path("new", "fifo"), 0o600))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			wantLog(t, logs, "message refused: not a regular file", "a message was not taken: ")
			s.check(os.Remove(s.path("new", "fifo")))
			time.Sleep(2 * time.Second)
		}
		wantLog(t, logs)
	})
}

type openings struct {
	t  *testing.T
	fd int
}

func newOpenings(t *testing.T) *openings {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return &openings{t, fd}
}

func (o *openings) watch(path string) {
	o.t.Helper()
	if _, err := unix.InotifyAddWatch(o.fd, path, unix.IN_OPEN); err != nil {
		o.t.Fatal(err)
	}
}

func (o *openings) want(n int) {
	o.t.Helper()
	b := make([]byte, 64<<10)
	read, err := unix.Read(o.fd, b)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		o.t.Fatal(err)
	}
	if got := max(read, 0) / unix.SizeofInotifyEvent; got != n {
		o.t.Errorf("files were opened %d times, want %d", got, n)
	}
}
