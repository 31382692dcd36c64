package plays

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestDrain ends the sidecar by SIGTERM while posts are in flight: at the agent, whose body has not yet come as a whole, and at the
// upstream, which has not answered, or not in full. New connections are refused; what was in flight is answered and recorded in full.
func TestDrain(t *testing.T) {
	r := newCrashRig(t, kit.ThisProgram(t), "", "timeouts: {shutdown: 60s}\n")
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	arrived, goOn := make(chan struct{}, 2), make(chan struct{})
	r.hold = func(req *http.Request, w http.ResponseWriter) {
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
	}
	upload, rest := io.Pipe()
	posts := []*posted{
		r.post(ctx, t, "unanswered", strings.NewReader(`{"a":1}`), "done"),
		r.post(ctx, t, "half", strings.NewReader(`{"a":1}`), "half done"),
		r.post(ctx, t, "uploading", upload, "done"),
	}
	if _, err := io.WriteString(rest, `{"a":`); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, arrived)
	await(ctx, t, arrived)
	r.kill(t, "serve", syscall.SIGTERM)
	r.refuses(ctx, t)
	if _, err := io.WriteString(rest, `1}`); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	await(ctx, t, arrived) // the one that was being uploaded
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

// TestDrainIsBounded ends the sidecar while an upstream does not answer at all. The post is cut, and recorded as what it is.
func TestDrainIsBounded(t *testing.T) {
	r := newCrashRig(t, kit.ThisProgram(t), "", "timeouts: {shutdown: 100ms}\n")
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	arrived := make(chan struct{})
	r.hold = func(req *http.Request, _ http.ResponseWriter) {
		_, _ = io.Copy(io.Discard, req.Body)
		arrived <- struct{}{}
		<-req.Context().Done()
	}
	p := r.post(ctx, t, "never", strings.NewReader(`{"a":1}`), "")
	await(ctx, t, arrived)
	r.kill(t, "serve", syscall.SIGTERM)
	if got := <-p.got; got != "" {
		t.Errorf("the agent got %q", got)
	}
	_ = r.supervisor.Wait()
	r.start(t)
	r.wantRecord(t, p, ledger.StateIndeterminate)
}

// posted is a post that an agent makes meanwhile.
type posted struct {
	event, path, want string
	got               chan string // the status and the body, or nothing for an error
}

// post posts as an agent, in a session of its own.
func (r *crashRig) post(ctx context.Context, t *testing.T, name string, body io.Reader, want string) *posted {
	t.Helper()
	event, err := r.DeliverRelease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.open(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	p, agent := &posted{event, "/posts/" + name, want, make(chan string, 1)}, r.agentOf(t, s)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.Plain()+p.path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue") // so that nothing of the body is taken before the sidecar reads it
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

// refuses waits until the proxy takes no connection any more.
func (r *crashRig) refuses(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		c, err := net.Dial("tcp", r.Listen)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			c.Close()
		}
	}
	t.Error("the proxy still takes connections")
}

func (r *crashRig) wantRecord(t *testing.T, p *posted, state ledger.State) {
	t.Helper()
	records := r.records(t, p.event)
	if len(records) != 1 || records[0].State != state || records[0].Finished.IsZero() {
		t.Errorf("%s: the record is %+v, want it %s", p.path, records, state)
	}
	if n := r.arrived(p.path); n != 1 {
		t.Errorf("%s: %d posts arrived", p.path, n)
	}
}

// await waits for something to happen.
func await(ctx context.Context, t *testing.T, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-ctx.Done():
		t.Fatal("what the test waits for does not happen")
	}
}
