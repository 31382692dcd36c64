package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// results are all figures of a run.
type results struct {
	o     options
	rest  resting
	cells map[string]*cell // by name
	syncs [2]float64       // fsyncs of a post without and with the transparency log
	grown string           // see grow
}

// figure reads one figure of a sample.
type figure func(sample) float64

func rate(s sample) float64  { return s.rate }
func p50(s sample) float64   { return s.p50 }
func p99(s sample) float64   { return s.p99 }
func used(s sample) float64  { return s.cpu }
func first(s sample) float64 { return s.first }

// over says the median over the rounds of do, which gets a round's figures of the cells: what slows a round slows them
// all. Without a round of them all it says a dash.
func (r *results) over(format string, of figure, do func(f []float64) float64, names ...string) string {
	var values []float64
	for round := range r.o.rounds {
		var figures []float64
		for _, name := range names {
			if c := r.cells[name]; c != nil && round < len(c.samples) && c.samples[round].rate > 0 {
				figures = append(figures, of(c.samples[round]))
			}
		}
		if len(figures) == len(names) {
			values = append(values, do(figures))
		}
	}
	if len(values) == 0 {
		return "–"
	}
	slices.Sort(values)
	return fmt.Sprintf(format, values[(len(values)-1)/2])
}

func (r *results) ms(of figure, name string) string {
	return r.over("%.2f ms", of, func(f []float64) float64 { return f[0] }, name)
}

func (r *results) ratio(of figure, name, base string) string {
	return r.over("%.2f times", of, func(f []float64) float64 { return f[0] / f[1] }, name, base)
}

func (r *results) added(name, base string) string {
	return r.over("%.2f ms", p50, func(f []float64) float64 { return f[0] - f[1] }, name, base)
}

// report writes RESULTS.md.
func (r *results) report() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, `# Results

Written by %[1]smake bench%[1]s on %[2]s, %[3]d cores.

Medians of %[4]d rounds of %[5]s a cell, in turn. Load, upstream and proxy share the cores, so compare the ratios, which
are of the same round. The mediator is %[1]smediator dev%[1]s as it comes. A post is 1 KiB of JSON over HTTPS. CPU is
that of all of a proxy's processes until they rest again.

| what | the mediator | beside it |
|---|---|---|
`, "`", machine(), runtime.NumCPU(), r.o.rounds, r.o.duration)
	for _, row := range r.summary() {
		fmt.Fprintln(&w, "| "+strings.Join(row[:], " | ")+" |")
	}
	r.layers(&w)
	fmt.Fprintf(&w, `
The transparency log with few and with many entries: 100 entries and their checkpoint, a proof, the start. The ledger
with few and with many records: a post, 16 at a time.

%[1]s
%[2]s%[1]s
`, "```", r.grown)
	return w.Bytes()
}

