package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

func TestBodiesAreBounded(t *testing.T) {
	json := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	raw := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name                    string
		bodies                  int64
		path, held, more, fits  string
		smallerPath, smallerFit string
	}{
		{"JSON", 600_000, "/posts", json(200_000), json(150_000), json(90_000), "/raw", raw(1000)},
		{"raw", 10 << 20, "/raw", raw(3 << 20), raw(3 << 20), raw(1500 << 10), "/posts", json(100_000)},
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
			}, func(o *PipelineOptions, _ []rules.Action) { o.Load.Bodies = tt.bodies })
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
				p.want(http.StatusCreated, "POST", smaller[0], smaller[1])
			}
			release()
			if got := <-done; got != http.StatusCreated {
				t.Errorf("the post on its way: %d", got)
			}
			p.want(http.StatusCreated, "POST", tt.path, tt.more) // there is room again
		})
	}
}

func TestRefusedBodiesMakeRoom(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Load.Bodies = 6 << 20 })
	for range 5 {
		p.wantRefused("content_malformed", "POST", "/posts", strings.Repeat("[", 900_000))
		p.wantRefused("overloaded", "POST", "/raw", strings.Repeat("x", 4<<20))
		p.want(http.StatusCreated, "POST", "/raw", strings.Repeat("x", 3<<20))
	}
}

func TestLargestJSON(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		actions[0].MaxBody = body.MaxJSON
	})
	p.want(http.StatusCreated, "POST", "/posts", `"`+strings.Repeat("x", body.MaxJSON-2)+`"`)
	p.wantRefused("content_too_large", "POST", "/posts", `"`+strings.Repeat("x", body.MaxJSON-1)+`"`)
}

func TestBodiesThatTheHashWouldNotCover(t *testing.T) {
	p := newPostRig(t, created, nil)
	const head = "POST /posts HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Type: application/json\r\n"
	for _, tt := range []struct{ name, request, code string }{
		{"trailers that are announced",
			head + "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\n{}\r\n0\r\nX-A: b\r\n\r\n",
			"request_malformed"},
		{"a body that breaks off", head + "Content-Length: 10\r\n\r\n{}", "content_incomplete"},
		{"a chunk that is none", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "request_malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := p.MustTunnel(at(0, p.upstream))
			defer c.Close()
			_, err := io.WriteString(c, strings.ReplaceAll(tt.request, "HOST", at(0, p.upstream)))
			must(t, err)
			if tt.code == "content_incomplete" {
				must(t, c.CloseWrite())
			}
			_, _ = io.ReadAll(c)
			eventually(t, func() bool {
				rec, _ := p.record.last()
				return rec.Code == tt.code
			}, "no record has the code %s", tt.code)
			if len(p.sent) != 0 {
				t.Error("the upstream saw the call")
			}
		})
	}
}

// Laravel makes a DELETE of either.
func TestBodiesThatChangeTheMethod(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.wantRefused("override_refused", "POST", "/posts", `{"_method":"DELETE"}`)
	p.wantRefused("override_refused", "POST", "/raw", "_method=DELETE", "Content-Type",
		"application/x-www-form-urlencoded")
	p.wantRefused("override_refused", "POST", "/raw", "\x1f\x8b", "Content-Encoding", "gzip")
	p.wantRefused("override_refused", "POST", "/raw", "+AF8-method=DELETE", "Content-Type",
		"application/x-www-form-urlencoded; charset=utf-7")
	p.want(http.StatusCreated, "POST", "/posts", `{"method":"DELETE"}`)
}

func TestBinaryBody(t *testing.T) {
	p := newPostRig(t, created, nil)
	body := strings.Repeat("\x00binary", 400_000)
	p.want(http.StatusCreated, "POST", "/raw", body, "Content-Type", "multipart/form-data; boundary=x")
	p.wantLast(1, ledger.Record{ContentHash: evidence.HashBytes([]byte(body)), BytesOut: int64(len(body))})
	if len(p.body) != 1 || p.body[0] != body {
		t.Errorf("%d calls arrived", len(p.body))
	}
}

func TestSlowBody(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Timeouts.Step = time.Second })
	head := "POST /raw HTTP/1.1\r\nHost: " + at(0, p.upstream) + "\r\n"
	texts := []string{
		head + "Content-Length: 10\r\n\r\nab",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: ",
	}
	conns := make([]net.Conn, len(texts)) // all slow at once
	for i, text := range texts {
		conns[i] = p.MustTunnel(at(0, p.upstream))
		_, _ = io.WriteString(conns[i], text)
	}
	for i, c := range conns {
		resp := readRaw(t, bufio.NewReader(c), "POST")
		body, _ := io.ReadAll(resp.Body)
		if got := answerText(resp, body); got != "400 content_incomplete" || !resp.Close {
			t.Errorf("%q: %s", texts[i], got)
		}
		_ = c.Close()
	}
	if _, n := p.record.last(); n != 3 || len(p.sent) != 0 {
		t.Errorf("%d records, %d calls sent", n, len(p.sent))
	}
}

// stalled is an agent that does not take its answer.
type stalled struct {
	*httptest.ResponseRecorder
	once           sync.Once
	offered, taken chan struct{}
}

func (s *stalled) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.offered) })
	<-s.taken
	return s.ResponseRecorder.Write(b)
}

// A session that does not take its answers does not slow the reading of others' texts.
func TestStalledAnswerKeepsNoTurn(t *testing.T) {
	procs := runtime.GOMAXPROCS(1) // so that one text is read at a time
	r := newReceiptsRig(t, answerModels)
	runtime.GOMAXPROCS(procs)
	serve := func(w http.ResponseWriter, body string) {
		q := httptest.NewRequest("POST", r.base+"/v1/chat/completions", strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		target := upstream.Target{Scheme: "https", Host: hostOf(0), Port: portOf(r.upstream)}
		r.pipeline.ServeHTTP(w,
			q.WithContext(intercept.WithRoute(q.Context(), intercept.Route{Target: target})))
	}
	first := &stalled{ResponseRecorder: httptest.NewRecorder(), offered: make(chan struct{}),
		taken: make(chan struct{})}
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(first.taken)
	calls.Go(func() { serve(first, askModel) })
	<-first.offered
	long := strings.Repeat("x", 80<<10)
	var ctx context.Context
	for ctx == nil || ctx.Err() != nil { // again if they have ended before they were looked at
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(t.Context())
		t.Cleanup(cancel)
		for range 2 {
			calls.Go(func() {
				defer cancel()
				serve(httptest.NewRecorder(), strings.Replace(askModel, secretText, long, 1))
			})
		}
		time.Sleep(100 * time.Millisecond) // both wait for the first now
	}
	done, err := r.pipeline.bodies.Turn(ctx, "other", len(long))
	if err != nil {
		t.Fatalf("another session gets no turn while they wait: %v", err)
	}
	done()
}
