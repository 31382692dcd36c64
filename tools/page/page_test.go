package page_test

import (
	"math"
	"strings"
	"testing"

	"github.com/actionproof/mediator/tools/page"
)

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.75: 4, 1: 5, 0.125: 1.5} {
		if got := page.Quantile([]float64{5, 3, 1, 4, 2}, q); got != want {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(page.Quantile(nil, 0.5)) {
		t.Error("no numbers have a median")
	}
}

// TestPlace: a page gets a new text in its place, and nothing else of it changes.
func TestPlace(t *testing.T) {
	place := page.PlaceOf("simulate")
	old := "before\n" + place.Begin + "old\n" + place.End + "after\n"
	got, err := place.Put(old, "new\n")
	if want := "before\n" + place.Begin + "\nnew\n" + place.End + "after\n"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if text, ok := place.In(got); !ok || strings.TrimSpace(text) != "new" {
		t.Errorf("there stands %q, %t", text, ok)
	}
	if _, err := page.PlaceOf("other").Put(old, "new\n"); err == nil {
		t.Error("a page without the place gets a text")
	}
}

// TestTable writes Markdown.
func TestTable(t *testing.T) {
	table := page.NewTable("a", "b")
	table.Row("1", "2")
	if got, want := table.String(), "| a | b |\n|---|---|\n| 1 | 2 |\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
