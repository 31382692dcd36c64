//go:build failpoint

// Package failpoint ends its process at a point that a test chooses. A build without the tag failpoint has nothing of
// it.
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

// Arm has the process of this name look at file whenever it reaches a point. The file has a line for each point, as
// "process: point"; they have to be reached in this order, and at the last one the process ends. Without the file
// nothing happens.
func Arm(process, file string) {
	armed.process, armed.file = process, file
}

// Reach marks a point. The process ends here, at once, if it is the one that the file waits for last; the file is gone
// by then.
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
