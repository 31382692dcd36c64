package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// heap is where a process tells what it has allocated since it started: a page of metrics.
type heap struct{ network, address string }

// allocated is an amount of memory that was allocated, whether it is in use or not.
type allocated struct{ objects, bytes float64 }

// The names that the Go collector of Prometheus gives them.
const objectsMetric, bytesMetric = "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total"

// read asks the process.
func (h heap) read(ctx context.Context) (a allocated, err error) {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, h.network, h.address)
	}}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://process/metrics", nil)
	if err != nil {
		return a, err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), " "); name {
		case objectsMetric:
			a.objects, err = strconv.ParseFloat(value, 64)
		case bytesMetric:
			a.bytes, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return a, err
		}
	}
	if err := lines.Err(); err != nil {
		return a, err
	}
	if a.objects == 0 || a.bytes == 0 {
		return a, fmt.Errorf("%s says nothing of its heap", h.address)
	}
	return a, nil
}

// allocated is what the processes of a target have allocated together; nothing where none tells.
func (t target) allocated(ctx context.Context) (sum allocated, err error) {
	for _, h := range t.heaps {
		a, e := h.read(ctx)
		sum.objects, sum.bytes, err = sum.objects+a.objects, sum.bytes+a.bytes, errors.Join(err, e)
	}
	return sum, err
}

// writeHeap writes the page for the process that it runs in.
func writeHeap(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "%s %d\n%s %d\n", objectsMetric, m.Mallocs, bytesMetric, m.TotalAlloc)
}
