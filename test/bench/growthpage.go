package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"text/template"
)

// write writes GROWTH.md, and a plot for each axis beside it.
func (g growth) write(dir string) error {
	var w bytes.Buffer
	fmt.Fprintf(&w, "# Growth\n\nWritten by `make bench-growth`, %s: %s, %d cores, load average at the start %s, %d rounds of %.1f s a measurement, in alternation.\n", g.When, g.Machine, g.Cores, g.Load, g.Rounds, g.Seconds)
	w.WriteString(`
What one strict post costs while something else is many. CPU is that of all processes of the mediator at 16 connections, latency is the
median at 1 connection, posts a second are those of 16 connections; load, upstream and mediator share the cores. In brackets is the median of
the rounds' own ratios to the smallest. *Within 10 %* says that CPU and latency are at most 1.1 and posts a second at least 0.9 of the smallest,
without an error.
`)
	w.WriteString(g.busy())
	for _, a := range g.Axes {
		fmt.Fprintf(&w, "\n## %s\n\n![%s](growth-%s.svg)\n\n| %s | CPU a post, ms | of it the sidecar's | median, µs | posts/s | posts made | errors | within 10 %% |\n|---|---|---|---|---|---|---|---|\n", title(a.Name), a.What, a.Name, a.What)
		for _, p := range a.Points {
			fmt.Fprintf(&w, "| %d | %.2f (%.2f) | %.2f | %.0f (%.2f) | %.0f (%.2f) | %d | %d | %s |\n", p.Value, p.CPU, p.CPURatio, p.Sidecar, p.P50, p.P50Ratio, p.RPS, p.RPSRatio, p.Posts, p.Errors, yes(p.Within))
		}
		if len(a.Filled) > 0 {
			w.WriteString("\nThe first ledger has what its own posts left: one at the start, and those made while it was measured. The others were filled beforehand,\n" +
				"through package ledger, with copies of a post of the same run under ids of the last twelve hours, and a key for each artifact:\n\n")
			for _, f := range a.Filled {
				fmt.Fprintf(&w, "- %s.\n", f)
			}
		}
	}
	if m := g.Memory; m.Count > 0 {
		fmt.Fprintf(&w, "\n## Memory\n\nWhat the sidecar's resident memory grew by, from %.0f MiB after 2 s of reads: with %d more sessions, then with %[2]d tunnels that have each carried one read and are idle.\n"+
			"It holds what Go's collector had not given back by then, and the collector may also have given back more: a figure near zero is below what this can show.\n\n| each | KiB |\n|---|---|\n| session | %.1f |\n| idle intercepted tunnel | %.1f |\n", m.Base, m.Count, m.Session, m.Connection)
	}
	err := os.WriteFile(filepath.Join(dir, "GROWTH.md"), w.Bytes(), 0o644)
	for _, a := range g.Axes {
		err = errors.Join(err, a.plot(filepath.Join(dir, "growth-"+a.Name+".svg")))
	}
	return err
}

func title(name string) string {
	return map[string]string{"recorded": "Recorded posts", "rules": "Rules", "sessions": "Sessions"}[name]
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "**no**"
}

// plot draws the ratios to the smallest value: each line should stay in the grey band, which is 10 % to either side.
var plot = template.Must(template.New("plot").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="640" height="300" viewBox="0 0 640 300" font-family="sans-serif" font-size="12">
<rect width="640" height="300" fill="#fff"/>
<rect x="60" y="{{.Band.Top}}" width="480" height="{{.Band.Height}}" fill="#eee"/>
{{range .Levels}}<line x1="60" x2="540" y1="{{.At}}" y2="{{.At}}" stroke="#ccc"/><text x="54" y="{{.At}}" dy="4" text-anchor="end">{{.Text}}</text>
{{end}}{{range .Values}}<text x="{{.At}}" y="270" text-anchor="middle">{{.Text}}</text>
{{end}}<text x="300" y="290" text-anchor="middle">{{.What}}</text>
<text x="60" y="20">ratio to the smallest; grey: within 10 %</text>
{{range .Lines}}<polyline fill="none" stroke="{{.Colour}}" stroke-width="2" points="{{.Points}}"/><text x="546" y="{{.Legend}}" fill="{{.Colour}}">{{.Name}}</text>
{{end}}</svg>
`))

type mark struct{ At, Text string }

type line struct{ Name, Colour, Points, Legend string }

func (a axis) plot(path string) error {
	highest := 1.5
	for _, p := range a.Points {
		highest = max(highest, p.CPURatio, p.P50Ratio, p.RPSRatio)
	}
	highest = math.Ceil(highest*2) / 2
	y := func(ratio float64) float64 { return 250 - 210*ratio/highest }
	smallest, largest := math.Log(float64(a.Points[0].Value)), math.Log(float64(a.Points[len(a.Points)-1].Value))
	x := func(value int) float64 {
		return 80 + 440*(math.Log(float64(value))-smallest)/math.Max(largest-smallest, 1)
	}
	at := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	var d struct {
		What           string
		Band           struct{ Top, Height string }
		Levels, Values []mark
		Lines          []line
	}
	d.What, d.Band.Top, d.Band.Height = a.What, at(y(1.1)), at(y(0.9)-y(1.1))
	for level := 0.0; level <= highest; level += 0.5 {
		d.Levels = append(d.Levels, mark{at(y(level)), fmt.Sprintf("%.1f", level)})
	}
	for _, p := range a.Points {
		d.Values = append(d.Values, mark{at(x(p.Value)), fmt.Sprint(p.Value)})
	}
	for i, l := range []struct {
		name, colour string
		of           func(point) float64
	}{
		{"CPU a post", "#b2182b", func(p point) float64 { return p.CPURatio }},
		{"latency", "#2166ac", func(p point) float64 { return p.P50Ratio }},
		{"posts/s", "#1b7837", func(p point) float64 { return p.RPSRatio }},
	} {
		var points bytes.Buffer
		for _, p := range a.Points {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(p.Value), y(l.of(p)))
		}
		d.Lines = append(d.Lines, line{l.name, l.colour, points.String(), fmt.Sprint(60 + 18*i)})
	}
	var w bytes.Buffer
	if err := plot.Execute(&w, d); err != nil {
		return err
	}
	return os.WriteFile(path, w.Bytes(), 0o644)
}
