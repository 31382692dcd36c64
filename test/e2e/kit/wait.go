package kit

import (
	"testing"
	"time"
)

// Patience is for what has to happen soon and has no time of its own to be held to. It bounds a broken test: a machine that does much else takes long.
const Patience = 3 * time.Minute

// Until tries until it is so.
func Until(t *testing.T, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > within {
			t.Fatalf("waited %s for %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// Eventually waits until a condition holds, and gives up when its patience ends.
func Eventually(holds func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); ; <-tick.C {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
