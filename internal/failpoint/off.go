//go:build !failpoint

// Package failpoint marks the points at which a test ends a process, to see what a crash there leaves. It is compiled
// in with the build tag failpoint alone; a release has nothing of it.
package failpoint

// Reach marks a point.
func Reach(string) {}
