package evidence_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
)

func TestOrderedID(t *testing.T) {
	var ids []string
	for n := range 5000 { // across the carry of each character
		id := evidence.NewOrderedID(time.UnixMilli(1_800_000_000_000 + int64(n)*int64(n)*37))
		if len(id) != 26 || strings.Trim(id, "0123456789ABCDEFGHIJKLMNOPQRSTUV") != "" {
			t.Fatalf("the identifier is %q", id)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("they do not sort by their time")
	}
	one := time.UnixMilli(1)
	if first, second := evidence.NewOrderedID(one), evidence.NewOrderedID(one); first == second {
		t.Errorf("two are %s", first)
	}
	if got := evidence.OrderedID(time.UnixMilli(0x0190_0000_0001), [10]byte{9: 0x1f}); got !=
		"0680000004000000000000003S" {
		t.Errorf("got %s", got)
	}
}
