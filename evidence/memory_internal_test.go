package evidence

import (
	"fmt"
	"testing"
)

// TestMemory: what was put last is got again, and what is kept is bounded however much is put.
func TestMemory(t *testing.T) {
	t.Parallel()
	var m Memory
	if got := m.get("t0"); got != nil {
		t.Errorf("the zero value holds %v", got)
	}
	for i := range 5 * maxRemembered {
		m.put(fmt.Sprintf("t%d", i), i)
		for _, back := range []int{0, 1, maxRemembered - 1} {
			if got := m.get(fmt.Sprintf("t%d", i-back)); i >= back && got != i-back {
				t.Fatalf("of %d tokens the one %d back is %v", i+1, back, got)
			}
		}
		if len(m.young) > maxRemembered || len(m.old) > maxRemembered {
			t.Fatalf("after %d tokens, %d and %d are kept", i+1, len(m.young), len(m.old))
		}
	}
	if got := m.get("t0"); got != nil {
		t.Errorf("the first of %d tokens is still there", 5*maxRemembered)
	}
}
