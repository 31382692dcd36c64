package proxy

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/proxy/body"
)

// TestBodiesAreBounded posts while the body of another post takes most of the room.
func TestBodiesAreBounded(t *testing.T) {
	json := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	raw := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name                    string
		bodies                  body.Limits
		path, held, more, fits  string
		smallerPath, smallerFit string
	}{
		{"in memory", body.Limits{Memory: 600_000}, "/posts", json(200_000), json(150_000), json(90_000), "/raw", raw(1000)},
		{"in the spool", body.Limits{Spool: 10 << 20}, "/raw", raw(3 << 20), raw(3 << 20), raw(1500 << 10), "/posts",
			json(100_000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entered, held := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(held) })
			defer release() // even if the test fails: the upstream does not close while it holds a call
			p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength == int64(len(tt.held)) && r.Header.Get("X-Held") != "" {
					close(entered)
					<-held
				}
				created(w, r)
			}, func(o *PipelineOptions, _ []Action) { o.Load.Bodies = tt.bodies })
			done := make(chan int, 1)
			go func() {
				resp, _ := p.send("POST", tt.path, tt.held, "X-Held", "yes")
				done <- resp.StatusCode
			}()
			select {
			case <-entered:
			case status := <-done:
				t.Fatalf("the post that was to be on its way has ended: %d", status)
			}
			p.wantRefused("overloaded", "POST", tt.path, tt.more)
			for _, smaller := range [][2]string{{tt.path, tt.fits}, {tt.smallerPath, tt.smallerFit}} {
				if resp, answer := p.send("POST", smaller[0], smaller[1]); resp.StatusCode != http.StatusCreated {
					t.Errorf("a body that fits: %d %s", resp.StatusCode, answer)
				}
			}
			release()
			if got := <-done; got != http.StatusCreated {
				t.Errorf("the post on its way: %d", got)
			}
			if resp, answer := p.send("POST", tt.path, tt.more); resp.StatusCode != http.StatusCreated { // there is room again
				t.Errorf("afterwards: %d %s", resp.StatusCode, answer)
			}
		})
	}
}

// TestRefusedBodiesMakeRoom: every kind of refusal frees what the body took.
func TestRefusedBodiesMakeRoom(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) {
		o.Load.Bodies = body.Limits{Memory: 4 << 20, Spool: 6 << 20}
	})
	for range 5 {
		p.wantRefused("content_malformed", "POST", "/posts", strings.Repeat("[", 900_000))
		p.wantRefused("overloaded", "POST", "/raw", strings.Repeat("x", 4<<20))
		if resp, answer := p.send("POST", "/raw", strings.Repeat("x", 3<<20)); resp.StatusCode != http.StatusCreated {
			t.Fatalf("got %d %s", resp.StatusCode, answer)
		}
	}
}

// TestLargestJSON: JSON is never spooled.
func TestLargestJSON(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, actions []Action) {
		actions[0].MaxBody, o.SpoolDir = body.MaxJSON, "/absent"
	})
	if resp, answer := p.send("POST", "/posts", `"`+strings.Repeat("x", body.MaxJSON-2)+`"`); resp.StatusCode !=
		http.StatusCreated {
		t.Errorf("got %d %s", resp.StatusCode, answer)
	}
	p.wantRefused("content_too_large", "POST", "/posts", `"`+strings.Repeat("x", body.MaxJSON-1)+`"`)
}
