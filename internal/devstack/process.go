package devstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/admin"
)

// Process is a process of the stack.
type Process struct {
	Name, Endpoint string
	Cmd            *exec.Cmd
	Done           chan struct{} // closed once it has ended
	Err            error         // valid once Done is closed
}

// StartProcess starts one process. Its log is a file in the stack's folder.
func (s *Stack) StartProcess(name, file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &Process{Name: name, Endpoint: "unix:" + s.Socket(name), Done: make(chan struct{})}
	p.Cmd = exec.Command(self, name, "--config", filepath.Join(s.Dir, file)) //nolint:gosec // this program itself
	p.Cmd.Stdout, p.Cmd.Stderr = log, log
	if name != "serve" { // a post uses the others one after the other
		p.Cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	s.Processes = append(s.Processes, p)
	go func() {
		p.Err = p.Cmd.Wait()
		close(p.Done)
		select {
		case s.ended <- struct{}{}:
		default: // Wait will see this one too
		}
	}()
	return nil
}

// WaitFor asks a process for path until it answers with success.
func (s *Stack) WaitFor(ctx context.Context, p *Process, path string) error {
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := admin.Get(ctx, p.Endpoint, path, nil)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done:
			return s.ExitError(p)
		case <-ctx.Done():
			return fmt.Errorf("mediator %s did not get ready in %s: %w\n%s", p.Name,
				time.Since(began).Round(time.Second), err, s.endOfLog(p))
		case <-tick.C:
		}
	}
}

// ExitError returns the error for a process that ended by itself, with the end of its log.
func (s *Stack) ExitError(p *Process) error {
	log := s.endOfLog(p)
	how := "it was not told to"
	if p.Err != nil {
		how = p.Err.Error() + ", and " + how
	}
	return fmt.Errorf("mediator %s ended (%s)%s\n%s", p.Name, how, lastWords(log), log)
}

func (s *Stack) endOfLog(p *Process) string {
	file := filepath.Join(s.Dir, p.Name+".log")
	raw, err := os.ReadFile(file)
	if err == nil && len(raw) == 0 {
		return "Its log, " + file + ", is empty: is the disk full?"
	}
	return fmt.Sprintf("The end of its log, %s:\n%s", file, raw[max(0, len(raw)-2000):])
}

// lastWords returns the error with which a process ended, to put before its log.
func lastWords(log string) (said string) {
	for line := range strings.Lines(log) {
		if why, ok := strings.CutPrefix(line, "mediator: "); ok {
			said = ": " + strings.TrimSpace(why)
		}
	}
	return said
}
