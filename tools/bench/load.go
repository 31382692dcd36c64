package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is one round of a cell.
type sample struct {
	rate     float64 // calls a second
	p50, p99 float64 // ms
	first    float64 // ms to the first event
	cpu      float64 // ms of the target's processes for one call
	calls    int
}

// load calls through a target for about d.
type load func(ctx context.Context, t target, d time.Duration) (sample, error)

// call is one request and the status of its answer.
type call struct {
	method, path, body string
	token              string // for Vault
	want               int
	h2                 bool
}

var (
	document = `{"body":"` + strings.Repeat("x", 1013) + `"}` // 1 KiB
	post     = call{method: http.MethodPost, path: "/posts", body: document, want: 201}
	read     = call{method: http.MethodGet, path: "/read", want: 200}
	download = call{method: http.MethodGet, path: "/download", want: 200, h2: true}
	events   = call{method: http.MethodGet, path: "/events", want: 200}
)

// send sends the request. Its caller closes the body of the answer.
func (c call) send(ctx context.Context, client *http.Client, t target) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, t.base+c.path, strings.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("X-Vault-Token", c.token)
	}
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != c.want {
		defer resp.Body.Close()
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return nil, fmt.Errorf("answered %d: %s", resp.StatusCode, raw)
	}
	return resp, err
}

func (c call) once(ctx context.Context, client *http.Client, t target) error {
	resp, err := c.send(ctx, client, t)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// client returns a client with at most so many connections; 0 for any number.
func (t target) client(connections int, h2 bool) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(t.proxy), TLSClientConfig: &tls.Config{RootCAs: t.roots, MinVersion: tls.VersionTLS12},
		MaxConnsPerHost: connections, MaxIdleConnsPerHost: 256, ForceAttemptHTTP2: h2,
	}}
}

// meter collects what a load takes. It is safe for concurrent use.
type meter struct {
	mu       sync.Mutex
	took     []time.Duration
	failures []error
	s        sample
}

func (m *meter) add(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.took = append(m.took, took); err != nil {
		m.failures = append(m.failures, err)
	}
}

// around runs do, which adds calls, and returns the figures, without any if a call failed.
func (m *meter) around(ctx context.Context, t target, do func()) (sample, error) {
	before, began := cpu(t.pids), time.Now()
	do()
	elapsed := time.Since(began)
	t.settle(ctx)
	if m.s.calls = len(m.took); m.s.calls == 0 || len(m.failures) > 0 {
		return m.s, fmt.Errorf("%d failed: %.500v", len(m.failures), errors.Join(m.failures...))
	}
	slices.Sort(m.took)
	m.s.rate = float64(m.s.calls) / elapsed.Seconds()
	m.s.p50, m.s.p99 = millis(m.took[m.s.calls/2]), millis(m.took[m.s.calls*99/100])
	m.s.cpu = millis(cpu(t.pids)-before) / float64(m.s.calls)
	return m.s, nil
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// closed keeps so many connections busy.
func closed(c call, connections int) load {
	return func(ctx context.Context, t target, d time.Duration) (sample, error) {
		clients := make([]*http.Client, connections)
		g := new(errgroup.Group)
		g.SetLimit(16)
		for i := range clients {
			clients[i] = t.client(1, c.h2)
			defer clients[i].CloseIdleConnections()
			g.Go(func() error { return c.once(ctx, clients[i], t) })
		}
		if err := g.Wait(); err != nil {
			return sample{}, err
		}
		var m meter
		return m.around(ctx, t, func() {
			var all sync.WaitGroup
			end := time.Now().Add(d)
			for _, client := range clients {
				all.Go(func() {
					for time.Now().Before(end) && ctx.Err() == nil {
						began := time.Now()
						err := c.once(ctx, client, t)
						m.add(time.Since(began), err)
					}
				})
			}
			all.Wait()
		})
	}
}

// long is for what is done once in a while, such as each second.
func long(do load) load {
	return func(ctx context.Context, t target, d time.Duration) (sample, error) { return do(ctx, t, 5*d) }
}

// open sends so many calls a second at random moments, the same for each target, whether or not the ones before have
// been answered. A call's time counts from its moment.
func open(c call, perSecond float64) load {
	return func(ctx context.Context, t target, d time.Duration) (sample, error) {
		d = max(2*d, time.Duration(30/perSecond*float64(d)))
		client := t.client(0, c.h2)
		defer client.CloseIdleConnections()
		if err := c.once(ctx, client, t); err != nil {
			return sample{}, err
		}
		var m meter
		return m.around(ctx, t, func() {
			var all sync.WaitGroup
			gaps := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
			began := time.Now()
			for at := time.Duration(0); at < d; at += time.Duration(gaps.ExpFloat64() / perSecond * float64(time.Second)) {
				if moment := began.Add(at); sleep(ctx, time.Until(moment)) {
					all.Go(func() {
						err := c.once(ctx, client, t)
						m.add(time.Since(moment), err)
					})
				}
			}
			all.Wait()
		})
	}
}

// follow reads one stream of events, which say when they were sent.
func follow(ctx context.Context, t target, d time.Duration) (sample, error) {
	client := t.client(1, false)
	defer client.CloseIdleConnections()
	if err := read.once(ctx, client, t); err != nil { // makes the connection
		return sample{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var m meter
	return m.around(ctx, t, func() {
		began := time.Now()
		resp, err := events.send(ctx, client, t)
		if err != nil {
			m.add(0, err)
			return
		}
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); time.Since(began) < d; {
			if !lines.Scan() {
				m.add(0, errors.Join(errors.New("the stream ended"), lines.Err()))
				return
			}
			text, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			if m.s.first == 0 {
				m.s.first = millis(time.Since(began))
			}
			sent, err := strconv.ParseInt(string(text), 10, 64)
			m.add(time.Since(time.Unix(0, sent)), err)
		}
	})
}
