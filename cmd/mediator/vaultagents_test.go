package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
)

// patience is for what has to happen soon and has no time of its own to be held to. It bounds a broken test: a machine that does much else takes long.
const patience = 3 * time.Minute

// until tries until it is so.
func until(t *testing.T, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > within {
			t.Fatalf("waited %s for %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// outcome is what an agent saw of one call.
type outcome struct {
	status int
	code   string // of the refusal; empty where there was none
	step   string
	detail string
	post   string // the id of the record
	retry  int    // Retry-After in seconds
	took   time.Duration
}

// agent is a client in a session of its own.
type agent struct {
	*http.Client
	t           *testing.T
	base, admin string
}

func (v *rig) openAgent(t *testing.T) agent {
	t.Helper()
	event, err := v.DeliverRelease(t.Context())
	must(t, err)
	var s admin.Session
	must(t, admin.Call(t.Context(), v.Stack.Admin(), http.MethodPost, "/v1/sessions", map[string]string{"event": event}, &s))
	proxy, err := url.Parse(s.ProxyURL)
	must(t, err)
	ca, err := os.ReadFile(s.CAFile)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return agent{&http.Client{Transport: transport, Timeout: patience}, t, "https://" + v.Plain(), v.Stack.Admin()}
}

func (a agent) post() outcome {
	return a.call(http.MethodPost, "/repos/acme/site/issues/7/comments", `{"body":"released"}`)
}

func (a agent) read() outcome { return a.call(http.MethodGet, "/repos/acme/site", "") }

// call makes one call. What is no answer at all has the code "none".
func (a agent) call(method, path, body string) outcome {
	began := time.Now()
	out := outcome{code: "none"}
	req, err := http.NewRequest(method, a.base+path, strings.NewReader(body))
	if err != nil {
		return out
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.Do(req)
	if err != nil {
		out.detail = err.Error()
		return out
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	out.took = time.Since(began)
	if err != nil || resp.StatusCode < 300 {
		out.status, out.code, out.post = resp.StatusCode, "", resp.Header.Get("ActionProof-Post")
		return out
	}
	var p problem.Details
	if json.Unmarshal(raw, &p) == nil {
		out.code, out.step, out.detail, out.post = p.Code, p.Step, p.Detail, p.Post
	}
	wantNothingTold(a.t, string(raw))
	out.status = resp.StatusCode
	out.retry, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return out
}

// reason returns why a call was refused: what the operator reads of it.
func (a agent) reason(o outcome) string {
	if o.post == "" {
		return ""
	}
	var rec ledger.Record
	if err := admin.Get(a.t.Context(), a.admin, "/v1/posts/"+o.post, &rec); err != nil {
		return err.Error()
	}
	return rec.Reason
}

// reads are the calls of an agent that reads all the time.
type reads struct {
	mu      sync.Mutex // guards the rest
	n       int
	slowest time.Duration
	failed  []outcome
}

// keepReading reads until ctx ends.
func (r *reads) keepReading(ctx context.Context, a agent) {
	for ctx.Err() == nil {
		o := a.read()
		r.mu.Lock()
		r.n++
		r.slowest = max(r.slowest, o.took)
		if o.code != "" {
			r.failed = append(r.failed, o)
		}
		r.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// take returns what was read since the last time.
func (r *reads) take() (n int, slowest time.Duration, failed []outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, slowest, failed = r.n, r.slowest, r.failed
	r.n, r.slowest, r.failed = 0, 0, nil
	return n, slowest, failed
}

// held is what the processes hold: open descriptors of each, in the stack's order, and the sidecar's goroutines.
type held struct {
	files      []int // of each process
	goroutines int
}

func (h held) within(o held, slack int) bool {
	for i := range h.files {
		if h.files[i] > o.files[i]+slack {
			return false
		}
	}
	return h.goroutines <= o.goroutines+slack
}

func (h held) String() string {
	return fmt.Sprintf("%d, %d", h.files, h.goroutines)
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func (v *vaultRig) held(t *testing.T) held {
	t.Helper()
	var h held
	for _, p := range v.Stack.Processes {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
		must(t, err)
		h.files = append(h.files, len(files))
	}
	client, base := daemon.Client(config.Endpoint{Unix: v.Stack.Socket("serve")})
	defer client.CloseIdleConnections()
	resp, err := client.Get(base + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	found := goroutines.FindSubmatch(raw)
	if found == nil {
		t.Fatal("the metrics do not say how many goroutines there are")
	}
	h.goroutines, err = strconv.Atoi(string(found[1]))
	must(t, err)
	return h
}

// crowd is how many posts are made at once.
const crowd = 8

func atOnce(n int, post func() outcome) []outcome {
	out := make([]outcome, n)
	var wait sync.WaitGroup
	for i := range out {
		wait.Go(func() { out[i] = post() })
	}
	wait.Wait()
	return out
}
