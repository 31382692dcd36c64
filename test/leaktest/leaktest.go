// Package leaktest finds goroutines that tests leave behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, and fails if a goroutine is left.
func Main(m goleak.TestingM) { goleak.VerifyTestMain(patient{m}) }

// None fails a test if a goroutine is left, besides those that options leave out.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	wait(options...)
	goleak.VerifyNone(t, options...)
}

type patient struct{ goleak.TestingM }

func (p patient) Run() int {
	status := p.TestingM.Run()
	wait()
	return status
}

// wait gives goroutines that are about to end a minute. By itself goleak gives them less than half a second, in which a
// busy machine may not run them.
func wait(options ...goleak.Option) {
	for began := time.Now(); goleak.Find(options...) != nil && time.Since(began) < time.Minute; {
	}
}
