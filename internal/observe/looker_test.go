package observe_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/test/check"
)

// TestLooker asks for the standard input of processes.
func TestLooker(t *testing.T) {
	questions, asked := io.Pipe()
	answered, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- observe.ServeLooker(questions, answers) }()
	l := observe.NewLookerClient(asked, answered)

	plain := exec.Command("sleep", "60")
	check.Must(t, plain.Start())
	defer func() { _ = plain.Process.Kill(); _ = plain.Wait() }()
	if terminal, err := l.ReadsTerminal(plain.Process.Pid); terminal || err != nil {
		t.Errorf("a process without a terminal: %t, %v", terminal, err)
	}
	script, _ := start(t, nil, "script", "-qc", "echo ready; exec sleep 1000", "/dev/null")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", script.Process.Pid))
	check.Must(t, err)
	pty, err := strconv.Atoi(strings.TrimSpace(string(children)))
	check.Must(t, err)
	if terminal, err := l.ReadsTerminal(pty); !terminal || err != nil {
		t.Errorf("a process on a terminal: %t, %v", terminal, err)
	}
	if _, err := l.ReadsTerminal(1 << 30); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a process that is not there: %v", err)
	}
	asked.Close()
	if err := <-ended; err != nil {
		t.Errorf("the answers ended with %v", err)
	}
	answers.Close()
	for range 2 {
		if _, err := l.ReadsTerminal(os.Getpid()); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("without a looker: %v", err)
		}
	}
}

// About a process that ends while it is looked at the kernel says EACCES. Otherwise an agent that starts many short
// processes would have the sidecar say of every run that it could not be observed.
func TestLookerAtTheEnd(t *testing.T) {
	questions, asked := io.Pipe()
	answered, answers := io.Pipe()
	defer asked.Close()
	go func() {
		var question [8]byte
		for _, err := io.ReadFull(questions, question[:]); err == nil; _, err = io.ReadFull(questions, question[:]) {
			_ = binary.Write(answers, binary.LittleEndian, -int64(syscall.EACCES))
		}
	}()
	l := observe.NewLookerClient(asked, answered)
	if _, err := l.ReadsTerminal(1 << 30); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a process that is not there any more: %v", err)
	}
	if _, err := l.ReadsTerminal(os.Getpid()); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a process that is there: %v", err)
	}
}
