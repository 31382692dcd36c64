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

// question asks the looker about another process. Only a process that may trace the other can see its standard input
// and its namespaces. A process that faces the network should not have that right, and loses it under Landlock. So the
// looker is a process of its own. The question's integers and the answer, an int64, hold nothing that a process
// chooses.
type question struct {
	What int32 // askStdin, or an index of namespaces
	ID   int32 // of the thread
}

const askStdin int32 = -1

// namespaces are the namespaces of an isolated run, as named in /proc/PID/ns.
var namespaces = []string{"user", "pid", "mnt", "ipc", "net"}

const pidNamespace = 1 // its index

// The answers about standard input: noTerminal, or ownedBy plus the owner of the terminal. For a namespace the answer
// is its number, for a failure a negative error number.
const (
	noTerminal int64 = 0
	ownedBy    int64 = 1
)

// ServeLooker answers questions until questions ends.
func ServeLooker(questions io.Reader, answers io.Writer) error {
	for {
		var q question
		if err := binary.Read(questions, binary.LittleEndian, &q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("observe: read a question: %w", err)
		}
		if err := binary.Write(answers, binary.LittleEndian, q.answer("/proc")); err != nil {
			return fmt.Errorf("observe: write an answer: %w", err)
		}
	}
}

func (q question) answer(proc string) int64 {
	got, err := q.look(proc)
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return -int64(errno)
	case err != nil:
		return -int64(syscall.EIO)
	}
	return got
}

func (q question) look(proc string) (int64, error) {
	dir := proc + "/" + strconv.Itoa(int(q.ID))
	if q.What >= 0 && int(q.What) < len(namespaces) {
		link, err := os.Readlink(dir + "/ns/" + namespaces[q.What])
		if err != nil {
			return 0, err
		}
		_, number, _ := strings.Cut(strings.TrimSuffix(link, "]"), ":[")
		return strconv.ParseInt(number, 10, 64)
	}
	stdin, err := os.Readlink(dir + "/fd/0")
	if err != nil || !strings.HasPrefix(stdin, "/dev/pts/") && !strings.HasPrefix(stdin, "/dev/tty") &&
		stdin != "/dev/console" {
		return noTerminal, err
	}
	var s syscall.Stat_t
	if err := syscall.Stat(dir+"/fd/0", &s); err != nil {
		return 0, err
	}
	return ownedBy + int64(s.Uid), nil
}

// LookerClient asks the process that runs [ServeLooker]. It is safe for concurrent use.
type LookerClient struct {
	mu        sync.Mutex // held from a question to its answer
	questions io.Writer
	answers   io.Reader
	gone      error // after a question without an answer, all others fail too
}

// NewLookerClient returns a client that writes to questions and reads from answers.
func NewLookerClient(questions io.Writer, answers io.Reader) *LookerClient {
	return &LookerClient{questions: questions, answers: answers}
}

func (l *LookerClient) ask(q question) (got int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == nil {
		err := binary.Write(l.questions, binary.LittleEndian, q)
		if err == nil {
			err = binary.Read(l.answers, binary.LittleEndian, &got)
		}
		if err != nil {
			l.gone = fmt.Errorf("the process that looks at other processes does not answer: %w", err)
		}
	}
	return got, l.gone
}

// ask asks the looker, or this process itself if there is none. For a process that has ended it returns errGone.
func (p *processes) ask(what int32, id int) (got int64, err error) {
	q := question{what, int32(id)} //nolint:gosec // a pid is at most 2^22
	if p.looker != nil {
		got, err = p.looker.ask(q)
	} else {
		got = q.answer(p.path)
	}
	if err == nil && got < 0 {
		of := "fd/0"
		if what >= 0 {
			of = "ns/" + namespaces[what]
		}
		err = &os.PathError{Op: "readlink", Path: fmt.Sprintf("/proc/%d/%s", id, of), Err: syscall.Errno(-got)}
	}
	if errors.Is(err, syscall.EACCES) { // also the kernel's error for a process that ends meanwhile
		if _, gone := p.file(id, "stat"); errors.Is(gone, errGone) {
			err = errGone
		}
	}
	return got, orGone(err)
}

// terminal returns the owner of the terminal that is a thread's standard input. errGone is the error for a closed
// standard input, and for a thread that has ended.
func (p *processes) terminal(tid int) (owner uint32, is bool, err error) {
	got, err := p.ask(askStdin, tid)
	return uint32(got - ownedBy), err == nil && got != noTerminal, err //nolint:gosec // a user
}
