//go:build !failpoint

// Package failpoint marks points at which a test can crash a process. It does nothing without the build tag failpoint.
package failpoint

// Reach marks a point.
func Reach(string) {}
