package plays

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// After SIGTERM new connections are refused, and what was in flight is answered and recorded in full.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t, kit.Self(t), "", "timeouts: {shutdown: 4m}\n")
	arrived, goOn := make(chan struct{}, 2), make(chan struct{})
	r.holdWith(func(req *http.Request, w http.ResponseWriter) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusCreated)
		if strings.HasSuffix(req.URL.Path, "half") {
			_, _ = io.WriteString(w, "half ")
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- struct{}{}
		select {
		case <-goOn:
			_, _ = io.WriteString(w, "done")
		case <-req.Context().Done():
		}
	})
	upload, rest := io.Pipe()
	posts := []*posted{
		r.post(t, "unanswered", strings.NewReader(`{"a":1}`), "done"),
		r.post(t, "half", strings.NewReader(`{"a":1}`), "half done"),
		r.post(t, "uploading", upload, "done"),
	}
	_, err := io.WriteString(rest, `{"a":`)
	check.Must(t, err)
	await(t, arrived)
	await(t, arrived)
	r.kill(t, "serve", syscall.SIGTERM)
	kit.Until(t, "the proxy to refuse connections", func() bool {
		c, err := net.Dial("tcp", r.Listen)
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	_, err = io.WriteString(rest, `1}`)
	check.Must(t, errors.Join(err, rest.Close()))
	await(t, arrived) // the upload
	close(goOn)
	for _, p := range posts {
		if got := <-p.got; got != "201 "+p.want {
			t.Errorf("%s: the agent got %q, want 201 %s", p.path, got, p.want)
		}
	}
	r.ended(t, "serve", "it was not told to") // with status 0: the supervisor had not ended it
	r.start(t)
	for _, p := range posts {
		r.wantRecord(t, p, ledger.StateForwarded)
	}
}

// A post that the upstream does not answer is cut and recorded as indeterminate.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t, kit.Self(t), "", "timeouts: {shutdown: 100ms}\n")
	arrived := make(chan struct{})
	r.holdWith(func(req *http.Request, _ http.ResponseWriter) {
		_, _ = io.Copy(io.Discard, req.Body)
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	p := r.post(t, "never", strings.NewReader(`{"a":1}`), "")
	await(t, arrived)
	r.kill(t, "serve", syscall.SIGTERM)
	if got := <-p.got; got != "" {
		t.Errorf("the agent got %q", got)
	}
	_ = r.supervisor.Wait()
	r.start(t)
	r.wantRecord(t, p, ledger.StateIndeterminate)
}

type posted struct {
	event, path, want string
	got               chan string // the status and the body; empty for an error
}

func (r *crashRig) post(t *testing.T, name string, body io.Reader, want string) *posted {
	t.Helper()
	agent := r.enter(t)
	p := &posted{agent.Event, "/posts/" + name, want, make(chan string, 1)}
	req, err := http.NewRequest(http.MethodPost, agent.Base+p.path, body)
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue") // nothing of the body leaves before the sidecar reads it
	go func() {
		resp, err := agent.Do(req)
		if err != nil {
			p.got <- ""
			return
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			all = []byte(err.Error())
		}
		p.got <- fmt.Sprintf("%d %s", resp.StatusCode, all)
	}()
	return p
}

func (r *crashRig) wantRecord(t *testing.T, p *posted, state ledger.State) {
	t.Helper()
	records := r.records(t, p.event)
	if len(records) != 1 || records[0].State != state || records[0].Finished.IsZero() {
		t.Errorf("%s: the record is %+v, want it %s", p.path, records, state)
	}
	r.wantArrived(t, p.path, 1)
}

func await(t *testing.T, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(kit.Patience):
		t.Fatal("what the test waits for does not happen")
	}
}

// A sidecar whose disk is full posts nothing. A post in flight is answered, and its outcome stored once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	r := prepareCrashRig(t, kit.Self(t), "")
	fill, room := check.SmallDisk(t, r.In("state"), "2m")
	r.startUntilEnd(t)
	nothing := func() {}
	r.holdWith(func(req *http.Request, w http.ResponseWriter) {
		_, _ = io.Copy(io.Discard, req.Body)
		if strings.HasSuffix(req.URL.Path, "/meanwhile") {
			fill()
		}
		w.WriteHeader(http.StatusCreated)
	})
	var inFlight string
	for _, tt := range []struct {
		name   string
		before func()
		posts  bool
	}{
		{"before", nothing, true},
		{"full", fill, false},
		{"room", room, true},
		{"meanwhile", nothing, true},
		{"afterwards", nothing, false},
	} {
		tt.before()
		agent, path := r.enter(t), "/posts/"+tt.name
		o := post(agent, path)
		got := fmt.Sprintf("%d %s, Retry-After %d, %d arrived", o.Status, o.Code, o.Retry, r.arrived(path))
		want := "201 , Retry-After 0, 1 arrived"
		if !tt.posts {
			want = "503 ledger_unavailable, Retry-After 5, 0 arrived"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", tt.name, got, want)
		}
		if tt.name == "meanwhile" {
			inFlight = agent.Event
		}
	}
	room()
	r.kill(t, "serve", syscall.SIGTERM)
	_ = r.supervisor.Wait()
	r.start(t)
	r.wantRecord(t, &posted{event: inFlight, path: "/posts/meanwhile"}, ledger.StateForwarded)
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	for file, of := range map[string]func(*trial.Deployment) string{
		devstack.TriggerFile: func(d *trial.Deployment) string { return d.Hooks },
		devstack.SidecarFile: func(d *trial.Deployment) string { return d.Listen },
	} {
		r := prepareCrashRig(t, kit.Self(t), "")
		address := of(r.Deployment)
		taken, err := net.Listen("tcp", address)
		check.Must(t, err)
		defer taken.Close()
		stack, err := devstack.Start(t.Context(), r.Dir)
		if err == nil {
			err = stack.Ready(t.Context())
			stack.Stop()
		}
		if err == nil {
			t.Fatalf("%s is in use, and it starts", address)
		}
		want := "listen in " + r.In(file) + ": another process listens on " + address +
			": end it, or write another address (listen_failed)\nThe end of its log, "
		if before, _, says := strings.Cut(err.Error(), want); !says || strings.ContainsAny(before, "{\n") {
			t.Errorf("%s is in use: %v", address, err)
		}
	}
}

