package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/isolate"
)

// runProcess runs the agent's command without a terminal, and finally kills its remaining processes. This process
// becomes a subreaper, so that everything that the agent starts stays below it, where the sidecar can see it.
func runProcess(cmd *exec.Cmd, stdout, stderr io.Writer) error {
	if err := errors.Join(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), closeStdin()); err != nil {
		return err
	}
	// The agent writes to pipes, because it could read from a terminal that is its output. os/exec would wait for every
	// process that holds a pipe, even one left behind.
	out, copied, err := pipes(stdout, stderr)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out[0], out[1]
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	err = cmd.Start()
	_ = out[0].Close()
	_ = out[1].Close()
	if err == nil {
		done, reaped := make(chan struct{}), make(chan struct{})
		go func() {
			reap(ended, done, cmd.Process.Pid)
			close(reaped)
		}()
		err = isolate.Wait(cmd)
		close(done)
		<-reaped // reap frees pids that new processes could get before killOrphans kills them
		err = errors.Join(err, killOrphans())
	}
	signal.Stop(ended)
	copied()
	return err
}

// closeStdin replaces the standard input of this process by /dev/null: a child has it until it executes the agent.
func closeStdin() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), 0, 0)
}

// pipes returns a pipe to each writer. copied waits until all pipes have ended.
func pipes(to ...io.Writer) (ends []*os.File, copied func(), err error) {
	done := make(chan struct{}, len(to))
	for _, w := range to {
		r, end, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		ends = append(ends, end)
		go func() {
			_, _ = io.Copy(w, r)
			_ = r.Close()
			done <- struct{}{}
		}()
	}
	return ends, func() {
		for range to {
			<-done
		}
	}, nil
}

// reap collects the exit status of orphans until done is closed.
func reap(ended <-chan os.Signal, done <-chan struct{}, agent int) {
	for {
		select {
		case <-done:
			return
		case <-ended:
		}
		for _, pid := range children() {
			if pid != agent {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
	}
}

// killTimeout bounds killOrphans: processes can start new ones meanwhile.
const killTimeout = 5 * time.Second

// killOrphans kills the processes that the agent left behind. The children of a killed process become this one's, so it
// repeats until there are none.
func killOrphans() error {
	for began := time.Now(); time.Since(began) < killTimeout; {
		left := children()
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("the agent has left process %d behind: %w", pid, err)
			}
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
	return fmt.Errorf("the agent has left processes behind that did not end within %s", killTimeout)
}

func children() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is valid
	for _, name := range files {
		raw, _ := os.ReadFile(name) // fails if the thread has ended
		for _, field := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
