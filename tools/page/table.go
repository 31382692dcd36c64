// Package page writes tables into a page.
package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Table is a table of Markdown.
type Table struct{ text strings.Builder }

// NewTable begins a table with the names of its columns.
func NewTable(columns ...string) *Table {
	t := &Table{}
	t.Row(columns...)
	t.text.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.text.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// String returns the table.
func (t *Table) String() string { return t.text.String() }

// Place is a part of a page that a command writes: what stands between two lines.
type Place struct{ Begin, End string }

// PlaceOf returns the place that a target of make fills.
func PlaceOf(target string) Place {
	return Place{"<!-- The tables up to the next comment are written by `make " + target + "`. -->\n",
		"<!-- End of the tables. -->\n"}
}

// In returns the text of the place in a page, or false if the page lacks the place.
func (p Place) In(page string) (text string, ok bool) {
	_, rest, begins := strings.Cut(page, p.Begin)
	text, _, ends := strings.Cut(rest, p.End)
	return text, begins && ends
}

// Put returns the page with another text there, and an empty line before it.
func (p Place) Put(page, text string) (string, error) {
	if _, ok := p.In(page); !ok {
		return "", fmt.Errorf("the page has no place for tables: a line %q, and a later one %q", strings.TrimSpace(p.Begin),
			strings.TrimSpace(p.End))
	}
	before, rest, _ := strings.Cut(page, p.Begin)
	_, after, _ := strings.Cut(rest, p.End)
	return before + p.Begin + "\n" + text + p.End + after, nil
}

// Quantile returns a quantile of some numbers, between the two that are nearest to it; NaN of none.
func Quantile(of []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
