package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
)

// results are what results.json holds.
type results struct {
	Machine string   `json:"machine"`
	Cores   int      `json:"cores"`
	Rounds  int      `json:"rounds"`
	Seconds float64  `json:"seconds_a_round"`
	Floors  floors   `json:"floors"`
	Cells   []result `json:"cells"`
	Targets []goal   `json:"targets"`
}

// result is one cell: medians over the rounds.
type result struct {
	Name        string             `json:"name"`
	Connections int                `json:"connections"`
	RPS         float64            `json:"rps"`
	P50         float64            `json:"p50_us"`
	P99         float64            `json:"p99_us"`
	CPU         float64            `json:"cpu_s_per_1k"`
	Sidecar     float64            `json:"cpu_s_per_1k_sidecar,omitempty"`
	RSS         float64            `json:"rss_mib,omitempty"`
	Objects     float64            `json:"allocations_a_call,omitempty"`
	Bytes       float64            `json:"allocated_bytes_a_call,omitempty"`
	Upstream    float64            `json:"upstream_connections_per_1k"`
	Errors      int                `json:"errors"`
	Ratios      map[string]float64 `json:"ratios,omitempty"` // of requests a second, to direct and to goproxy, median of the rounds' own ratios
}

// goal is one number to reach.
type goal struct {
	What string  `json:"what"`
	Want string  `json:"want"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

func middle(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return mid(values)
}

func mid(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// summarize takes the medians, the ratios and the goals.
func (r *results) summarize(cells []*cell) {
	r.Cores = runtime.NumCPU()
	find := func(name string, connections int) *cell {
		for _, c := range cells {
			if c.Name == name && c.Connections == connections {
				return c
			}
		}
		return nil
	}
	for _, c := range cells {
		out := result{
			Name: c.Name, Connections: c.Connections, RPS: middle(c.samples, func(s sample) float64 { return s.rps }), P50: middle(c.samples, func(s sample) float64 { return s.p50 }),
			P99: middle(c.samples, func(s sample) float64 { return s.p99 }), CPU: middle(c.samples, func(s sample) float64 { return s.cpu }),
			Sidecar: middle(c.samples, func(s sample) float64 { return s.sidecar }), RSS: middle(c.samples, func(s sample) float64 { return s.rss }),
			Objects: middle(c.samples, func(s sample) float64 { return s.allocated.objects }), Bytes: middle(c.samples, func(s sample) float64 { return s.allocated.bytes }),
			Upstream: middle(c.samples, func(s sample) float64 { return s.upstream }), Ratios: make(map[string]float64),
		}
		for _, s := range c.samples {
			out.Errors += s.errors
		}
		for _, base := range []string{"direct", "goproxy"} {
			if b := find(c.verb()+" "+base, c.Connections); b != nil && b != c {
				out.Ratios[base] = paired(c, b)
			}
		}
		r.Cells = append(r.Cells, out)
	}
	r.goals(find)
}

// paired is the median of the rounds' ratios of calls a second: what slows a round slows both.
func paired(c, base *cell) float64 { return pairedOf(c, base, func(s sample) float64 { return s.rps }) }

// pairedOf is the median of the rounds' ratios of what is asked for.
func pairedOf(c, base *cell, of func(sample) float64) float64 {
	var ratios []float64
	for i := range min(len(c.samples), len(base.samples)) {
		ratios = append(ratios, of(c.samples[i])/of(base.samples[i]))
	}
	return mid(ratios)
}

// goals holds the run against the numbers that the project set itself.
func (r *results) goals(find func(string, int) *cell) {
	rate := func(name, base string, n int) float64 {
		c, b := find(name, n), find(base, n)
		if c == nil || b == nil {
			return 0
		}
		return paired(c, b)
	}
	of := func(name string, n int, value func(sample) float64) float64 {
		if c := find(name, n); c != nil {
			return middle(c.samples, value)
		}
		return 0
	}
	cpuOf := func(s sample) float64 { return s.cpu }
	p50 := func(s sample) float64 { return s.p50 }
	add := func(what, want string, got float64, met bool) {
		if got != 0 {
			r.Targets = append(r.Targets, goal{what, want, got, met})
		}
	}
	atLeast := func(what string, got, want float64) { add(what, fmt.Sprintf(">= %.2f", want), got, got >= want) }
	atMost := func(what string, got, want float64) { add(what, fmt.Sprintf("<= %.2f", want), got, got <= want) }

	atLeast("reads without evidence, 16 connections, against goproxy", rate("read mediator", "read goproxy", 16), 0.9)
	atLeast("reads without evidence, 16 connections, against direct", rate("read mediator", "read direct", 16), 0.38)
	atLeast("the strict chain, 16 connections, against goproxy", rate("post mediator", "post goproxy", 16), 0.25)
	atLeast("the strict chain, 16 connections, against mitmdump", rate("post mediator", "post mitmdump", 16), 4)
	m := of("post goproxy", 16, cpuOf)
	if m > 0 {
		atMost("CPU of a post in the sidecar, 16 connections, in those of goproxy", of("post mediator", 16, func(s sample) float64 { return s.sidecar })/m, 6)
		atMost("CPU of a post that is neither goproxy's nor a signature's, in those of goproxy", (of("post mediator", 16, cpuOf)-m-r.Floors.signed()/1000)/m, 1.5) // s for 1,000 posts
	}
	added := of("post mediator", 1, p50) - of("post goproxy", 1, p50)
	atMost("one connection: median added by the chain, in its signatures and one fdatasync", added/(r.Floors.signed()+r.Floors.Fdatasync), 1.3)
	if r.Floors.Transit > 0 {
		atMost("Vault, one connection: median added over keys in memory, in Transit signatures", (of("post vault", 1, p50)-of("post mediator", 1, p50))/r.Floors.Transit, 3.5)
		atLeast("Vault, 64 connections: posts a second, in a seventh of its batched signatures a second", of("post vault", 64, func(s sample) float64 { return s.rps })/(r.Floors.TransitPerSec/7), 0.8)
	}
	atLeast("a fresh connection for each read, 16 connections, against direct", rate("fresh read mediator", "fresh read direct", 16), 0.8)
	if h1, h2 := find("post mediator", 16), find("post mediator h2", 16); h1 != nil && h2 != nil {
		atLeast("HTTP/2 to the client against HTTP/1.1", paired(h2, h1), 0.8)
	}
	atMost("upstream connections a thousand posts, 64 connections", of("post mediator", 64, func(s sample) float64 { return s.upstream }), 1)
	if m := of("post goproxy", 64, func(s sample) float64 { return s.rss }); m > 0 {
		atMost("memory at 64 connections, in those of goproxy", of("post mediator", 64, func(s sample) float64 { return s.rss })/m, 2)
	}
}

func writeJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

func (r *results) writeMarkdown(path string) error {
	var w bytes.Buffer
	fmt.Fprintf(&w, "# Results\n\nWritten by `make bench`: %s, %d cores, %d rounds of %.1f s a cell, in alternation. The load, the upstream and the proxy share the\n", r.Machine, r.Cores, r.Rounds, r.Seconds)
	fmt.Fprint(&w, "cores, so what counts are the ratios: medians of each round's own. CPU is that of all of a proxy's processes,\nmemory that of the one beside the agent.\n\n## Goals\n\n| what | wanted | measured | |\n|---|---|---|---|\n")
	for _, g := range r.Targets {
		met := "**missed**"
		if g.Met {
			met = "met"
		}
		fmt.Fprintf(&w, "| %s | %s | %.2f | %s |\n", g.What, g.Want, g.Got, met)
	}
	fmt.Fprint(&w, "\n## Cells\n\nA post is 1 KiB of JSON over HTTPS; `mediator` is the whole strict chain with keys in memory and a ledger that syncs each commit.\n`parts` is goproxy that does a post's signatures, verifications and durable writes in its one process, and nothing else of it.\n\n")
	fmt.Fprint(&w, "| cell | connections | calls/s | x direct | x goproxy | p50 µs | p99 µs | CPU s a 1,000 | of it sidecar | allocations a call | KiB allocated a call | RSS MiB | upstream connections a 1,000 | errors |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	ratio := func(c result, base string) string {
		if v, ok := c.Ratios[base]; ok {
			return fmt.Sprintf("%.3f", v)
		}
		return ""
	}
	for _, c := range r.Cells {
		fmt.Fprintf(&w, "| %s | %d | %.0f | %s | %s | %.0f | %.0f | %.3f | %.3f | %.0f | %.1f | %.0f | %.2f | %d |\n",
			c.Name, c.Connections, c.RPS, ratio(c, "direct"), ratio(c, "goproxy"), c.P50, c.P99, c.CPU, c.Sidecar, c.Objects, c.Bytes/1024, c.RSS, c.Upstream, c.Errors)
	}
	fmt.Fprintf(&w, "\n## Floors of the same run\n\n| what | |\n|---|---|\n| Ed25519 signature | %.1f µs |\n| Ed25519 verification | %.1f µs |\n| write of 4 KiB and fdatasync | %.0f µs |\n", r.Floors.Sign, r.Floors.Verify, r.Floors.Fdatasync)
	if r.Floors.Transit > 0 {
		fmt.Fprintf(&w, "| one signature of Vault's Transit engine, verified | %.0f µs |\n| the same, batched, from one client | %.0f a second |\n", r.Floors.Transit, r.Floors.TransitPerSec)
	}
	return os.WriteFile(path, w.Bytes(), 0o644)
}
