package isolate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/resolver"
)

const controlFD = 3

// Inside runs the first process in the namespaces. It returns only if [Start] did not start it.
func Inside() error {
	file := os.NewFile(controlFD, "control")
	c, err := net.FileConn(file)
	if err != nil || os.Getpid() != 1 {
		return errors.New("only mediator run uses this command")
	}
	_ = file.Close()
	control := c.(*net.UnixConn)
	orders := json.NewDecoder(control)
	var s setup
	if err := orders.Decode(&s); err != nil {
		unix.Exit(1)
	}
	start, network, err := s.apply()
	if err := answer(control, network, err); err != nil {
		unix.Exit(1)
	}
	if network.resolver != nil {
		go func() { _ = resolver.Serve(network.resolver, tellQuery) }()
	}
	var a Agent
	if err := orders.Decode(&a); err != nil { // the launcher has ended, or has no session
		unix.Exit(1)
	}
	status, err := s.run(a, start, control)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mediator: the agent cannot be started: %v\n", err)
		status = 1
	}
	unix.Exit(status)
	return nil
}

// tellQuery sends a query without an answer to the sidecar, as DNS over TCP, and waits for its record.
func tellQuery(query []byte) {
	c, err := net.DialTimeout("tcp", resolver.Own.String(), tellTimeout)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(tellTimeout))
	size := binary.BigEndian.AppendUint16(nil, uint16(len(query))) //nolint:gosec // of a datagram
	_, _ = c.Write(append(size, query...))
	_, _ = io.Copy(io.Discard, c)
}

const tellTimeout = time.Second

// limits are the errors of a container or a kernel that forbids the setup.
var limits = []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.ENODEV, unix.ENOPROTOOPT}

// answer sends the result of the setup to the launcher. From then on only the launcher has the listener.
func answer(control *net.UnixConn, n network, err error) error {
	r := ready{Transparent: n.resolver != nil}
	var agent *AgentError
	var rights []byte
	switch {
	case errors.As(err, &agent):
		r.Agent = agent.Reason
	case slices.ContainsFunc(limits, func(e unix.Errno) bool { return errors.Is(err, e) }):
		r.Cause = err.Error()
	case err != nil:
		r.Fault = err.Error()
	default:
		rights = unix.UnixRights(int(n.listener.Fd()))
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, _, err = control.WriteMsgUnix(text, rights, nil)
	if n.listener != nil {
		err = errors.Join(err, n.listener.Close())
	}
	return err
}

// start is the agent's program and folder, as pid 1 found them.
type start struct{ program, dir string }

// apply sets up the namespaces, and drops the rights that the agent must not have.
func (s *setup) apply() (begin start, n network, err error) {
	defer unix.Umask(unix.Umask(0o022))
	var all []kept
	var again []string
	for _, step := range []func() error{
		CloseOnExec,
		func() (err error) { n, err = makeNetwork(); return err },
		func() (err error) { again, err = elsewhere(); return err },
		func() (err error) { all, begin, err = s.keepAll(); return errors.Join(err, os.Chdir("/")) },
		func() error { return begin.outside(again) },
		func() error { return hide(all, again, closedAbove(begin.dir), s.Bounds.TempMiB) },
		makeCopies,
		func() error {
			if n.resolver == nil {
				return nil
			}
			return ownResolverFile()
		},
		ownTrust,
		func() error {
			return errors.Join(os.MkdirAll(filepath.Dir(Home), 0o755), os.MkdirAll(Home, 0o700),
				os.Chown(Home, s.UID, s.GID))
		},
		s.Bounds.restrict,
		confine.RestrictAgent,
	} {
		if err := step(); err != nil {
			return start{}, network{}, err
		}
	}
	for _, k := range all {
		_ = k.file.Close()
	}
	return begin, n, nil
}

// outside refuses a program or a folder in one of the folders that are hidden.
func (b start) outside(hidden []string) error {
	for _, path := range []string{b.program, b.dir} {
		if slices.ContainsFunc(hidden, func(dir string) bool { return below(path, dir) }) {
			return &AgentError{path + " is in a folder that shows this machine's processes, sockets or " +
				"temporary files, which an agent cannot see: start mediator run with another one"}
		}
	}
	return nil
}

// keepAll opens the agent's program, its folder and the devices.
func (s *setup) keepAll() ([]kept, start, error) {
	program, err := s.program()
	if err != nil {
		return nil, start{}, err
	}
	// The configured path can lead through a hidden link, so use the resolved one.
	all, begin := []kept{program}, start{program.path, Home}
	k, err := keep(".", s.Dir)
	switch {
	case err == nil && slices.Contains(hidden(), s.Dir) && !isKernels(s.Dir):
		return nil, start{}, &AgentError{"it has its own, empty " + s.Dir +
			": start mediator run in a folder below it, or elsewhere"}
	case err == nil && !isKernels(s.Dir):
		all, begin.dir = append(all, k), s.Dir
	default:
		fmt.Fprintf(os.Stderr, "mediator: the agent's user cannot enter %s; the agent starts in its own %s\n", s.Dir,
			Home)
	}
	for _, name := range devices {
		k, err := resolve(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, start{}, err
		}
		all = append(all, k)
	}
	return all, begin, nil
}

// program opens the program, which the agent's user must be able to execute.
func (s *setup) program() (kept, error) {
	k, err := resolve(s.Program)
	if inside, ok := strings.CutPrefix(s.Program, s.Dir+"/"); ok && errors.Is(err, unix.EACCES) {
		k, err = keep(inside, s.Program) // only folders above this process's are closed
	}
	switch {
	case err == nil && k.dir:
		err = unix.EISDIR
	case err == nil:
		err = unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", k.file.Fd()), unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return kept{}, &AgentError{fmt.Sprintf("the agent's user cannot execute %s: %v", s.Program, err)}
	}
	return k, nil
}

func (b Bounds) restrict() error {
	if err := boundNamespaces(); err != nil { // a security module can deny only this; the run is still isolated
		fmt.Fprintf(os.Stderr, "mediator: the agent can use up this machine's namespaces and watches of files: %v\n",
			err)
	}
	processes := func(uint64) uint64 { return uint64(b.Processes) } //nolint:gosec // a positive number
	return errors.Join(lower(unix.RLIMIT_NPROC, processes),
		lower(unix.RLIMIT_SIGPENDING, sixteenth), lower(unix.RLIMIT_MSGQUEUE, quarter))
}

// lower bounds a resource. The argument of to is the machine's bound.
func lower(resource int, to func(uint64) uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return err
	}
	limit.Max = min(limit.Max, to(limit.Max))
	limit.Cur = limit.Max
	return unix.Setrlimit(resource, &limit)
}

