// Package leaktest finds goroutines that tests leave behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Park keeps a goroutine and its thread for good. Processes that a thread started with Pdeathsig end with that thread.
// The goroutine does not count as a leak.
func Park() { select {} }

var parked = goleak.IgnoreAnyFunction("github.com/actionproof/mediator/test/leaktest.Park")

// Main runs the tests of a package, and fails if a goroutine is left.
func Main(m goleak.TestingM) { goleak.VerifyTestMain(patient{m}, parked) }

// None fails a test if a goroutine is left, besides those that options leave out.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	options = append(options, parked)
	wait(options...)
	goleak.VerifyNone(t, options...)
}

type patient struct{ goleak.TestingM }

func (p patient) Run() int {
	status := p.TestingM.Run()
	wait(parked)
	return status
}

// wait gives goroutines that are about to end a minute. By itself goleak gives them less than half a second, in which a
// busy machine may not run them.
func wait(options ...goleak.Option) {
	for began := time.Now(); goleak.Find(options...) != nil && time.Since(began) < time.Minute; {
	}
}
