package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/load"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/trigger"
)

// loadRig is a pipeline in memory for synctest. It is its own transport.
type loadRig struct {
	t        testing.TB
	pipeline *Pipeline
	sessions *session.Set
	record   *memoryRecord
	roles    *fakeRoles
	answer   func(*http.Request) (int, error) // the upstream
	sent     atomic.Int32                     // calls that reached the upstream
	release  func()                           // ends hang
}

func newLoadRig(t testing.TB, limits Load) *loadRig {
	t.Helper()
	l := &loadRig{t: t, sessions: session.NewSet(time.Now),
		record: &memoryRecord{t: t, posts: make(map[string]ledger.Record)}}
	l.answer, l.release = func(*http.Request) (int, error) { return http.StatusCreated, nil }, func() {}
	var o PipelineOptions
	l.roles, o = newRoles(t, l.sessions, l.record)
	credential, err := newCredential("Authorization", "Bearer ", fixed(secretToken))
	must(t, err)
	post := matching(t, "https://a.example/posts", "POST")
	read := matching(t, "https://*.example/**", "GET")
	one := matching(t, "https://a.example/**", "GET")
	o.Rules, err = rules.New(
		[]rules.Action{
			{Name: "posts", Match: post, Subject: "agent", Action: "create_post", Content: rules.ContentJSON, MaxBody: 1 << 20,
				Credential: credential, Gate: l.roles}},
		[]rules.Egress{{Name: "one", Match: one}, {Name: "reads", Match: read}}, nil)
	must(t, err)
	o.Transport, o.Load, o.Standing = l, limits, true
	l.pipeline, err = NewPipeline(o)
	must(t, err)
	l.sessions.OpenStanding(trigger.Event{ID: "evt_1"}, "worker-1", "")
	return l
}

func (l *loadRig) RoundTrip(r *http.Request) (*http.Response, error) {
	l.sent.Add(1)
	status, err := l.answer(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}

// open opens a session and returns its credentials.
func (l *loadRig) open() string {
	s, password, err := l.sessions.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil)
	must(l.t, err)
	return basic(s.ID, password)
}

// call makes a call such as "GET https://a.example/x", for the standing session if session is empty.
func (l *loadRig) call(session, line string) *httptest.ResponseRecorder {
	method, url, _ := strings.Cut(line, " ")
	body := io.Reader(http.NoBody)
	if method == "POST" {
		body = strings.NewReader("{}")
	}
	r := httptest.NewRequest(method, url, body)
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	target := upstream.Target{Scheme: r.URL.Scheme, Host: r.URL.Hostname(), Port: 443}
	w := httptest.NewRecorder()
	l.pipeline.ServeHTTP(w,
		r.WithContext(intercept.WithRoute(r.Context(), intercept.Route{Target: target, ProxyAuthorization: session})))
	return w
}

func (l *loadRig) want(status, calls int, session, line string) {
	l.t.Helper()
	for range calls {
		if w := l.call(session, line); w.Code != status {
			l.t.Fatalf("%s: got %d %s, want %d", line, w.Code, w.Body, status)
		}
	}
}

// refused demands this refusal and one record of it, and that nothing was sent or used up.
func (l *loadRig) refused(code string, retry int, session, line string) {
	l.t.Helper()
	_, before := l.record.last()
	sent := l.sent.Load()
	w, status := l.call(session, line), http.StatusServiceUnavailable
	if code == "rate_limited" {
		status = http.StatusTooManyRequests
	}
	d := refusalIn(w)
	if d.Code != code || w.Code != status || d.Step != "load" {
		l.t.Fatalf("%s: got %d %s, want %d %s", line, w.Code, w.Body, status, code)
	}
	if got := w.Header().Get("Retry-After"); got != strconv.Itoa(retry) {
		l.t.Errorf("%s: Retry-After: %q, want %d", line, got, retry)
	}
	rec, n := l.record.last()
	if n != before+1 || rec.Code != code || rec.State != ledger.StateRefused || rec.ID != d.Post ||
		len(rec.Artifacts) != 0 {
		l.t.Errorf("%d records, the last %+v", n-before, rec)
	}
	if l.sent.Load() != sent {
		l.t.Error("the upstream saw the call")
	}
}

const (
	readA = "GET https://a.example/x"
	readB = "GET https://b.example/x"
	postA = "POST https://a.example/posts"
)

func TestSessionRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Session: Rate{PerSecond: 0.1, Burst: 3}})
		l.want(http.StatusCreated, 1, "", readA)
		l.want(http.StatusCreated, 1, "", postA)
		l.want(http.StatusForbidden, 1, "", "DELETE https://a.example/x") // counts although no rule allows it
		l.refused("rate_limited", 10, "", readB)
		l.refused("rate_limited", 10, "", "GET "+ownURL+"/v1/rules")
		l.want(http.StatusOK, 1, "", "GET "+ownURL+"/v1/ca.pem")
		time.Sleep(9 * time.Second)
		l.refused("rate_limited", 1, "", postA)
		other := l.open()
		l.want(http.StatusCreated, 3, other, readA)
		time.Sleep(time.Second)
		l.want(http.StatusCreated, 1, "", postA)
		l.refused("rate_limited", 10, "", readA)

		r := httptest.NewRequest(http.MethodConnect, "//a.example:443", nil)
		_, before := l.record.last()
		_, err := l.pipeline.Connect(r, upstream.Target{Host: "a.example", Port: 443})
		wantCode(t, err, "rate_limited")
		w := httptest.NewRecorder()
		l.pipeline.Refuse(w, r, err)
		if rec, n := l.record.last(); n != before+1 || rec.Code != "rate_limited" || rec.Flow != "connect" ||
			w.Header().Get("Retry-After") != "10" {
			t.Errorf("%d records, the last %+v; %v", n-before, rec, w.Header())
		}
	})
}

func TestHostRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Host: Rate{PerSecond: 2}}) // 4 in two seconds; a session gets half of the rest
		other := l.open()
		l.want(http.StatusForbidden, 10, "", "PUT https://a.example/x") // no rule allows it, so it does not count
		l.want(http.StatusCreated, 2, "", readA)
		l.want(http.StatusCreated, 1, other, postA)
		l.refused("rate_limited", 2, "", postA)
		time.Sleep(time.Second)
		l.refused("rate_limited", 1, other, readA)
		l.want(http.StatusCreated, 2, "", readB)
		l.want(http.StatusCreated, 1, other, readB)
		time.Sleep(time.Second)
		l.want(http.StatusCreated, 2, "", readA)
		l.refused("rate_limited", 2, "", readA)
	})
}

func TestWhatABreakerCounts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		err    error
		fault  bool
	}{
		{"the name does not resolve", 0, refusal.New("upstream_unresolvable", "x"), true},
		{"no connection", 0, refusal.New("upstream_unreachable", "x"), true},
		{"a wrong certificate", 0, refusal.New("upstream_certificate_untrusted", "x"), true},
		{"no TLS", 0, refusal.New("upstream_tls_failed", "x"), true},
		{"a dead upstream proxy", 0, refusal.New("upstream_proxy_unreachable", "x"), true},
		{"an upstream proxy that allows no connection", 0, refusal.New("upstream_proxy_refused", "x"), false},
		{"no answer in time", 0, refusal.New("upstream_timeout", "x"), true},
		{"a broken connection", 0, io.ErrUnexpectedEOF, true},
		{"502", http.StatusBadGateway, nil, true},
		{"503", http.StatusServiceUnavailable, nil, true},
		{"504", http.StatusGatewayTimeout, nil, true},
		{"200", http.StatusOK, nil, false},
		{"401", http.StatusUnauthorized, nil, false},
		{"404", http.StatusNotFound, nil, false},
		{"429", http.StatusTooManyRequests, nil, false},
		{"500, perhaps for bad input", http.StatusInternalServerError, nil, false},
		{"an address that may not be dialled", 0, refusal.New("egress_address_denied", "x"), false},
		{"an agent that goes away", 0, refusal.New("client_gone", "x"), false},
		{"an agent's broken body", 0, refusal.New("content_incomplete", "x"), false},
	} {
		for _, line := range []string{readA, postA} {
			t.Run(line[:4]+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLoadRig(t, Load{Breaker: upstream.Breaker{Failures: 2, Pause: time.Minute}})
					l.answer = func(*http.Request) (int, error) { return tt.status, tt.err }
					l.call("", line)
					l.call("", line)
					if tt.fault {
						l.refused("upstream_suspended", 60, "", line)
					} else if l.call("", line); l.sent.Load() != 3 {
						t.Errorf("the upstream saw %d calls", l.sent.Load())
					}
				})
			})
		}
	}
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Breaker: upstream.Breaker{Failures: 3, Pause: 30 * time.Second}})
		l.answer = func(r *http.Request) (int, error) {
			if r.URL.Host == "a.example" {
				return 0, refusal.New("upstream_unreachable", "no connection")
			}
			return http.StatusOK, nil
		}
		suspended := func(retry int) {
			t.Helper()
			l.refused("upstream_suspended", retry, "", postA)
		}
		l.want(http.StatusBadGateway, 2, "", postA)
		// A refusal before sending says nothing about the upstream.
		l.roles.fail["gate"] = refusal.New("policy_denied", "refused by the test")
		l.want(http.StatusForbidden, 5, "", postA)
		delete(l.roles.fail, "gate")
		l.want(http.StatusBadGateway, 1, "", readA)
		suspended(30)
		l.want(http.StatusOK, 1, "", readB)
		time.Sleep(29500 * time.Millisecond)
		suspended(1)

		// After the pause one call tries at a time. A call that does not reach the upstream gives its turn back.
		time.Sleep(time.Second)
		l.roles.fail["gate"] = refusal.New("policy_denied", "refused by the test")
		l.want(http.StatusForbidden, 2, "", postA)
		delete(l.roles.fail, "gate")
		l.roles.panics = true
		l.want(http.StatusInternalServerError, 2, "", postA)
		l.roles.panics = false
		l.want(http.StatusBadGateway, 1, "", postA)
		suspended(30)

		time.Sleep(31 * time.Second)
		release := make(chan struct{})
		l.answer = func(*http.Request) (int, error) { <-release; return http.StatusOK, nil }
		done := make(chan int)
		go func() { done <- l.call("", postA).Code }()
		synctest.Wait()
		suspended(1)
		close(release)
		if got := <-done; got != http.StatusOK {
			t.Errorf("the call that tried: %d", got)
		}
		l.want(http.StatusOK, 5, "", postA)
	})
}

func TestFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Breaker: upstream.Breaker{Failures: 2}})
		var n int
		l.answer = func(*http.Request) (int, error) {
			if n++; n%2 == 0 {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}
		for range 20 {
			l.call("", readA)
		}
		if n != 20 {
			t.Errorf("the upstream saw %d calls", n)
		}
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadRig(t, Load{Calls: 5}) // one session gets three
		release := make(chan struct{})
		l.answer = func(*http.Request) (int, error) { <-release; return http.StatusOK, nil }
		done := make(chan int)
		for range 3 {
			go func() { done <- l.call("", readA).Code }()
		}
		synctest.Wait()
		began := time.Now()
		for _, line := range []string{postA, readB, "DELETE https://c.test/", "GET http://mediator.internal/v1/event"} {
			l.refused("overloaded", 1, "", line)
		}
		if time.Since(began) != 0 {
			t.Error("a refusal has waited")
		}
		close(release)
		for range 3 {
			if got := <-done; got != http.StatusOK {
				t.Errorf("a call in flight: %d", got)
			}
		}
		// However calls end, they make room.
		l.roles.panics = true
		l.want(http.StatusInternalServerError, 4, "", postA)
		l.roles.panics = false
		l.want(http.StatusForbidden, 4, "", "DELETE https://a.example/x")
		l.want(http.StatusOK, 4, "", postA)
	})
}

// The refusal does not wait for a body that does not come.
func TestOverloadedAnswer(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-release
	}, func(o *PipelineOptions, _ []rules.Action) { o.Load.Calls = 1 })
	answer := sync.OnceFunc(func() { close(release) })
	defer answer() // so that a failed test ends
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := p.client.Get(p.base + "/x"); err == nil {
			resp.Body.Close()
		}
	}()
	<-entered
	c := p.MustTunnel(at(0, p.upstream))
	_, err := fmt.Fprintf(c,
		"POST /posts HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n",
		at(0, p.upstream))
	must(t, err)
	resp := readRaw(t, bufio.NewReader(c), "POST")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !resp.Close {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
	if rec, _ := p.record.last(); rec.Code != "overloaded" || rec.Path != "/posts" {
		t.Errorf("got %+v", rec)
	}
	answer()
	<-done
}

func TestHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hostCapacity = 1024
		l := newLoadRig(t, Load{Session: Rate{PerSecond: maxRate}, Breaker: upstream.Breaker{Failures: 1}})
		l.answer = func(r *http.Request) (int, error) {
			if r.URL.Host == "a.example" {
				return http.StatusBadGateway, nil
			}
			return http.StatusOK, nil
		}
		l.want(http.StatusBadGateway, 1, "", readA)
		for i := range hostCapacity - 1 {
			l.want(http.StatusOK, 1, "", fmt.Sprintf("GET https://h%d.example/", i))
		}
		l.refused("upstream_suspended", 15, "", readA) // now the most recently used
		for i := range hostCapacity - 1 {
			l.want(http.StatusOK, 1, "", fmt.Sprintf("GET https://i%d.example/", i))
		}
		l.refused("upstream_suspended", 15, "", readA)
		for i := range hostCapacity {
			l.want(http.StatusOK, 1, "", fmt.Sprintf("GET https://j%d.example/", i))
		}
		l.want(http.StatusBadGateway, 1, "", readA) // forgotten
	})
}

func TestLoadThatMakesNoSense(t *testing.T) {
	for _, limits := range []Load{
		{Calls: -1}, {Session: Rate{PerSecond: -1}}, {Session: Rate{Burst: -1}}, {Host: Rate{PerSecond: math.NaN()}},
		{Host: Rate{PerSecond: math.Inf(1)}},
		{Host: Rate{PerSecond: load.MinRate / 2}}, {Session: Rate{PerSecond: maxRate + 1}}, {Host: Rate{Burst: -1}},
		{Breaker: upstream.Breaker{Failures: -1}}, {Breaker: upstream.Breaker{Pause: -1}}, {Unknown: -1},
	} {
		_, o := newRoles(t, session.NewSet(time.Now), &memoryRecord{t: t})
		o.Rules, o.Transport, o.Load = new(rules.Rules), new(upstream.Transport), limits
		if _, err := NewPipeline(o); err == nil || limits.Check() == nil {
			t.Errorf("%+v: got %v", limits, err)
		}
	}
	if err := (Load{}).Check(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}
