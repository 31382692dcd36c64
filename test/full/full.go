// Package full marks the tests that only a full run makes: those that need root, or programs that `make setup`
// installs.
package full

import "testing"

// Only leaves a test out of a run with -short, and says what it needs. Without -short it does nothing: what is missing
// then fails the test.
func Only(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short: it needs " + needs)
	}
}
