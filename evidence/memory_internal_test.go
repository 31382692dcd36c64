package evidence

import (
	"fmt"
	"testing"
)

// TestMemory: what was put is taken once, and what nobody takes is bounded however much is put.
func TestMemory(t *testing.T) {
	t.Parallel()
	var m Memory
	if got := m.take("t0"); got != nil {
		t.Errorf("the zero value holds %v", got)
	}
	for i := range 5 * maxRemembered {
		m.put(fmt.Sprintf("t%d", i), i)
		if i%2 == 0 { // half is taken, maxRemembered tokens later
			back := i - maxRemembered
			if got := m.take(fmt.Sprintf("t%d", back)); back >= 0 && got != back {
				t.Fatalf("of %d tokens the one %d back is %v", i+1, maxRemembered, got)
			}
			if got := m.take(fmt.Sprintf("t%d", back)); got != nil {
				t.Fatalf("of %d tokens the one %d back is taken twice", i+1, maxRemembered)
			}
		}
		if len(m.young) > maxRemembered || len(m.old) > maxRemembered {
			t.Fatalf("after %d tokens, %d and %d are kept", i+1, len(m.young), len(m.old))
		}
	}
	if got := m.take("t1"); got != nil {
		t.Errorf("one of the first of %d tokens is still there", 5*maxRemembered)
	}
	for i := range 4 * maxRemembered { // what is taken leaves nothing
		m.take(fmt.Sprintf("t%d", i+maxRemembered))
	}
	if len(m.young)+len(m.old) > 0 {
		t.Errorf("%d tokens are kept that were taken", len(m.young)+len(m.old))
	}
	var none *Memory
	none.put("t", 1)
	if got := none.take("t"); got != nil {
		t.Errorf("no memory holds %v", got)
	}
}
