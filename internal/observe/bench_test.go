package observe_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
)

// BenchmarkLook observes this machine once.
func BenchmarkLook(b *testing.B) {
	l, _ := isolated(b, quiet...)
	w := observe.NewWatcher(&agent, time.Now, func(*observe.Run, look.Finding) {})
	run := w.Begin("evt_1", l)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := run.Look(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
