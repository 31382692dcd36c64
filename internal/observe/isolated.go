package observe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Launch describes the start of a run.
type Launch struct {
	PID int    // of the launcher, as the kernel names it (SO_PEERCRED)
	UID uint32 // of the launcher, likewise
	// Init is the first process in the run's namespaces, by the launcher's word; 0 if there is none.
	Init int
	// Listener is the inode of the socket for the run's connections; 0 if the run has no network of its own.
	Listener uint64
}

type isolation struct {
	ids     idRange // of its users and groups
	pidNS   int64
	filters int // seccomp filters of its first process, and so of all that the agent starts
}

type idRange struct{ first, size uint64 }

func (r idRange) has(id uint32) bool { return uint64(id) >= r.first && uint64(id) < r.first+r.size }

// isolated verifies with the kernel that only root can enter a run: the first process in its namespaces is the child of
// root's launcher, its namespaces differ from this process's, its users are its own, and its connections come from its
// own network. The error says why the run is not isolated.
func (p *processes) isolated(l Launch, launcher process, all map[int]process) (*isolation, error) {
	switch {
	case l.Init == 0:
		return nil, errors.New("its agent has no namespaces of its own")
	case l.UID != 0:
		return nil, errors.New("its launcher is not root, so everybody with the launcher's user can enter it")
	case l.Listener == 0:
		return nil, errors.New("it shares the network of its launcher")
	}
	first, ok := all[l.Init]
	if !ok || first.parent != launcher.pid || first.ended {
		return nil, errors.New("the first process in its namespaces cannot be seen below its launcher")
	}
	s, err := p.status(l.Init)
	if err != nil {
		return nil, err
	}
	if own, err := p.status(p.self); err != nil || len(s.pids) != len(own.pids)+1 || s.pids[len(s.pids)-1] != 1 {
		return nil, errors.New("its processes are not in a process namespace below that of the sidecar")
	}
	i := &isolation{filters: s.filters}
	if i.ids, err = p.ownIDs(l.Init); err != nil {
		return nil, err
	}
	for what, name := range namespaces {
		its, err := p.ask(int32(what), l.Init) //nolint:gosec // an index
		if err != nil {
			return nil, fmt.Errorf("its namespaces cannot be read: %w", err)
		}
		own, err := question{int32(what), int32(p.self)}.look("/proc") //nolint:gosec // a pid
		if err != nil || own == its {
			return nil, fmt.Errorf("its %s namespace is that of the sidecar", name)
		}
		if what == pidNamespace {
			i.pidNS = its
		}
	}
	return i, p.listensIn(l)
}

// ownIDs returns the IDs of a process's user namespace. Users and groups must be the same block of several IDs.
func (p *processes) ownIDs(pid int) (idRange, error) {
	shared := errors.New("its users are not its own")
	var found []idRange
	for _, name := range []string{"uid_map", "gid_map"} {
		raw, err := p.file(pid, name)
		if err != nil {
			return idRange{}, err
		}
		fields := strings.Fields(raw) // of one line: the first inside, the first outside, how many
		if len(fields) != 3 || fields[0] != "0" {
			return idRange{}, shared
		}
		first, err := strconv.ParseUint(fields[1], 10, 32)
		size, bad := strconv.ParseUint(fields[2], 10, 32)
		if err != nil || bad != nil || first == 0 || size == 1 {
			return idRange{}, shared
		}
		found = append(found, idRange{first, size})
	}
	if found[0] != found[1] {
		return idRange{}, shared
	}
	return found[0], nil
}

// listensIn checks that the listener listens in the network of the run's first process.
func (p *processes) listensIn(l Launch) error {
	v4, err := p.file(l.Init, "net/tcp")
	if err != nil {
		return err
	}
	v6, _ := p.file(l.Init, "net/tcp6") // missing without IPv6; otherwise it has the listeners for both
	const listening, state, inode = "0A", 3, 9
	for line := range strings.Lines(v4 + v6) {
		fields := strings.Fields(line)
		if len(fields) > inode && fields[state] == listening && fields[inode] == strconv.FormatUint(l.Listener, 10) {
			return nil
		}
	}
	return errors.New("its connections do not come from its own network")
}

// entered reports whether a process from outside is in the run: it has one of the run's users or groups, or is in its
// process namespace.
func (i *isolation) entered(p *processes, q process, s []status) (bool, error) {
	for _, thread := range s {
		if slices.ContainsFunc(thread.users, i.ids.has) || slices.ContainsFunc(thread.groups, i.ids.has) {
			return true, nil
		}
	}
	if len(s) == 0 || len(s[0].pids) < 2 {
		return false, nil
	}
	its, err := p.ask(pidNamespace, q.pid)
	return err == nil && its == i.pidNS, err
}

// adopted reports whether a process below the run's first one came from outside: the kernel gives the first process
// also the children of a process that entered and has ended.
func (i *isolation) adopted(s []status) bool {
	return slices.ContainsFunc(s, func(thread status) bool { return thread.filters < i.filters })
}