// quarter and sixteenth are one run's part of the kernel's limits for root, which makes all user namespaces. One agent
// could otherwise use them up: others could then watch no files, and without signals no further run could start.
func quarter(of uint64) uint64   { return of / 4 }
func sixteenth(of uint64) uint64 { return of / 16 }

// boundNamespaces bounds the namespaces and watches that the kernel counts for root. /proc/sys/user is of this user
// namespace.
func boundNamespaces() error {
	const namespaces = "256" // of each kind, of which a browser needs a handful
	names, err := filepath.Glob("/proc/sys/user/max_*_namespaces")
	if err == nil && len(names) == 0 {
		err = os.ErrNotExist
	}
	for _, name := range names {
		err = errors.Join(err, os.WriteFile(name, []byte(namespaces), 0))
	}
	names, _ = filepath.Glob("/proc/sys/fs/*notify/max_user_*") // inotify and fanotify; the pattern is valid
	for _, name := range names {
		of, kind := filepath.Base(filepath.Dir(name)), strings.TrimPrefix(filepath.Base(name), "max_user_")
		raw, unread := os.ReadFile(name)
		most, bad := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
		err = errors.Join(err, unread, bad,
			os.WriteFile("/proc/sys/user/max_"+of+"_"+kind, []byte(strconv.FormatUint(quarter(most), 10)), 0))
	}
	return err
}

// run starts the agent, forwards the launcher's request to end, reaps orphans, and waits for the agent's end.
func (s *setup) run(a Agent, begin start, control io.Reader) (status int, err error) {
	if err := os.WriteFile(CAFile, a.CA, 0o644); err != nil { //nolint:gosec // a certificate, which the agent reads
		return 0, err
	}
	if err := os.Chmod(CAFile, 0o644); err != nil { //nolint:gosec // independent of the umask
		return 0, err
	}
	if err := trust(a.CA); err != nil {
		return 0, err
	}
	gitConfig := filepath.Join(Home, ".gitconfig")
	if err := errors.Join(os.WriteFile(gitConfig, a.GitConfig, 0o600), os.Chown(gitConfig, s.UID, s.GID)); err != nil {
		return 0, err
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	if s.UID != os.Getuid() {
		sys.Credential = &syscall.Credential{Uid: uint32(s.UID), Gid: uint32(s.GID)} //nolint:gosec // ids
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	agent, err := syscall.ForkExec(begin.program, a.Args,
		&syscall.ProcAttr{Dir: begin.dir, Env: a.Env, Files: []uintptr{0, 1, 2}, Sys: sys})
	if err != nil {
		return 0, err
	}
	go func() {
		for range end {
			_ = unix.Kill(agent, unix.SIGTERM)
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, control) // ends with the launcher
		unix.Exit(1)
	}()
	for {
		var state unix.WaitStatus
		pid, err := unix.Wait4(-1, &state, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && pid != agent:
		case err != nil:
			return 0, err
		case state.Signaled():
			return 128 + int(state.Signal()), nil
		default:
			return state.ExitStatus(), nil
		}
	}
}
