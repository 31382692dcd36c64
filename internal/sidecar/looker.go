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

// AnswerLooker is the work of the child of the sidecar that looks where the standard input of other processes leads: mediator looker. It alone
// keeps the capabilities that this takes, and with them it can only read links: it opens no file, has no socket and starts nothing.
func AnswerLooker(questions io.Reader, answers io.Writer) error {
	_, err := confine.Apply(confine.Limits{
		Calls:        confine.Looker(),
		Capabilities: []cap.Value{cap.SYS_PTRACE, cap.DAC_READ_SEARCH},
		Landlock:     confine.Off, // which would keep it from every process that it has not started
	})
	if err != nil {
		return refusal.New("not_confined", "nothing looks at standard inputs: %v", err)
	}
	return observe.AnswerStdin(questions, answers)
}

// looker is that child. Its pipes are all that holds it: it ends when this process does.
type looker struct {
	*observe.Looker
	pipes []io.Closer
	ended chan struct{}
}

// startLooker starts the child. It is to be closed.
func startLooker(stderr io.Writer, log *zap.Logger) (*looker, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"mediator", "looker"}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to this process's group are not for it
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
	l := &looker{Looker: observe.NewLooker(questions, answers), pipes: []io.Closer{questions, answers}, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		state, err := cmd.Process.Wait() // not cmd.Wait, which would close the pipes under a question
		if err != nil || !state.Success() {
			log.Error("the process that looks at standard inputs has ended: they are not seen any more", zap.Stringer("state", state), zap.Error(err))
		}
	}()
	return l, nil
}

// Close ends the child.
func (l *looker) Close() error {
	var errs []error
	for _, p := range l.pipes {
		errs = append(errs, p.Close())
	}
	<-l.ended
	return errors.Join(errs...)
}