// TestDevReload edits the files of mediator dev, which plays the security team: it pins and certifies the new files.
func TestDevReload(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t, kit.Self(t), "")
	dev, path := "unix:"+r.Stack.Socket("dev"), r.In(devstack.SidecarFile)
	readiness := func() (c daemon.ConfigStatus) {
		t.Helper()
		check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &c))
		return c
	}
	before := readiness()
	kit.Until(t, "mediator dev to take reloads", func() bool {
		return admin.Get(t.Context(), dev, "/healthz", nil) == nil
	})
	raw := kit.Read(t, path)
	kit.Write(t, path, string(raw)+"limits: {calls: 7}\n")
	if out := kit.Run(t, "reload", dev); !strings.HasPrefix(out, dev+": reloaded: configuration ") {
		t.Fatal(out)
	}
	after := readiness()
	if after.Manifest == before.Manifest || after.Configuration == before.Configuration {
		t.Errorf("before %s, after %s", before, after)
	}
	if o := post(r.enter(t), "/posts/reloaded"); o.Code != "" {
		t.Errorf("a post after the reload: %+v", o)
	}
	for _, tt := range []struct {
		content       []byte
		process, code string
	}{
		{append(bytes.Clone(raw), "listen: 127.0.0.1:1\n"...), "", "(reload_refused)"}, // a key twice
		{bytes.Replace(raw, []byte("state: state"), []byte("state: run"), 1), "mediator serve: ", "(restart_required)"},
	} {
		kit.Write(t, path, tt.content)
		kit.Mediator(t, "reload", dev).Refused(tt.process, tt.code)
	}
	if still := readiness(); still.Refused == nil || still.Configuration != after.Configuration {
		t.Errorf("after two refusals: %+v", still)
	}
}
