// Package isolate runs an agent in its own namespaces: other users of the machine cannot reach it, and it reaches
// others only through one listener. The launcher (isolate.go) makes the namespaces. Their first process, pid 1
// (inside.go), sets them up, starts the agent and ends with it.
//
// Both talk over a pair of sockets: the launcher sends the setup, pid 1 answers with the listener or an error, and the
// launcher sends the agent. When pid 1 ends, the kernel kills everything else in the namespaces. When the launcher
// ends, the kernel kills pid 1.
package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the hidden command of this program that runs [Inside].
const Command = "inside"

// Home is the private home folder of an isolated agent, and Temp its private folder for temporary files.
const (
	Home = "/run/agent/home"
	Temp = "/tmp"
)

// CAFile is where an isolated agent finds the certificate of the interception CA.
const CAFile = "/run/agent/ca.pem"

// Options say how to isolate which agent. It starts in this process's current folder, if its user can enter that.
type Options struct {
	Users   Users
	Program string // its absolute path
	Bounds  Bounds
	// Stdout and Stderr get the agent's output. The agent writes to pipes, because it could read from a terminal.
	Stdout, Stderr io.Writer
}

// Bounds bound the agent's use of the machine. Each must be set, Processes to at least 32.
type Bounds struct {
	Processes int `json:"processes"` // processes and threads at once
	TempMiB   int `json:"tempMiB"`   // all private folders together, which are in memory
}

// DefaultBounds are enough for a browser, or for the packages of a large build.
var DefaultBounds = Bounds{Processes: 4096, TempMiB: 1024}

// Agent is the agent to start.
type Agent struct {
	Args      []string `json:"args"`
	Env       []string `json:"env"`
	CA        []byte   `json:"ca"`        // the content of CAFile
	GitConfig []byte   `json:"gitConfig"` // the content of .gitconfig in Home
}

// Place is a set of namespaces that waits for its agent.
type Place struct {
	Init int // the pid of its first process
	// Listener is the one way out of the place's network. Only the launcher has it, so all its
	// connections come from this place.
	Listener *os.File
	// Transparent: all names resolve, and the kernel leads all TCP connections to Listener. Otherwise only clients that
	// use ListenAddress as their proxy reach it.
	Transparent bool

	cmd     *exec.Cmd
	control *net.UnixConn
}

// AgentError says why an agent cannot run in any place: its program or its folder is unfit.
type AgentError struct{ Reason string }

func (e *AgentError) Error() string { return e.Reason }

type setup struct {
	Program string `json:"program"`
	Dir     string `json:"dir"` // pid 1 starts in it
	Bounds  Bounds `json:"bounds"`
	UID     int    `json:"uid"` // of the agent, as numbered in its user namespace
	GID     int    `json:"gid"`
}

// ready is the answer of pid 1, with the listener. At most one error is set.
type ready struct {
	Cause string `json:"cause,omitempty"` // why namespaces cannot be used here
	Fault string `json:"fault,omitempty"` // what else went wrong
	Agent string `json:"agent,omitempty"` // why this agent cannot run here

	Transparent bool `json:"transparent"` // see Place
}

const (
	answerTimeout = 20 * time.Second // for pid 1 to set the namespaces up
	answerSize    = 16 << 10
	killDelay     = 5 * time.Second // between a request to end and the kill
)

// Start makes a place, or fails with an [AgentError] or [UnavailableError]. When ctx ends, SIGTERM and SIGKILL follow.
func Start(ctx context.Context, o Options) (*Place, error) {
	dir, err := unix.Getwd()
	if err != nil {
		return nil, fmt.Errorf("the current folder: %w", err)
	}
	if at, err := filepath.EvalSymlinks(o.Program); err == nil { // the agent's user may be unable to follow its links
		o.Program = at
	}
	const tries = 10
	for range tries {
		attributes, inner, err := o.Users.attributes()
		if err != nil {
			return nil, err
		}
		p, err := o.begin(ctx, attributes)
		if err != nil {
			return nil, err
		}
		switch alone, err := o.Users.alone(attributes, p.Init); {
		case err != nil:
			p.Close()
			return nil, err
		case !alone:
			p.Close()
			continue
		}
		if err = p.prepare(setup{o.Program, dir, o.Bounds, inner.UID, inner.GID}); err != nil {
			p.Close()
			return nil, err
		}
		return p, nil
	}
	return nil, fmt.Errorf("other runs took the same user ids %d times", tries)
}