// summary returns the rows of the first table.
func (r *results) summary() [][3]string {
	idle := r.rest
	return [][3]string{
		{"posts a second, 16 connections", r.ratio(rate, "post receipts 16", "post mitmdump 16"), "mitmdump"},
		{"a post, 1 connection: p50", r.ms(p50, "post receipts 1"), "goproxy " + r.ms(p50, "post goproxy 1")},
		{"CPU of a post, 1 connection", r.ms(used, "post receipts 1"), "mitmdump " + r.ms(used, "post mitmdump 1")},
		{"CPU of a post, 16 connections", r.ms(used, "post receipts 16"), "mitmdump " + r.ms(used, "post mitmdump 16")},
		{"a post at 5 a second: added p50", r.added("post receipts 5/s", "post direct 5/s"),
			"mitmdump " + r.added("post mitmdump 5/s", "post direct 5/s")},
		{"CPU of a post at 5 a second", r.ms(used, "post receipts 5/s"), "mitmdump " + r.ms(used, "post mitmdump 5/s")},
		{"reads a second, 16 connections", r.ratio(rate, "read receipts 16", "read goproxy 16"), "goproxy"},
		{"100 MiB down over HTTP/2", r.ratio(rate, "download receipts 1", "download goproxy 1"), "goproxy"},
		{"server-sent events: added p50", r.added("events receipts 1", "events direct 1"),
			"goproxy " + r.added("events goproxy 1", "events direct 1")},
		{"server-sent events: first byte", r.ms(first, "events receipts 1"), "goproxy " + r.ms(first, "events goproxy 1")},
		{"at rest: CPU; system calls a second; PSS",
			fmt.Sprintf("%.2f %%; %.0f; %.0f MiB", idle.cpu, idle.calls, idle.pss), "all processes"},
		{"start to ready", fmt.Sprintf("%.0f ms", millis(idle.ready)), ""},
		{"with a log, signed each second: CPU of a post, 16 connections",
			r.ratio(used, "post log long", "post receipts long"), "without"},
		{"with that log: fsyncs of a post", fmt.Sprintf("%.2f", r.syncs[1]),
			fmt.Sprintf("without %.2f", r.syncs[0])},
		{"with an open console, traces of 1 % and an audit export: CPU of a post, 16 connections",
			r.ratio(used, "post telemetry long", "post receipts long"), "without"},
		{"Vault: what it adds to a post, 1 connection", r.over("%.1f times", p50,
			func(f []float64) float64 { return (f[0] - f[1]) / f[2] }, "post vault 1", "post receipts 1", "post transit 1"),
			"a signature of Transit, " + r.ms(p50, "post transit 1")},
		{"Vault: posts a second, 64 connections", r.over("%.2f times", rate,
			func(f []float64) float64 { return f[0] / (f[1] * batch / 7) }, "post vault 64", "post transit batches"),
			"a seventh of Transit's signatures in batches"},
		{fmt.Sprint(r.o.size.rules, " rules: CPU of a post, 16 connections"),
			r.ratio(used, "post many rules 16", "post receipts 16"), "3 rules"},
		{fmt.Sprint(r.o.size.sessions, " open sessions: CPU of a post, 16 connections"),
			r.ratio(used, "post many sessions 16", "post receipts 16"), "1 session"},
	}
}

// layers writes the table of targets. A row has one figure for each number of connections, or for each rate.
func (r *results) layers(w *bytes.Buffer) {
	fmt.Fprint(w, `
Each layer of the mediator is switched on over the one before: rules let posts out without evidence; signing demands the
whole chain of it, with keys and state in memory; durable has its state on the disk; receipts makes interaction receipts
and hands them to the node, as mediator dev does; vault has its keys in a Vault server, whose own CPU is not counted.
Closed loop means 1, 16 and 64 busy connections; open loop means 5, 20 and 200 posts a second at random moments.

| posts through | closed: posts/s | p50 ms | p99 ms | CPU ms | open: p50 ms | p99 ms | CPU ms |
|---|---|---|---|---|---|---|---|
`)
	for _, t := range []string{"direct", "mitmdump", "goproxy", "rules", "signing", "durable", "receipts", "vault"} {
		fmt.Fprintf(w, "| %s |", t)
		for i, of := range []figure{rate, p50, p99, used, p50, p99, used} {
			var all []string
			for at := range connections {
				how, format := fmt.Sprint(connections[at]), "%.2f"
				if i > 3 {
					how = fmt.Sprint(rates[at], "/s")
				}
				if i == 0 {
					format = "%.0f"
				}
				all = append(all, r.over(format, of, func(f []float64) float64 { return f[0] }, "post "+t+" "+how))
			}
			fmt.Fprintf(w, " %s |", strings.Join(all, " / "))
		}
		fmt.Fprintln(w)
	}
}

// machine names the Go version and the processor.
func machine() string {
	model, _ := exec.Command("sed", "-n", "/^model name/{s/.*: //p;q}", "/proc/cpuinfo").Output()
	return runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ", " + strings.TrimSpace(string(model))
}
