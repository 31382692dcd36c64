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
)

// launch runs the agent's command as the launcher of its session: whatever the agent starts stays below this process, daemons included,
// so that the sidecar sees what belongs to the run; the agent gets no terminal of this process; and nothing of the run outlives it.
func launch(cmd *exec.Cmd, stdout, stderr io.Writer) error {
	if err := errors.Join(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), closeStdin()); err != nil {
		return err
	}
	// Pipes of its own: a terminal would go through to the agent, and could be read from there. They end when the last process ends
	// that has them, and so are not left to os/exec to wait for.
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
		err = cmd.Wait()
		close(done)
		<-reaped // whoever is reaped meanwhile may have given its pid to another process
		err = errors.Join(err, killLeft())
	}
	signal.Stop(ended)
	copied()
	return err
}

// closeStdin takes this process's standard input away, which it does not read: its child has it until it becomes the agent.
func closeStdin() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), 0, 0)
}

// pipes returns a pipe to each writer. copied waits until both have ended.
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

// reap takes the exit status of what the agent left behind, until done.
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

// killTimeout bounds the end of what an agent left behind, which may make new processes meanwhile.
const killTimeout = 5 * time.Second

// killLeft ends what the agent left behind. Children of what has ended become this process's.
func killLeft() error {
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
	return fmt.Errorf("the agent has left processes behind that do not end in %s", killTimeout)
}

// children returns the children of this process.
func children() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/self/task/*/children") // a fixed pattern
	for _, name := range files {
		raw, _ := os.ReadFile(name) // the thread has ended
		for _, field := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
