package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/trigger"
)

// One session takes all that it can of something shared. Another session can still post.
func TestHostileSession(t *testing.T) {
	for _, tt := range []struct {
		name   string
		load   Load
		attack func(l *loadRig, hostile string)
	}{
		{"calls in flight", Load{Calls: 40}, func(l *loadRig, hostile string) { l.hang(hostile, readA, "overloaded") }},
		{"memory of bodies", Load{Bodies: 40}, func(l *loadRig, hostile string) {
			l.hang(hostile, postA, "overloaded")
		}},
		{"the rate of a host", Load{Host: Rate{PerSecond: 10}}, func(l *loadRig, hostile string) {
			l.exhaust(hostile, readA, "rate_limited")
		}},
		{"the rate of a host, by many sessions", Load{Host: Rate{PerSecond: 100}}, func(l *loadRig, hostile string) {
			for range 5 {
				l.exhaust(l.open(), readA, "rate_limited")
			}
		}},
		{"503s of a host, to many sessions", Load{}, func(l *loadRig, hostile string) {
			l.fail(func() {
				for range 20 {
					l.call(l.open(), readA)
				}
			})
		}},
		{"503s of a host", Load{}, func(l *loadRig, hostile string) {
			l.fail(func() { l.exhaust(hostile, readA, "upstream_suspended") })
		}},
		{"the trial of a suspended host", Load{Breaker: upstream.Breaker{Failures: 3, Pause: time.Second}},
			func(l *loadRig, hostile string) {
				l.fail(func() {
					for range 3 {
						l.call(l.open(), postA)
					}
				})
				l.refused("upstream_suspended", 1, l.open(), postA)
				time.Sleep(time.Second)
				l.hang(hostile, readA, "upstream_suspended")
			}},
		{"trials that fail", Load{Breaker: upstream.Breaker{Failures: 3, Pause: time.Second}},
			func(l *loadRig, hostile string) {
				l.fail(func() {
					for range 3 {
						l.call(l.open(), postA)
					}
					for range 10 {
						time.Sleep(time.Second)
						l.exhaust(hostile, readA, "upstream_suspended")
					}
				})
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoadRig(t, tt.load)
				hostile, other := l.open(), l.open()
				tt.attack(l, hostile)
				l.want(http.StatusCreated, 1, other, postA)
				l.release()
			})
		})
	}
}

// hang makes calls that hang until release, until one is refused with code. Later calls are answered.
func (l *loadRig) hang(session, line, code string) {
	l.t.Helper()
	hangs, done := new(atomic.Bool), make(chan struct{})
	hangs.Store(true)
	l.answer = func(*http.Request) (int, error) {
		if hangs.Load() {
			<-done
		}
		return http.StatusCreated, nil
	}
	var calls sync.WaitGroup
	l.release = func() { close(done); calls.Wait() }
	answered := make(chan string, 1)
	for range 1000 {
		calls.Go(func() {
			w := l.call(session, line)
			select {
			case answered <- codeIn(w):
			default:
			}
		})
		synctest.Wait()
		if len(answered) > 0 {
			break
		}
	}
	hangs.Store(false)
	if len(answered) == 0 {
		l.t.Fatal("no call was refused")
	}
	if got := <-answered; got != code {
		l.t.Fatalf("the first call that was answered got %q, want %s", got, code)
	}
}

func (l *loadRig) exhaust(session, line, code string) {
	l.t.Helper()
	for range 10_000 {
		if codeIn(l.call(session, line)) == code {
			return
		}
	}
	l.t.Fatalf("no call was refused with %s", code)
}

// refusalIn returns a refusal, or nothing.
func refusalIn(w *httptest.ResponseRecorder) (d problem.Details) {
	_ = json.Unmarshal(w.Body.Bytes(), &d)
	return d
}

func codeIn(w *httptest.ResponseRecorder) string { return refusalIn(w).Code }

// fail lets the upstream answer 503 during attack.
func (l *loadRig) fail(attack func()) {
	l.t.Helper()
	before := l.answer
	l.answer = func(*http.Request) (int, error) { return http.StatusServiceUnavailable, nil }
	attack()
	l.answer = before
}

// A host that fails for several sessions is suspended for all, so that an outage does not cost each session its event.
func TestFailuresOfManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Breaker: upstream.Breaker{Failures: 3, Pause: time.Second}})
		l.answer = func(*http.Request) (int, error) { return 0, refusal.New("upstream_unreachable", "no connection") }
		for range 3 {
			l.want(http.StatusBadGateway, 1, l.open(), postA)
		}
		l.refused("upstream_suspended", 1, l.open(), postA)
		time.Sleep(time.Second)
		for range 2 {
			l.want(http.StatusBadGateway, 1, l.open(), postA)
		}
		l.refused("upstream_suspended", 1, l.open(), postA)
		time.Sleep(time.Second)
		l.answer = func(*http.Request) (int, error) { return http.StatusCreated, nil }
		l.want(http.StatusCreated, 3, l.open(), postA)
	})
}

