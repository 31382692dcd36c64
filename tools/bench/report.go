package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// report writes RESULTS.md: a row for each cell, with the medians of its rounds.
func report(cells []*cell, o options) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, `# Results

Written by %s on %s, %d cores: %d rounds of %s a cell, in turn. The load, the upstream and the proxy share the
cores, so compare the ratios, which are medians of each round's own. CPU is that of all of a proxy's processes, memory
that of the process beside the agent. A post is 1 KiB of JSON over HTTPS. %s is the whole strict chain with keys in
memory and a ledger that syncs each commit; %s is the same with keys in a Vault server.

`, "`make bench`", machine(), runtime.NumCPU(), o.rounds, o.duration, "`mediator`", "`vault`")
	fmt.Fprint(&w, "| cell | connections | calls/s | × direct | × goproxy | × mitmdump | p50 µs | p99 µs | CPU s per 1,000 | sidecar's share | RSS MiB | "+
		"upstream connections per 1,000 | errors |\n|"+strings.Repeat("---|", 13)+"\n")
	for _, c := range cells {
		fmt.Fprintf(&w, "| %s | %d | %.0f |", c.Name, c.Connections, c.median(func(s sample) float64 { return s.rps }))
		for _, base := range []string{"direct", "goproxy", "mitmdump"} {
			fmt.Fprintf(&w, " %s |", c.ratio(cells, base))
		}
		failed := 0
		for _, s := range c.samples {
			failed += s.errors
		}
		fmt.Fprintf(&w, " %.0f | %.0f | %.3f | %.3f | %.0f | %.2f | %d |\n",
			c.median(func(s sample) float64 { return s.p50 }), c.median(func(s sample) float64 { return s.p99 }),
			c.median(func(s sample) float64 { return s.cpu }), c.median(func(s sample) float64 { return s.sidecar }),
			c.median(func(s sample) float64 { return s.rss }), c.median(func(s sample) float64 { return s.upstream }), failed)
	}
	return w.Bytes()
}

// median returns the median of a figure over the cell's rounds.
func (c *cell) median(of func(sample) float64) float64 {
	var values []float64
	for _, s := range c.samples {
		values = append(values, of(s))
	}
	return middle(values)
}

// ratio returns the calls a second against the same cell of another target, round by round: what slows a round slows both.
func (c *cell) ratio(cells []*cell, base string) string {
	for _, b := range cells {
		if b == c || b.Name != c.verb()+" "+base || b.Connections != c.Connections {
			continue
		}
		var ratios []float64
		for i := range min(len(c.samples), len(b.samples)) {
			ratios = append(ratios, c.samples[i].rps/b.samples[i].rps)
		}
		return fmt.Sprintf("%.3f", middle(ratios))
	}
	return ""
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// machine names the Go version and the processor.
func machine() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	model := "an unknown processor"
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ", " + model
}
