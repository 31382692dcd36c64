package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// columns are the figures of RESULTS.md after the cell and its connections.
var columns = []struct {
	head   string
	figure func(c *cell, cells []*cell) string
}{
	{"calls/s", func(c *cell, _ []*cell) string { return c.print("%.0f", rps) }},
	{"× goproxy", func(c *cell, cells []*cell) string { return c.ratio(cells, "goproxy", rps) }},
	{"p50 ms", func(c *cell, _ []*cell) string { return c.print("%.1f", p50) }},
	{"p99 ms", func(c *cell, _ []*cell) string { return c.print("%.1f", func(s sample) float64 { return s.p99 }) }},
	{"CPU ms a call", func(c *cell, _ []*cell) string { return c.print("%.2f", processor) }},
	{"RSS MiB", func(c *cell, _ []*cell) string { return c.print("%.0f", func(s sample) float64 { return s.rss }) }},
}

func rps(s sample) float64       { return s.rps }
func p50(s sample) float64       { return s.p50 }
func processor(s sample) float64 { return s.cpu }

// report writes RESULTS.md. A row has the medians of one call through one target, for each number of connections.
func report(cells []*cell, o options) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, `# Results

Written by %s on %s, %d cores: %d rounds of %s a cell, in turn. Load, upstream and proxy share the cores, so compare
the ratios, which are medians of each round's own. CPU is that of all of a proxy's processes, memory that of the process
beside the agent. A post is 1 KiB of JSON over HTTPS. %s is the whole strict chain with keys in memory and a ledger that
syncs each commit; %s has its keys in a Vault server. A row has one figure for each number of connections.

| cell | connections |`, "`make bench`", machine(), runtime.NumCPU(), o.rounds, o.duration, "`mediator`", "`vault`")
	for _, c := range columns {
		fmt.Fprintf(&w, " %s |", c.head)
	}
	fmt.Fprintln(&w, "\n"+strings.Repeat("|---", len(columns)+2)+"|")
	all := cells
	for len(cells) > 0 {
		same := slices.IndexFunc(cells, func(c *cell) bool { return c.Name != cells[0].Name })
		if same < 0 {
			same = len(cells)
		}
		row := cells[:same]
		fmt.Fprintf(&w, "| %s |", row[0].Name)
		fmt.Fprintf(&w, " %s |", joined(row, func(c *cell) string { return fmt.Sprint(c.Connections) }))
		for _, column := range columns {
			fmt.Fprintf(&w, " %s |", joined(row, func(c *cell) string { return column.figure(c, all) }))
		}
		fmt.Fprintln(&w)
		cells = cells[same:]
	}
	fmt.Fprint(&w, "\n`run` calls from a transparent run, without a proxy's port. Against `mediator`:\n\n")
	for _, c := range all {
		if c.target.name == "run" {
			fmt.Fprintf(&w, "- %s, %d connections: %s × the calls/s, %s × p50, %s × the CPU\n", c.Name, c.Connections,
				c.ratio(all, "mediator", rps), c.ratio(all, "mediator", p50), c.ratio(all, "mediator", processor))
		}
	}
	return w.Bytes()
}

// joined returns a figure of each cell, separated by slashes, or nothing if there is none.
func joined(row []*cell, figure func(*cell) string) string {
	var out []string
	for _, c := range row {
		if text := figure(c); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "/")
}

// print returns the median of a figure.
func (c *cell) print(format string, of func(sample) float64) string {
	return fmt.Sprintf(format, c.median(of))
}

// median returns the median of a figure over the cell's rounds.
func (c *cell) median(of func(sample) float64) float64 {
	var values []float64
	for _, s := range c.samples {
		values = append(values, of(s))
	}
	return middle(values)
}

// ratio returns the calls a second against the same cell of another target, round by round: what slows a round slows
// both.
func (c *cell) ratio(cells []*cell, base string, of func(sample) float64) string {
	for _, b := range cells {
		if b == c || b.Name != c.verb()+" "+base || b.Connections != c.Connections {
			continue
		}
		var ratios []float64
		for i := range min(len(c.samples), len(b.samples)) {
			ratios = append(ratios, of(c.samples[i])/of(b.samples[i]))
		}
		return fmt.Sprintf("%.2f", middle(ratios))
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
