package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// cell is one measurement: a call over a number of connections through a target.
type cell struct {
	Name        string
	Connections int

	target  target
	call    func(context.Context, *http.Client, string) error
	h2      bool
	fresh   bool // a connection for each call
	samples []sample
}

// sample is one round of a cell.
type sample struct {
	rps           float64 // calls a second
	p50, p99, cpu float64 // ms; cpu is the processor time of the proxy's processes for one call
	rss           float64 // MiB, of the proxy or the mediator's sidecar
	calls, errors int
}

// verb is the call, without the target.
func (c *cell) verb() string {
	verb, _, _ := strings.Cut(c.Name, " "+c.target.name)
	return verb
}

// body is a JSON document of 1 KiB.
var body = `{"title":"a post","body":"` + strings.Repeat("x", 1024-28) + `"}`

func postOnce(ctx context.Context, c *http.Client, base string) error {
	return once(ctx, c, http.MethodPost, base+"/posts", body, http.StatusCreated)
}

func readOnce(ctx context.Context, c *http.Client, base string) error {
	return once(ctx, c, http.MethodGet, base+"/read", "", http.StatusOK)
}

func once(ctx context.Context, c *http.Client, method, url, body string, want int) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("answered %d: %.300s", resp.StatusCode, raw)
	}
	return err
}

// beside returns the processes that each agent has beside it. The mediator's other processes serve many agents.
func (t target) beside() []int {
	if t.sidecar != nil {
		return t.sidecar
	}
	return t.pids
}

// client returns the client of one connection.
func (t target) client(h2 bool) *http.Client {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: t.roots, MinVersion: tls.VersionTLS12},
		MaxConnsPerHost: 1, ForceAttemptHTTP2: h2,
	}
	if t.proxy != nil {
		tr.Proxy = http.ProxyURL(t.proxy)
	}
	if t.network != "" {
		tr.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return dialIn(ctx, t.network, port)
		}
	}
	if !h2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// makeCells returns the cells to measure.
func makeCells(targets map[string]target, o options) []*cell {
	var cells []*cell
	type call func(context.Context, *http.Client, string) error
	add := func(name, target string, do call, connections []int, more ...func(*cell)) {
		t, ok := targets[target]
		if !ok || !strings.Contains(name, o.only) {
			return
		}
		for _, n := range connections {
			c := &cell{Name: name, Connections: n, target: t, call: do}
			for _, m := range more {
				m(c)
			}
			cells = append(cells, c)
		}
	}
	fresh := func(c *cell) { c.fresh = true }
	h2 := func(c *cell) { c.h2 = true }
	for _, t := range []string{"direct", "goproxy", "mitmdump", "squid", "mediator", "vault"} {
		add("post "+t, t, postOnce, o.connections)
	}
	for _, t := range []string{"direct", "goproxy", "mediator", "run"} {
		add("read "+t, t, readOnce, o.connections)
		add("fresh read "+t, t, readOnce, []int{16}, fresh)
	}
	add("read mediator h2", "mediator", readOnce, []int{16}, h2)
	add("post mediator h2", "mediator", postOnce, []int{16}, h2)
	return cells
}

// connect opens the cell's connections.
func (c *cell) connect(ctx context.Context) ([]*http.Client, error) {
	clients := make([]*http.Client, c.Connections)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range clients {
		clients[i] = c.target.client(c.h2)
		if !c.fresh {
			g.Go(func() error { return c.call(ctx, clients[i], c.target.base) })
		}
	}
	return clients, g.Wait()
}

// load keeps the cell's connections busy for d.
func (c *cell) load(ctx context.Context, d time.Duration) (sample, error) {
	clients, err := c.connect(ctx)
	for _, client := range clients {
		defer client.CloseIdleConnections()
	}
	if err != nil {
		return sample{}, err
	}
	var s sample
	var mu sync.Mutex
	var wait sync.WaitGroup
	var took []time.Duration
	var failure error
	before, began := cpu(c.target.pids), time.Now()
	for caller := range c.Connections {
		wait.Go(func() {
			var mine []time.Duration
			failed := 0
			var err error
			client := clients[caller]
			for time.Since(began) < d && ctx.Err() == nil {
				start := time.Now()
				if e := c.call(ctx, client, c.target.base); e != nil {
					failed, err = failed+1, e
				}
				mine = append(mine, time.Since(start))
				if c.fresh {
					client.CloseIdleConnections()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took, s.errors = append(took, mine...), s.errors+failed
			failure = errors.Join(failure, err)
		})
	}
	wait.Wait()
	elapsed := time.Since(began)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if failure != nil {
		fmt.Fprintf(os.Stderr, "%s, %d connections: %d errors: %.300v\n", c.Name, c.Connections, s.errors, failure)
	}
	s.calls = len(took)
	s.cpu = 1000 * (cpu(c.target.pids) - before) / float64(s.calls)
	s.rss = rss(c.target.beside())
	slices.Sort(took)
	s.rps = float64(s.calls) / elapsed.Seconds()
	s.p50, s.p99 = millis(took[len(took)/2]), millis(took[len(took)*99/100])
	return s, nil
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// cpu returns the processor time of processes in seconds.
func cpu(pids []int) float64 {
	ticks := 0
	for _, pid := range pids {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		for _, i := range []int{11, 12} { // utime, stime
			if i < len(fields) {
				n, _ := strconv.Atoi(fields[i])
				ticks += n
			}
		}
	}
	return float64(ticks) / 100 // USER_HZ
}

// rss returns the resident memory of processes in MiB.
func rss(pids []int) float64 {
	kib := 0
	for _, pid := range pids {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(raw)) {
			if s, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				n, _ := strconv.Atoi(strings.Fields(s)[0])
				kib += n
			}
		}
	}
	return float64(kib) / 1024
}
