package plays

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestStrangersWriteLittle floods real processes with silent connections, deliveries without a signature, and calls
// with wrong proxy credentials. A delivery beside them is taken. Logs and ledger grow by no more than ten lines and
// records of each kind a minute.
func TestStrangersWriteLittle(t *testing.T) {
	t.Parallel()
	const lines = 64 << 10
	r := newCrashRig(t, kit.Self(t), "")
	logs := func() int64 { return sizes(t, r.Dir, "*.log") }
	ledger := func() int64 { return sizes(t, r.Dir, "state/ledger.db*") }
	logsBefore, ledgerBefore, began := logs(), ledger(), time.Now()

	for range 900 {
		c, err := net.Dial("tcp", r.Hooks)
		check.Must(t, err)
		defer c.Close()
	}
	if _, err := r.DeliverRelease(t.Context()); err != nil {
		t.Errorf("a delivery beside connections that say nothing: %v", err)
	}
	send := func(client *http.Client, url, body string, status int) {
		t.Helper()
		resp, err := client.Post(url, "application/json", strings.NewReader(body))
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Fatalf("%s was answered with %s", url, resp.Status)
		}
	}
	wrong := &url.URL{Scheme: "http", Host: r.Listen, User: url.UserPassword("ses_x", "wrong")}
	proxy := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(wrong)}}
	defer proxy.CloseIdleConnections()
	for range kit.Size(500, 1500) {
		send(http.DefaultClient, "http://"+r.Hooks+"/hooks/github", "{}", http.StatusUnauthorized)
		send(proxy, "http://"+r.Plain()+"/posts/x", "{}", http.StatusProxyAuthRequired)
	}
	if _, err := r.DeliverRelease(t.Context()); err != nil {
		t.Errorf("a delivery after the flood: %v", err)
	}
	minutes := 1 + int64(time.Since(began)/time.Minute)
	if grown := logs() - logsBefore; grown > minutes*lines {
		t.Errorf("the logs grew by %d bytes", grown)
	}
	if grown := ledger() - ledgerBefore; grown > minutes*256<<10 { // by pages, and what is not yet in them
		t.Errorf("the ledger grew by %d bytes", grown)
	}
}

// TestLinksInAQueue puts links and FIFOs beside messages. The trigger service may not move them, and reads only plain
// files.
func TestLinksInAQueue(t *testing.T) {
	t.Parallel()
	r := prepareCrashRig(t, kit.Self(t), "")
	kit.Edit(t, r.In(devstack.TriggerFile), "\nsources:\n",
		"\nsources:\n  - {name: jobs, queue: {dir: jobs}}\n")
	fresh := r.In("jobs/new")
	check.Must(t, os.MkdirAll(fresh, 0o700))
	const messages = 8
	for i := range messages {
		id := fmt.Sprint(i)
		err := errors.Join(os.Symlink(r.In(devstack.TriggerFile), filepath.Join(fresh, "link-"+id)),
			syscall.Mkfifo(filepath.Join(fresh, "fifo-"+id), 0o600),
			os.WriteFile(filepath.Join(fresh, "message-"+id), []byte("{}"), 0o600))
		check.Must(t, err)
	}
	r.startUntilEnd(t)
	taken := func() (n int) {
		for _, e := range r.events(t) {
			if e.Source == "jobs" {
				n++
			}
		}
		return n
	}
	kit.Until(t, "every message to be an event", func() bool { return taken() == messages })
	before := sizes(t, r.Dir, "trigger.log")
	for i := range 2 { // several rounds later
		id := fmt.Sprint("later-", i)
		kit.Write(t, filepath.Join(fresh, id), "{}")
		kit.Until(t, "a later message to be an event", func() bool { return taken() == messages+1+i })
	}
	if grown := sizes(t, r.Dir, "trigger.log") - before; grown > 4<<10 {
		t.Errorf("the log grew by %d bytes", grown)
	}
}

func sizes(t *testing.T, dir, pattern string) (n int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			n += info.Size()
		}
	}
	return n
}
