package main

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/page"
)

// figure is a plain number of a session, by which one sees what the sessions of a kind look like. It is no part of a score.
type figure struct {
	name string
	of   func(all []interaction.Receipt) []float64 // one for each call that has it
}

var figures = []figure{
	{"turnaround, s", ofEach(func(r interaction.Receipt) interaction.Figure { return r.Model.Figures.Turnaround }, 1e-3)},
	{"duration, s", ofEach(func(r interaction.Receipt) interaction.Figure { return r.Model.Figures.Duration }, 1e-3)},
	{"first content, s", ofEach(func(r interaction.Receipt) interaction.Figure { return r.Model.Figures.FirstDelta }, 1e-3)},
	{"tokens/s", speeds},
	{"output tokens", ofEach(func(r interaction.Receipt) interaction.Figure { return r.Model.Figures.OutputTokens }, 1)},
	{"new input words", ofEach(func(r interaction.Receipt) interaction.Figure { return r.Model.Figures.NewInputWords }, 1)},
}

// totals are numbers of a session as a whole.
var totals = []figure{
	{"calls", func(all []interaction.Receipt) []float64 { return []float64{float64(len(calls(all)))} }},
	{"returned a call", perCall(func(m *interaction.ModelCall) float64 { return float64(len(m.ReturnedCalls)) })},
	{"unmatched a call", perCall(func(m *interaction.ModelCall) float64 { return float64(m.Figures.UnmatchedResults.Value) })},
	{"self references a call", perCall(func(m *interaction.ModelCall) float64 { return float64(m.Figures.SelfReferences.Value) })},
	{"deepest", highest(func(m *interaction.ModelCall) interaction.Figure { return m.Figures.Depth })},
	{"deepest relayed", highest(func(m *interaction.ModelCall) interaction.Figure { return m.Figures.DepthRelayed })},
	{"entropy, bits", last(func(m *interaction.ModelCall) interaction.Figure { return m.Figures.WordEntropy })},
	{"compressed, ‰", last(func(m *interaction.ModelCall) interaction.Figure { return m.Figures.Compression })},
}

func calls(all []interaction.Receipt) (out []interaction.Receipt) {
	for _, r := range all {
		if r.Model != nil {
			out = append(out, r)
		}
	}
	return out
}

func ofEach(of func(interaction.Receipt) interaction.Figure, scale float64) func([]interaction.Receipt) []float64 {
	return func(all []interaction.Receipt) (out []float64) {
		for _, r := range calls(all) {
			if f := of(r); f.State != interaction.StateNotMeasured {
				out = append(out, float64(f.Value)*scale)
			}
		}
		return out
	}
}

func speeds(all []interaction.Receipt) (out []float64) {
	for _, r := range calls(all) {
		f := r.Model.Figures
		if f.OutputTokens.State != interaction.StateNotMeasured && f.Duration.Value > 0 {
			out = append(out, 1000*float64(f.OutputTokens.Value)/float64(f.Duration.Value))
		}
	}
	return out
}

func perCall(of func(*interaction.ModelCall) float64) func([]interaction.Receipt) []float64 {
	return func(all []interaction.Receipt) []float64 {
		sum, n := 0.0, 0.0
		for _, r := range calls(all) {
			sum, n = sum+of(r.Model), n+1
		}
		return []float64{sum / max(n, 1)}
	}
}

func highest(of func(*interaction.ModelCall) interaction.Figure) func([]interaction.Receipt) []float64 {
	return func(all []interaction.Receipt) []float64 {
		most := 0.0
		for _, r := range calls(all) {
			most = max(most, float64(of(r.Model).Value))
		}
		return []float64{most}
	}
}

func last(of func(*interaction.ModelCall) interaction.Figure) func([]interaction.Receipt) []float64 {
	return func(all []interaction.Receipt) []float64 {
		for _, r := range slices.Backward(calls(all)) {
			if f := of(r.Model); f.State != interaction.StateNotMeasured {
				return []float64{float64(f.Value) / map[bool]float64{true: 1000, false: 1}[f.Value > 2000]}
			}
		}
		return nil
	}
}

// figureTable writes what the sessions of each kind look like: of each figure the median over the sessions of a session's median and, in brackets,
// of its quartiles' ratio.
func figureTable(all []scored) string {
	columns := []string{"kind"}
	for _, f := range append(slices.Clone(totals), figures...) {
		columns = append(columns, f.name)
	}
	t := page.NewTable(columns...)
	for _, k := range kinds() {
		row := []string{k.name}
		for _, f := range totals {
			row = append(row, short(medianOf(all, k, f.of)))
		}
		for _, f := range figures {
			middle := medianOf(all, k, func(r []interaction.Receipt) []float64 { return some(f.of(r), 0.5) })
			spread := medianOf(all, k, func(r []interaction.Receipt) []float64 {
				of := f.of(r)
				if len(of) < 4 {
					return nil
				}
				return []float64{page.Quantile(of, 0.75) / max(page.Quantile(of, 0.25), 1e-3)}
			})
			row = append(row, short(middle)+" ("+short(spread)+")")
		}
		t.Row(row...)
	}
	return t.String()
}

// some returns a quantile of numbers, if there are any.
func some(of []float64, q float64) []float64 {
	if len(of) == 0 {
		return nil
	}
	return []float64{page.Quantile(of, q)}
}

// medianOf returns the median of a number of the sessions of a kind; none if no session has it.
func medianOf(all []scored, k kind, of func([]interaction.Receipt) []float64) []float64 {
	var out []float64
	for _, s := range all {
		if s.Group == k.group && s.Kind == k.name {
			out = append(out, of(s.Receipts)...)
		}
	}
	return some(out, 0.5)
}

// short writes a number with three digits, or a dash for none.
func short(of []float64) string {
	if len(of) == 0 {
		return "–"
	}
	if of[0] >= 100 {
		return fmt.Sprintf("%.0f", of[0])
	}
	return fmt.Sprintf("%.3g", of[0])
}
