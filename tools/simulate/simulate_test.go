package main

import (
	"math"
	"os"
	"testing"

	"github.com/actionproof/mediator/reputation/dispute"
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
	t.Run("what the page says of it", func(t *testing.T) { holds(t, s) })
	if page, err = os.ReadFile("../../docs/disputes.md"); err != nil {
		t.Fatal(err)
	}
	if got, ok := tables.In(string(page)); !ok || got != "\n"+economics() {
		t.Error("docs/disputes.md has other tables than the simulation writes; run make simulate, and see what has changed")
	}
}

// TestEconomics: the effect of an attack grows at most in proportion to the keys, and in its first day no key has any.
func TestEconomics(t *testing.T) {
	before := end(colluding, nil)
	for _, b := range []bench{{arbiters: 1}, {arbiters: 3}, {arbiters: 3, appeals: true}} {
		one := before - accused(1, b).r
		for _, n := range []int{10, 100} {
			f := accused(n, b)
			if fall := before - f.r; fall > float64(n)*max(one, 2) {
				t.Errorf("%d keys lower R by %v, and one by %v (%+v)", n, fall, one, b)
			}
			if f.accusations > float64(n*days/(dispute.Stake+1)) {
				t.Errorf("%d keys lose %v disputes in a month", n, f.accusations)
			}
		}
	}
	if one, many := itself(0), itself(100); many > one {
		t.Errorf("disputes with its own keys raise R from %v to %v", one, many)
	}
	if got := room(100, day-1); got != dispute.MaxRunning {
		t.Errorf("keys in their first day leave another %d signals", got)
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
	for i, points := range map[int]float64{2: 5, 3: 12, 4: 30} {
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
		{"50 sessions a day instead of 3", "loses a dispute that it raised",
			"the same, and files it 8 times more"},
		{"loses one and takes a new name", "loses a dispute against it",
			"loses ten, about ten signals"},
	} {
		for i := range falls[1:] {
			if r[falls[i+1]] >= r[falls[i]]-1 {
				t.Errorf("%s: R is %v; %s: %v", falls[i], r[falls[i]], falls[i+1], r[falls[i+1]])
			}
		}
	}
	if after := s.pays; after < 5 || after > 10 {
		t.Errorf("another name pays after %d days, and not after about a week", after)
	}
}

func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	for _, page := range []string{"/reputation.md", "/disputes.md"} {
		check.Must(t, os.WriteFile(dir+page, []byte("no place"), 0o600))
	}
	if err := simulate(1, dir); err == nil {
		t.Error("a page without a place for tables is written")
	}
}
