package observe

import (
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

// processes reads /proc. It sees its own process namespace and those below.
type processes struct {
	fs     procfs.FS
	path   string
	self   int           // the pid of this process
	looker *LookerClient // looks where this process has no right to; if nil, this process looks itself
}

// openProcesses reads from path, usually /proc. It fails if path does not show every process of this namespace.
func openProcesses(path string) (*processes, error) {
	proc, err := procfs.NewFS(path)
	if err != nil {
		return nil, err
	}
	if self, err := proc.Self(); err != nil || self.PID != os.Getpid() {
		return nil, fmt.Errorf("%s belongs to a process namespace other than this process's", path)
	}
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if hide := m.SuperOptions["hidepid"]; m.FSType == "proc" && m.MountPoint == path && hide != "" && hide != "0" &&
			hide != "off" {
			return nil, fmt.Errorf("%s is mounted with hidepid=%s", path, hide)
		}
	}
	return &processes{fs: proc, path: path, self: os.Getpid()}, nil
}

// id identifies one process for good. A pid can be reused.
type id struct {
	pid   int
	start uint64 // in clock ticks since boot
}

type process struct {
	id
	parent, session int
	threads         int  // those that have not ended; the first one counts also if it has ended
	forked          bool // it has not yet executed a program of its own
	terminal        int  // the device number of its controlling terminal; 0 if it has none
	kernel          bool // it is a thread of the kernel
	headless        bool // its first thread has ended, and others live
	ended           bool // all its threads have ended, but its parent has not read its exit status
	command         string
}

var errGone = errors.New("the process has ended")

func (p *processes) file(id int, name string) (string, error) {
	raw, err := os.ReadFile(p.path + "/" + strconv.Itoa(id) + "/" + name)
	return string(raw), orGone(err)
}

// Fields of /proc/PID/stat behind the command, in parentheses (proc_pid_stat(5)).
const (
	statState   = 0
	statParent  = 1
	statSession = 3
	statTTY     = 4
	statFlags   = 6
	statThreads = 17
	statStart   = 19
)

func (p *processes) read(pid int) (process, error) {
	stat, err := p.file(pid, "stat")
	if err != nil {
		return process{}, err
	}
	begin, end := strings.Index(stat, "("), strings.LastIndex(stat, ")") // a command can hold both
	fields := strings.Fields(stat[max(end, 0)+min(1, len(stat)):])
	if begin < 0 || end < begin || len(fields) <= statStart {
		return process{}, fmt.Errorf("%s/%d/stat is incomplete", p.path, pid)
	}
	number := func(field int) int {
		n, bad := strconv.Atoi(fields[field])
		err = errors.Join(err, bad)
		return n
	}
	flags := number(statFlags)
	q := process{
		id:     id{pid, uint64(number(statStart))}, //nolint:gosec // a time since boot
		parent: number(statParent), session: number(statSession), threads: number(statThreads),
		terminal: number(statTTY), forked: flags&forkNoExec != 0, kernel: flags&kernelThread != 0,
		command: printable(stat[begin+1 : end]),
	}
	// The state belongs to the first thread. While others live, so does the process.
	first := fields[statState] == "Z" || fields[statState] == "X"
	q.headless, q.ended = first && q.threads > 1, first && q.threads <= 1
	return q, err
}

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

type status struct {
	tid    int
	tgid   int      // of its process
	tracer int      // the thread that traces it; 0 if none does
	users  []uint32 // real, effective, saved, of the file system
	groups []uint32 // likewise, and the supplementary ones
	pids   []int    // its own in each process namespace, from that of this process down
	// filters is the number of its seccomp filters, of which a process and its children never lose one
	filters int
}

func (p *processes) status(tid int) (status, error) {
	s := status{tid: tid}
	raw, err := p.file(tid, "status")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(raw) {
		name, value, _ := strings.Cut(line, ":")
		var err error
		switch name {
		case "Tgid":
			s.tgid, err = strconv.Atoi(strings.TrimSpace(value))
		case "TracerPid":
			s.tracer, err = strconv.Atoi(strings.TrimSpace(value))
		case "Uid":
			s.users, err = ids(s.users, value)
		case "Gid", "Groups":
			s.groups, err = ids(s.groups, value)
		case "NSpid":
			for _, f := range strings.Fields(value) {
				id, bad := strconv.Atoi(f)
				s.pids, err = append(s.pids, id), errors.Join(err, bad)
			}
		case "Seccomp_filters":
			s.filters, err = strconv.Atoi(strings.TrimSpace(value))
		}
		if err != nil {
			return s, err
		}
	}
	if len(s.pids) == 0 {
		return s, fmt.Errorf("%s/%d/status is incomplete", p.path, tid)
	}
	return s, nil
}

func ids(to []uint32, line string) ([]uint32, error) {
	for _, f := range strings.Fields(line) {
		id, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, err
		}
		to = append(to, uint32(id))
	}
	return to, nil
}

// statuses reads the status file of each living thread of a process. The files of a first thread that has ended do not
// describe the others.
func (p *processes) statuses(q process) ([]status, error) {
	tids := []int{q.pid}
	if q.threads > 1 {
		entries, err := os.ReadDir(filepath.Join(p.path, strconv.Itoa(q.pid), "task"))
		if err != nil {
			return nil, orGone(err)
		}
		tids = tids[:0]
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				return nil, err
			}
			tids = append(tids, tid)
		}
	}
	var out []status
	for _, tid := range tids {
		s, err := p.status(tid)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// roots maps processes to their runs: first the roots of the runs, then every process that was found below them. A
// process never leaves its run. So of follows no part of a chain of parents twice, even if an agent makes it long.
type roots map[id][]*Run

// of finds the runs of a process. It calls parent for each process above it. whole is false if a parent has ended, or
// its pid belongs to a younger process.
func (r roots) of(q process, parent func(pid int) (process, error)) (runs []*Run, whole bool) {
	var way []id
	for range maxLineage {
		if runs := r[q.id]; runs != nil {
			for _, id := range way {
				r[id] = runs
			}
			return runs, true
		}
		if q.parent == 0 { // the first process of the namespace, or one that entered it from outside
			return nil, true
		}
		way = append(way, q.id)
		p, err := parent(q.parent)
		if err != nil || p.start > q.start {
			return nil, false
		}
		q = p
	}
	return nil, true
}

// maxLineage bounds a chain of parents, and lineageReads the attempts to read a broken one.
const (
	maxLineage   = 1 << 15
	lineageReads = 20
)

// read finds the runs of a process. It reads the process and its parents again, because readAll can miss parents that
// end meanwhile. A process whose chain breaks each time belongs to no run.
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

// printable replaces everything but plain ASCII in a command's name, which the process chooses: no control characters
// may get into a log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}
