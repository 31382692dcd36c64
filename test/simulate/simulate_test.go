package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestPage: the tables and the plots of docs/reputation.md are those of the rules as they are.
func TestPage(t *testing.T) {
	s := newStudy(1)
	page, err := os.ReadFile("../../docs/reputation.md")
	check.Must(t, err)
	if got, ok := tables.In(string(page)); !ok || got != "\n"+s.text() {
		t.Errorf("docs/reputation.md has other tables than the simulation writes; run make simulate, and see what has changed:\n%s", s.text())
	}
	picture, err := os.ReadFile("../../docs/reputation.svg")
	check.Must(t, err)
	if string(picture) != string(s.plot()) {
		t.Error("docs/reputation.svg is another plot than the simulation draws; run make simulate")
	}
	isXML(t, picture)
	t.Run("what the page says of it", func(t *testing.T) { holds(t, s) })
}

// isXML reads all of a document.
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

// holds demands of the simulation what the page says that the rules hold off, and what they do not.
func holds(t *testing.T, s study) {
	without := s.collusions[0].r[0]
	for _, c := range s.collusions {
		for i := range c.r[1:] {
			if c.r[i+1] < c.r[i] {
				t.Errorf("%s: R is %v with %d owners, and %v with %d", c.name, c.r[i+1], colluders[i+1], c.r[i], colluders[i])
			}
		}
	}
	if one := s.collusions[3].r[1] - without; one > 2.5 {
		t.Errorf("one other owner is worth %v points", one)
	}
	for _, a := range s.attacks {
		if a.r > without+0.5+2.5*float64(a.owners) {
			t.Errorf("%s: R is %v, and %v without", a.name, a.r, without)
		}
	}
	if pays(s.courses) < 5 {
		t.Errorf("another name pays after %d days", pays(s.courses))
	}
}

// TestSimulate writes both files, and needs a place for the tables.
func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	docs, picture := dir+"/page.md", dir+"/plot.svg"
	check.Must(t, os.WriteFile(docs, []byte("no place"), 0o600))
	if err := simulate(1, docs, picture); err == nil {
		t.Error("a page without a place for tables is written")
	}
}