// begin starts pid 1, which waits for its setup.
func (o Options) begin(ctx context.Context, attributes *syscall.SysProcAttr) (*Place, error) {
	attributes.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWNET
	attributes.Setsid, attributes.Pdeathsig = true, syscall.SIGKILL
	control, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{"mediator", Command}
	cmd.Env = []string{"GOMAXPROCS=1"} // few threads, because they can count as the agent's
	cmd.Stdout, cmd.Stderr = pipe{o.Stdout}, pipe{o.Stderr}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = attributes
	cmd.Cancel = func() error { // without WaitDelay, which would cut the output for a slow reader
		time.AfterFunc(killDelay, func() { _ = cmd.Process.Kill() })
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	if err := cmd.Start(); err != nil {
		_ = control.Close()
		return nil, startCause(err)
	}
	return &Place{Init: cmd.Process.Pid, cmd: cmd, control: control}, nil
}

// pipe hides the type of a writer from os/exec, which would hand a file directly to the agent.
type pipe struct{ io.Writer }

// UnavailableError says why this machine or container allows no namespaces.
type UnavailableError struct{ Cause string }

func (e *UnavailableError) Error() string { return e.Cause }

func startCause(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return unavailable("new user namespaces are not permitted here (EPERM): by the container's seccomp profile, " +
			"by a security module, or because the users of this container are too few")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		if none := forbiddenKind(); none != "" {
			return unavailable("this machine allows no such namespaces: see sysctl user.%s", none)
		}
		// Not an UnavailableError: an agent that takes all namespaces must not make the next run start without them.
		return errors.New("the machine's limit of namespaces is reached: end processes that made them, or raise sysctl " +
			"user.max_user_namespaces and similar limits")
	case errors.Is(err, unix.EACCES):
		return unavailable("the agent's user cannot execute the mediator's own program")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return unavailable("this kernel cannot make the namespaces: %v", err)
	}
	return fmt.Errorf("the namespaces cannot be made: %w", err)
}

// forbiddenKind returns the name of a sysctl that forbids one kind of namespaces, or an empty text.
func forbiddenKind() string {
	for _, kind := range []string{"user", "pid", "mnt", "ipc", "uts", "net"} {
		name := "max_" + kind + "_namespaces"
		if raw, err := os.ReadFile("/proc/sys/user/" + name); err == nil && strings.TrimSpace(string(raw)) == "0" {
			return name
		}
	}
	return ""
}

func unavailable(format string, args ...any) error {
	return &UnavailableError{fmt.Sprintf(format, args...)}
}

// prepare makes pid 1 set up the namespaces, and takes its listener.
func (p *Place) prepare(s setup) error {
	if err := p.control.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if err := json.NewEncoder(p.control).Encode(s); err != nil {
		return fmt.Errorf("the first process in the namespaces does not listen: %w", err)
	}
	text, rights := make([]byte, answerSize), make([]byte, unix.CmsgSpace(4))
	n, rightsN, _, _, err := p.control.ReadMsgUnix(text, rights)
	if err != nil || n == 0 {
		return errors.New("the first process in the namespaces has ended before it answered")
	}
	listener, err := descriptorOf(rights[:rightsN])
	if err != nil {
		return err
	}
	var r ready
	switch err := json.Unmarshal(text[:n], &r); {
	case err != nil:
		return err
	case r.Cause != "":
		return &UnavailableError{r.Cause}
	case r.Fault != "":
		return errors.New(r.Fault)
	case r.Agent != "":
		return &AgentError{r.Agent}
	case listener == nil:
		return errors.New("the first process in the namespaces has made no listener")
	}
	p.Listener, p.Transparent = listener, r.Transparent
	return p.control.SetDeadline(time.Time{})
}

// Run starts the agent and waits for its end. If the agent fails, the error is an [*exec.ExitError] with its status, or
// 128 plus the number of the signal that ended it.
func (p *Place) Run(a Agent) error {
	if err := json.NewEncoder(p.control).Encode(a); err != nil {
		p.Close()
		return fmt.Errorf("the first process in the namespaces has ended: %w", err)
	}
	err := Wait(p.cmd)
	_ = p.control.Close()
	return err
}

// Wait waits for the end of an agent. An agent that ends with success after a request to end has not failed.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if cmd.ProcessState.Success() && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Close ends a place whose agent was not started.
func (p *Place) Close() {
	if p.Listener != nil {
		_ = p.Listener.Close()
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.control.Close()
}

func socketPair() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours := os.NewFile(uintptr(pair[0]), "control")
	defer ours.Close()
	theirs := os.NewFile(uintptr(pair[1]), "control")
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return c.(*net.UnixConn), theirs, nil
}

func descriptorOf(rights []byte) (*os.File, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "listener"), nil
}
