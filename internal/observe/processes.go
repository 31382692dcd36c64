package observe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// Flags of a process (include/linux/sched.h).
const (
	forkNoExec   = 0x00000040 // PF_FORKNOEXEC: it has not yet executed a program of its own
	kernelThread = 0x00200000 // PF_KTHREAD
)

// processes reads /proc. It sees the processes of its own process namespace and of those below it.
type processes struct {
	fs     procfs.FS
	path   string
	looker *StdinClient // reads standard inputs; if nil, this process reads them itself
}

// openProcesses reads from path, usually /proc. It fails if path does not show every process of this namespace.
func openProcesses(path string) (*processes, error) {
	proc, err := procfs.NewFS(path)
	if err != nil {
		return nil, err
	}
	if self, err := proc.Self(); err != nil || self.PID != os.Getpid() {
		return nil, fmt.Errorf("%s is of another process namespace than this process", path)
	}
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if hide := m.SuperOptions["hidepid"]; m.FSType == "proc" && m.MountPoint == path && hide != "" && hide != "0" && hide != "off" {
			return nil, fmt.Errorf("%s is mounted with hidepid=%s", path, hide)
		}
	}
	return &processes{fs: proc, path: path}, nil
}

// id identifies one process for good. A pid alone may belong to another process by now.
type id struct {
	pid   int
	start uint64 // in clock ticks since boot
}

// process is what the kernel says about one process.
type process struct {
	id
	parent, session int
	forked          bool // it has not yet executed a program of its own
	terminal        bool // it has a controlling terminal
	kernel          bool // it is a thread of the kernel
	ended           bool // its parent has not read its exit status yet
	command         string
}

// errGone is the error for a process that has ended.
var errGone = errors.New("the process has ended")

// read reads one process.
func (p *processes) read(pid int) (process, error) {
	proc, err := p.fs.Proc(pid)
	if err != nil {
		return process{}, orGone(err)
	}
	s, err := proc.Stat()
	if err != nil {
		return process{}, orGone(err)
	}
	return process{
		id: id{pid, s.Starttime}, parent: s.PPID, session: s.Session, forked: s.Flags&forkNoExec != 0, terminal: s.TTY != 0,
		kernel: s.Flags&kernelThread != 0, ended: s.State == "Z" || s.State == "X", command: printable(s.Comm),
	}, nil
}

// readAll reads every process and returns them by pid. It skips processes that end meanwhile.
func (p *processes) readAll() (map[int]process, error) {
	procs, err := p.fs.AllProcs()
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(procs))
	for _, proc := range procs {
		q, err := p.read(proc.PID)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[q.pid] = q
	}
	return all, nil
}

// status is what the status file of a process says about its users (real, effective, saved, of the file system) and
// whether it is traced.
type status struct {
	users  []string
	traced bool
}

// status reads a status file: of a process, by its pid, or of a thread, by PID/task/TID.
func (p *processes) status(of string) (status, error) {
	var s status
	raw, err := os.ReadFile(filepath.Join(p.path, of, "status"))
	if err != nil {
		return s, orGone(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ":"); name {
		case "TracerPid":
			s.traced = strings.TrimSpace(value) != "0"
		case "Uid": // it follows TracerPid
			s.users = strings.Fields(value)
			return s, nil
		}
	}
	return s, fmt.Errorf("%s/%s/status lacks its users", p.path, of)
}

// traced reports whether any thread of a process is traced.
func (p *processes) traced(q process) (bool, error) {
	dir := filepath.Join(strconv.Itoa(q.pid), "task")
	threads, err := os.ReadDir(filepath.Join(p.path, dir))
	if err != nil {
		return false, orGone(err)
	}
	for _, t := range threads {
		s, err := p.status(filepath.Join(dir, t.Name()))
		if err != nil && !errors.Is(err, errGone) {
			return false, err
		}
		if s.traced {
			return true, nil
		}
	}
	return false, nil
}

// readsTerminal reports whether a process's standard input is a terminal.
func (p *processes) readsTerminal(q process) (bool, error) {
	if p.looker != nil {
		return p.looker.ReadsTerminal(q.pid)
	}
	terminal, err := stdinIsTerminal(p.path, q.pid)
	return terminal, orGone(err) // gone also stands for a closed standard input
}

// roots maps the launchers of runs to their runs.
type roots map[id][]*Run

// of finds the runs that a process belongs to. It calls parent for each process above it. whole reports whether the
// chain of parents is complete. A chain breaks if a parent has ended or if its pid belongs to a younger process; a
// broken chain shows nothing.
func (r roots) of(q process, parent func(pid int) (process, error)) (runs []*Run, whole bool) {
	for range maxLineage {
		if runs, ok := r[q.id]; ok {
			return runs, true
		}
		if q.parent == 0 { // the first process of the namespace, or one that entered it from outside
			return nil, true
		}
		p, err := parent(q.parent)
		if err != nil || p.start > q.start {
			return nil, false
		}
		q = p
	}
	return nil, true
}

// maxLineage bounds a chain of parents, and lineageReads bounds how often a broken chain is read again.
const (
	maxLineage   = 1 << 15
	lineageReads = 20
)

// read finds the runs that a process belongs to by reading it and its parents now. Processes end while readAll runs, so
// its chains of parents can lack one. A process whose chain breaks every time belongs to no run.
func (r roots) read(p *processes, q process) ([]*Run, error) {
	for range lineageReads {
		now, err := p.read(q.pid)
		if err == nil && now.id != q.id {
			err = errGone
		}
		if err != nil {
			return nil, err
		}
		if runs, whole := r.of(now, p.read); whole {
			return runs, nil
		}
	}
	return nil, nil
}

func orGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return errGone
	}
	return err
}

// printable replaces all but plain ASCII in the name of a command. The process chooses this name, and must not write
// control characters into a log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}
