//go:build failpoint

// Package failpoint crashes its process at a point that a test chooses.
package failpoint

import (
	"bytes"
	"os"
	"sync"
	"syscall"
)

var armed struct {
	sync.Mutex
	process, file string
}

// Arm makes the process of this name read file at each point. The file has a line "process: point" for each point, in
// order; the process crashes at the last one. Without the file nothing happens.
func Arm(process, file string) {
	armed.process, armed.file = process, file
}

// Reach marks a point. If it is the last one in the file, the file is removed and the process crashes at once.
func Reach(point string) {
	armed.Lock()
	defer armed.Unlock()
	raw, err := os.ReadFile(armed.file)
	if err != nil {
		return
	}
	next, rest, _ := bytes.Cut(raw, []byte("\n"))
	switch {
	case string(next) != armed.process+": "+point:
	case len(rest) > 0:
		if err := os.WriteFile(armed.file, rest, 0o600); err != nil {
			panic(err)
		}
	default:
		if err := os.Remove(armed.file); err != nil {
			panic(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it arrives
	}
}
