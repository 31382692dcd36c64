package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestPage(t *testing.T) {
	s := newStudy(1)
	page, err := os.ReadFile("../../docs/reputation.md")
	check.Must(t, err)
	if got, ok := tables.In(string(page)); !ok || got != "\n"+s.text() {
		t.Errorf(
			"docs/reputation.md has other tables than the simulation writes; run make simulate, and see what has changed:\n%s",
			s.text())
	}
	picture, err := os.ReadFile("../../docs/reputation.svg")
	check.Must(t, err)
	if string(picture) != string(s.plot()) {
		t.Error("docs/reputation.svg is another plot than the simulation draws; run make simulate")
	}
	isXML(t, picture)
	t.Run("what the page says of it", func(t *testing.T) { holds(t, s) })
}

func isXML(t *testing.T, document []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(document))); ; {
		if _, err := d.Token(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the plot is no XML: %v", err)
			}
			return
		}
	}
}

func holds(t *testing.T, s study) {
	without := s.collusions[0].r[0]
	for _, c := range s.collusions {
		for i := range c.r[1:] {
			if c.r[i+1] < c.r[i] {
				t.Errorf("%s: R is %v with %d owners, and %v with %d", c.name, c.r[i+1], colluders[i+1], c.r[i], colluders[i])
			}
		}
	}
	all := s.collusions[3]
	for i, points := range map[int]float64{2: 5, 3: 12, 5: 28} {
		if gain := all.r[i] - without; math.Abs(gain-points) > 1 {
			t.Errorf("%s: %d owners are worth %v points, and not about %v", all.name, colluders[i], gain, points)
		}
	}
	r := make(map[string]float64)
	for _, a := range s.attacks {
		r[a.name] = a.r
		if a.r > without+1+float64(a.owners) {
			t.Errorf("%s: R is %v, and %v without", a.name, a.r, without)
		}
	}
	for _, falls := range [][]string{
		{"it has 50 sessions a day in place of 3", "it opens a dispute on day 12, and loses it",
			"it opens one on day 12, loses it, and files the same 8 times again"},
		{"it loses one on day 12, and takes another name", "it loses a dispute against it on day 12, and goes on",
			"it loses ten on day 12, about ten signals, and goes on"},
	} {
		for i := range falls[1:] {
			if r[falls[i+1]] >= r[falls[i]]-1 {
				t.Errorf("%s: R is %v; %s: %v", falls[i], r[falls[i]], falls[i+1], r[falls[i+1]])
			}
		}
	}
	if after := pays(s.courses); after < 5 || after > 10 {
		t.Errorf("another name pays after %d days, and not after about a week", after)
	}
}

func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	docs, picture := dir+"/page.md", dir+"/plot.svg"
	check.Must(t, os.WriteFile(docs, []byte("no place"), 0o600))
	if err := simulate(1, docs, picture); err == nil {
		t.Error("a page without a place for tables is written")
	}
}
