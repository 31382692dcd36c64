package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A process that wants to see where another process's standard input leads needs the right to trace it. A process that
// faces the network should not have this right, and loses it under Landlock. It asks a Looker, which talks to a process
// that does nothing else. A question is a pid. An answer is one of these values or a negative error number. Each is an
// int32 in little-endian order, so that neither holds anything that a process chooses.
const (
	noTerminal int32 = iota
	aTerminal
)

// ServeStdin answers questions until questions ends.
func ServeStdin(questions io.Reader, answers io.Writer) error {
	for {
		var pid int32
		if err := binary.Read(questions, binary.LittleEndian, &pid); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("observe: read a question: %w", err)
		}
		if err := binary.Write(answers, binary.LittleEndian, answer(pid)); err != nil {
			return fmt.Errorf("observe: write an answer: %w", err)
		}
	}
}

func answer(pid int32) int32 {
	terminal, err := stdinIsTerminal("/proc", int(pid))
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return -int32(errno)
	case err != nil:
		return -int32(syscall.EIO)
	case terminal:
		return aTerminal
	}
	return noTerminal
}

func stdinIsTerminal(proc string, pid int) (bool, error) {
	stdin, err := os.Readlink(proc + "/" + strconv.Itoa(pid) + "/fd/0")
	return strings.HasPrefix(stdin, "/dev/pts/") || strings.HasPrefix(stdin, "/dev/tty") || stdin == "/dev/console", err
}

// StdinClient asks the process that runs [ServeStdin]. It is safe for concurrent use.
type StdinClient struct {
	mu        sync.Mutex // held from a question to its answer
	questions io.Writer
	answers   io.Reader
	gone      error // after a question without an answer, all others fail too
}

// NewStdinClient returns a client that writes to questions and reads from answers.
func NewStdinClient(questions io.Writer, answers io.Reader) *StdinClient {
	return &StdinClient{questions: questions, answers: answers}
}

// ReadsTerminal reports whether a process's standard input is a terminal.
func (l *StdinClient) ReadsTerminal(pid int) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var got int32
	if l.gone == nil {
		err := binary.Write(l.questions, binary.LittleEndian, int32(pid)) //nolint:gosec // a pid is at most 2^22
		if err == nil {
			err = binary.Read(l.answers, binary.LittleEndian, &got)
		}
		if err != nil {
			l.gone = fmt.Errorf("the process that looks at standard inputs does not answer: %w", err)
		}
	}
	switch {
	case l.gone != nil:
		return false, l.gone
	case got < 0:
		return false, orGone(&os.PathError{Op: "readlink", Path: fmt.Sprintf("/proc/%d/fd/0", pid), Err: syscall.Errno(-got)})
	}
	return got == aTerminal, nil
}