// HTTP/2 streams without their bodies do not stop another session's post, and they end.
func TestHeadersOnly(t *testing.T) {
	for _, line := range [][2]string{{"POST", "/posts"}, {"PUT", "/inference"}} {
		t.Run(line[0], func(t *testing.T) {
			p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
				o.Load.Calls, o.Timeouts.Step, o.Timeouts.Forward = 20, 5*time.Second, 5*time.Second
			})
			other, err := p.sessions.OpenListening(trigger.Event{ID: "evt_2"}, "worker-1", nil)
			must(t, err)
			c, err := p.Tunnel(at(0, p.upstream), hostOf(0), http2)
			must(t, err)
			f := newFrames(t, c)
			const streams = 40
			for i := range streams {
				f.Send(fmt.Sprintf(
					"HEADERS %d\n :method: %s\n :scheme: https\n :authority: %s\n :path: %s\n content-type: "+
						"application/json\n content-length: 2\n",
					1+2*i, line[0], at(0, p.upstream), line[1]))
			}
			eventually(t, func() bool {
				calls, _ := p.pipeline.load.InFlight()
				return calls >= 10
			}, "the session does not get its share of the calls")
			if status := p.postAs(other.ID); status != http.StatusCreated {
				t.Errorf("the other session's post: %d", status)
			}
			p.wantIdle()
			if _, n := p.record.last(); n != streams+1 {
				t.Errorf("%d records", n)
			}
		})
	}
}

func (p *postRig) postAs(session string) int {
	r := httptest.NewRequest("POST", p.base+"/posts", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	target := upstream.Target{Scheme: "https", Host: hostOf(0), Port: portOf(p.upstream)}
	w := httptest.NewRecorder()
	p.pipeline.ServeHTTP(w,
		r.WithContext(intercept.WithRoute(r.Context(), intercept.Route{Target: target, Session: session})))
	return w.Code
}

// stuckStore stores nothing of the queue until it is closed.
type stuckStore struct {
	ledger.Store
	closed chan struct{}
}

func (s stuckStore) Write(context.Context, []ledger.Record, []ledger.Record, ...ledger.Receipt) error {
	<-s.closed
	return nil
}

func (stuckStore) Add(context.Context, ledger.Record) error { return nil }

func (stuckStore) Close() error { return nil }

// Calls in flight count as well as queued records, so one session cannot fill the ledger's queue with many calls that
// end together.
func TestQueueBelongsToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuckStore{closed: make(chan struct{})}
		queue := ledger.NewQueue(s, func(r ledger.Record, err error) { t.Errorf("lost %s: %v", r.ID, err) })
		l := newLoadRig(t, Load{})
		limits := unlimited
		limits.Calls = 4096
		l.pipeline = l.succeed(limits, func(o *PipelineOptions) { o.Record = queue })
		hostile, other, release := l.open(), l.open(), make(chan struct{})
		l.answer = func(*http.Request) (int, error) { <-release; return http.StatusOK, nil }
		var calls sync.WaitGroup
		for range 2000 {
			calls.Go(func() { l.call(hostile, readA) })
		}
		synctest.Wait()
		close(release)
		calls.Wait()
		l.exhaust(hostile, readA, "ledger_unavailable")
		l.want(http.StatusOK, 100, other, readA)
		close(s.closed)
		must(t, queue.Close())
	})
}

// An upstream that does not read a session's uploads stops all requests on their HTTP/2 connection, so other sessions'
// requests have other connections.
func TestStalledUploads(t *testing.T) {
	stalled, release := make(chan struct{}, 8), make(chan struct{})
	h2 := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			stalled <- struct{}{}
			<-release
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		created(w, r)
	}))
	h2.EnableHTTP2 = true
	h2.StartTLS()
	defer h2.Close()
	defer close(release)
	url := "https://" + at(0, h2)
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		actions[0].Match = matching(t, url+"/posts", "POST")
		o.Rules = rulesFor(t, actions[:1], []rules.Egress{{Name: "uploads", Match: matching(t, url+"/**", "PUT")}})
		o.Transport = newTestTransport(t, h2)
		o.Timeouts.Forward = 20 * time.Second
	})
	p.base = url
	s, password, err := p.sessions.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil)
	must(t, err)
	hostile := p.Client(http1)
	hostile.Transport.(*http.Transport).Proxy = http.ProxyURL(&neturl.URL{Scheme: "http", Host: p.Addr,
		User: neturl.UserPassword(s.ID, password)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		r := p.request(ctx, http.MethodPut, "/upload", strings.Repeat("x", 1<<20))
		go func() {
			if resp, err := hostile.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}()
		<-stalled
	}
	for range 3 {
		p.want(http.StatusCreated, "POST", "/posts", "{}")
	}
}
