package main

import (
	"runtime/debug"
	"testing"
)

func TestOperatorRulesTheCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, tt := range []struct {
		gogc string
		want int
	}{{"", 125}, {"100", 100}, {"off", 100}} {
		debug.SetGCPercent(100) // as the runtime would have set it, or another one
		t.Setenv("GOGC", tt.gogc)
		collectLessOften()
		if got := debug.SetGCPercent(100); got != tt.want {
			t.Errorf("GOGC=%s: %d, want %d", tt.gogc, got, tt.want)
		}
	}
}
