package sidecar

import (
	"errors"
	"io"
	"os/exec"
	"syscall"

	"go.uber.org/zap"
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
)

// ServeLooker reports the standard input and the namespaces of processes to the sidecar. It runs in a child, mediator
// looker, which alone keeps the capabilities for that. The child opens no file, has no socket and starts nothing.
func ServeLooker(questions io.Reader, answers io.Writer) error {
	_, err := confine.Apply(confine.Limits{
		Syscalls:     confine.LookerSyscalls(),
		Capabilities: []cap.Value{cap.SYS_PTRACE, cap.DAC_READ_SEARCH},
		Landlock:     confine.Off, // Landlock would hide every process that the child has not started
	})
	if err != nil {
		return refusal.New("not_confined", "the agents' processes are not observed: %v", err)
	}
	return observe.ServeLooker(questions, answers)
}

// looker is the child. It ends when its pipes are closed, so at the latest with this process.
type looker struct {
	*observe.LookerClient
	pipes []io.Closer
	ended chan struct{}
}

func startLooker(stderr io.Writer, log *zap.Logger) (*looker, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"mediator", "looker"}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to this process's group must not reach it
	cmd.Env = []string{}
	questions, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, questions.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, questions.Close(), answers.Close())
	}
	l := &looker{LookerClient: observe.NewLookerClient(questions, answers), pipes: []io.Closer{questions, answers},
		ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		state, err := cmd.Process.Wait() // cmd.Wait would close the pipes during a question
		if err != nil || !state.Success() {
			log.Error("the looker has ended: standard inputs and namespaces of agents are no longer observed",
				zap.Stringer("state", state), zap.Error(err))
		}
	}()
	return l, nil
}

func (l *looker) Close() error {
	var errs []error
	for _, p := range l.pipes {
		errs = append(errs, p.Close())
	}
	<-l.ended
	return errors.Join(errs...)
}
