package plays

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const soakPatience = 15 * time.Minute

type soakAgent struct {
	*soak
	t       *testing.T
	number  int
	calls   int
	draw    *rand.Rand
	session admin.Session
	client  *http.Client // nil outside of a session

	// connects has it try to connect until it can, and keep idle connections. Otherwise it tries once.
	connects bool
}

func (s *soak) newAgent(t *testing.T, number int) *soakAgent {
	return &soakAgent{soak: s, t: t, number: number, draw: rand.New(rand.NewPCG(*soakSeed, uint64(number)+1))}
}

func (a *soakAgent) run(ctx context.Context) {
	defer a.leave()
	for a.pace.Wait(ctx) == nil {
		if a.client == nil && !a.enter(ctx) {
			continue
		}
		a.turn()
	}
}

var soakTurns = []struct {
	share int
	do    func(*soakAgent)
}{
	{50, func(a *soakAgent) { a.call(http.MethodGet, "reads", nil, 0) }},
	{32, func(a *soakAgent) { a.call(http.MethodPost, "posts", a.content(), 0) }},
	{5, func(a *soakAgent) {
		a.call(http.MethodPut, "uploads", bytes.NewReader(make([]byte, a.draw.IntN(1<<20))), 0)
	}},
	{3, func(a *soakAgent) { a.call(http.MethodPost, "posts", &breaking{Reader: a.content()}, 0) }},
	{2, func(a *soakAgent) {
		a.call(http.MethodPut, "uploads", &breaking{Reader: strings.NewReader("the beginning")}, 0)
	}},
	{3, func(a *soakAgent) { a.call(http.MethodPost, "posts", a.content(), 1+a.draw.IntN(30)) }},
	{2, func(a *soakAgent) { a.call(http.MethodGet, "reads", nil, 1+a.draw.IntN(10)) }},
	{2, func(a *soakAgent) { a.client.CloseIdleConnections() }},
	{1, func(a *soakAgent) { a.leave() }},
}

func (a *soakAgent) turn() {
	n := a.draw.IntN(100)
	for _, turn := range soakTurns {
		if n -= turn.share; n < 0 {
			turn.do(a)
			return
		}
	}
}

func (a *soakAgent) content() io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"agent":%d,"text":%q}`, a.number, strings.Repeat("x", a.draw.IntN(2000))))
}

type breaking struct{ io.Reader }

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		err = errBroken
	}
	return n, err
}

var errBroken = errors.New("broken off")

func (a *soakAgent) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	a.webhooks.Lock()
	event, err := a.DeliverRelease(ctx)
	a.webhooks.Unlock()
	if err == nil {
		err = admin.Call(ctx, a.Stack.Admin(), http.MethodPost, "/v1/sessions", admin.SessionRequest{Event: event},
			&a.session)
	}
	if err != nil {
		a.count("no session")
		return false
	}
	proxy, err := url.Parse(a.session.ProxyURL)
	if err != nil {
		a.t.Error(err)
	}
	raw, err := os.ReadFile(a.session.CAFile)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		a.t.Errorf("no CA: %v", err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(proxy), DialContext: a.dial, ForceAttemptHTTP2: a.number%2 == 0,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}
	if !a.connects {
		transport.IdleConnTimeout = 5 * time.Second // what was in use when its session ended would be kept for good
	}
	a.client = &http.Client{Timeout: soakPatience, Transport: transport}
	return true
}

func (a *soakAgent) leave() {
	if a.client == nil {
		return
	}
	a.client.CloseIdleConnections()
	a.client = nil
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	// The session ends even if the trigger service cannot be reached.
	_ = admin.Call(ctx, a.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+a.session.Session, nil, nil)
}

// call makes a call and notes the result. The agent leaves after so many milliseconds, unless they are 0.
func (a *soakAgent) call(method, kind string, body io.Reader, patience int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(patience)*time.Millisecond)
		defer cancel()
	}
	a.calls++
	path := fmt.Sprintf("/%s/%d-%d", kind, a.number, a.calls)
	began := time.Now()
	resp, err := a.send(ctx, method, "https://"+a.Plain()+path, body)
	if err != nil {
		a.ended(err, time.Since(began))
		return
	}
	defer resp.Body.Close()
	read := answer{path: path, again: method == http.MethodGet, status: resp.StatusCode,
		post: resp.Header.Get("ActionProof-Post")}
	if problem.Is(resp.Header) {
		var d problem.Details
		if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
			a.ended(err, time.Since(began))
			return
		}
		read.code, read.post = d.Code, d.Post
		if (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) &&
			resp.Header.Get("Retry-After") == "" {
			a.t.Errorf("%s: %d %s without Retry-After", path, resp.StatusCode, d.Code)
		}
	} else if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		a.ended(err, time.Since(began))
		return
	}
	a.told(read, began)
	if strings.HasPrefix(read.code, "event_") || strings.HasPrefix(read.code, "session_") {
		a.leave()
	}
}

func (a *soakAgent) send(ctx context.Context, method, url string, body io.Reader) (*http.Response, error) {
	for began := time.Now(); ; {
		connected := false
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, url, body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := a.client.Do(req)
		if err == nil || connected || !a.connects || time.Since(began) > soakPatience {
			return resp, err
		}
	}
}

func (a *soakAgent) told(read answer, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	read.unledgered = began.Before(a.busyTill)
	a.answers = append(a.answers, read)
	if read.code == "" {
		a.counts[fmt.Sprint(read.status)]++
	} else {
		a.counts[read.code]++
	}
}

func (a *soakAgent) ended(err error, took time.Duration) {
	switch {
	case took >= soakPatience:
		a.t.Errorf("a call hung: %v", err)
	case errors.Is(err, errBroken) || errors.Is(err, context.DeadlineExceeded):
		a.count("left by the agent")
	default:
		a.count("cut")
	}
}

func (s *soak) count(outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[outcome]++
}
