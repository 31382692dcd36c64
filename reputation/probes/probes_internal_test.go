package probes

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestBank(t *testing.T) {
	if len(bank.Questions) < 10 {
		t.Errorf("only %d questions", len(bank.Questions))
	}
	for _, q := range bank.Questions {
		if len(q.Forms) < 2 || len(q.Values) == 0 {
			t.Errorf("%q can be asked in one way only", q.Forms)
		}
		for name, c := range q.Values {
			if c.Of == nil && c.From >= c.To || c.Of != nil && len(c.Of) < 2 {
				t.Errorf("%q: %s has one value only", q.Forms[0], name)
			}
			for _, form := range q.Forms {
				if !strings.Contains(form, "{"+name+"}") {
					t.Errorf("%q does not say %s", form, name)
				}
			}
		}
	}
}

func TestDraw(t *testing.T) {
	draw := func(seed uint64) any {
		n := 0
		asked, pairs := Draw(5, rand.New(rand.NewPCG(seed, 0)), func() string { n++; return fmt.Sprint(n) })
		return []any{asked, pairs}
	}
	if !reflect.DeepEqual(draw(1), draw(1)) || reflect.DeepEqual(draw(1), draw(2)) {
		t.Error("the randomness does not decide")
	}
	apart := false
	for seed := range uint64(5) {
		n := 0
		asked, pairs := Draw(5, rand.New(rand.NewPCG(seed, 0)), func() string { n++; return fmt.Sprint(n) })
		apart = apart || !slices.ContainsFunc(pairs, func(pair [2]string) bool {
			return slices.Contains(pair[:], asked[0].ID) && slices.Contains(pair[:], asked[1].ID)
		})
	}
	if !apart {
		t.Error("pairs stand beside each other")
	}
	if got, _ := Draw(1000, rand.New(rand.NewPCG(1, 0)), func() string { return "" }); len(got) != 2*len(bank.Questions) {
		t.Errorf("%d probes of %d questions", len(got), len(bank.Questions))
	}
}
