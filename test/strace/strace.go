// Package strace counts the system calls of processes.
package strace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Count returns how often processes make each system call while do runs. It needs root and Debian's strace, and slows
// the processes down.
func Count(ctx context.Context, pids []int, do func()) (map[int]map[string]int, error) {
	dir, err := os.MkdirTemp("", "strace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var traces []*exec.Cmd
	for _, pid := range pids {
		c := exec.Command("strace", "-f", "-c", "-U", "calls,name", "-o", file(dir, pid), "-p", strconv.Itoa(pid))
		if err = c.Start(); err != nil {
			break
		}
		traces = append(traces, c)
	}
	if err == nil {
		err = attached(ctx, pids)
	}
	if err == nil {
		do()
	}
	for _, c := range traces {
		_ = c.Process.Signal(syscall.SIGINT)
		_ = c.Wait() // it ends by the signal
	}
	if err != nil {
		return nil, err
	}
	return read(dir, pids)
}

func file(dir string, pid int) string { return filepath.Join(dir, strconv.Itoa(pid)) }

// attached waits until strace follows all threads, for a minute.
func attached(ctx context.Context, pids []int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, pid := range pids {
		for free(pid) {
			select {
			case <-ctx.Done():
				return errors.New("strace does not follow process " + strconv.Itoa(pid))
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

// free reports whether a thread of a process is not traced.
func free(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err == nil && strings.Contains(string(status), "\nTracerPid:\t0\n") {
			return true
		}
	}
	return false
}

// read reads the tables that strace wrote. A process without a call has an empty one.
func read(dir string, pids []int) (map[int]map[string]int, error) {
	calls := make(map[int]map[string]int)
	for _, pid := range pids {
		table, err := os.ReadFile(file(dir, pid))
		if err != nil {
			return nil, err
		}
		calls[pid] = make(map[string]int)
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if n, err := strconv.Atoi(f[0]); err == nil && f[1] != "total" {
				calls[pid][f[1]] = n
			}
		}
	}
	return calls, nil
}
