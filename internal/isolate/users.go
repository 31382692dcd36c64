package isolate

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// Users says which user the agent runs as.
type Users struct {
	// Own gives the agent unused users and groups of this machine. Only root can do that.
	Own bool
	// UID and GID are the agent's user and group if it has none of its own.
	UID, GID int
}

// inner is the agent's user and group in its own user namespace. It is not 65534, as which the kernel shows every user
// from outside.
const inner = 1000

// ownIDs is the number of IDs in the agent's own user namespace.
const ownIDs = 1 << 16

// setupCapabilities are the capabilities that pid 1 needs for the setup, in its namespaces alone.
var setupCapabilities = []uintptr{uintptr(cap.SETGID), uintptr(cap.SETUID), uintptr(cap.SETPCAP),
	uintptr(cap.NET_ADMIN), uintptr(cap.SYS_ADMIN), uintptr(cap.SYS_RESOURCE)}

// attributes returns the attributes of pid 1 with its user namespace, and the agent's user in it.
func (u Users) attributes() (*syscall.SysProcAttr, Users, error) {
	if !u.Own {
		a := &syscall.SysProcAttr{
			UidMappings: []syscall.SysProcIDMap{{ContainerID: u.UID, HostID: u.UID, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: u.GID, HostID: u.GID, Size: 1}},
			AmbientCaps: setupCapabilities,
		}
		if os.Geteuid() == 0 { // another user can neither change its user nor leave its groups
			a.Credential = &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
			a.GidMappingsEnableSetgroups = true
		}
		return a, u, nil
	}
	first, err := freeIDs()
	if err != nil {
		return nil, u, err
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: ownIDs}}
	return &syscall.SysProcAttr{
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{},
	}, Users{UID: inner, GID: inner}, nil
}

// alone reports whether no other process has one of the IDs of pid 1's namespace. Two runs that start together can
// choose the same IDs; the later check sees the other run.
func (u Users) alone(attributes *syscall.SysProcAttr, first int) (bool, error) {
	if !u.Own {
		return true, nil
	}
	taken, err := takenIDs(first)
	ids := attributes.UidMappings[0]
	return !taken.overlap(ids.HostID, ids.HostID+ids.Size), err
}

// No system, service or container runtime that follows https://systemd.io/UIDS-GIDS gives IDs from here on to a user.
const (
	firstOwn = 0xC000_0000
	ownSlots = 0x2FFF // of ownIDs each
)

// freeIDs returns the first of ownIDs IDs that no user, group or running process has.
func freeIDs() (int, error) {
	taken, err := takenIDs(0)
	if err != nil {
		return 0, err
	}
	var used [ownSlots]bool
	for _, r := range taken {
		for slot := max(0, (r[0]-firstOwn)/ownIDs); slot < ownSlots && firstOwn+slot*ownIDs < r[1]; slot++ {
			used[slot] = true
		}
	}
	begin := rand.IntN(ownSlots) //nolint:gosec // two runs rarely want the same; the number is no secret
	for i := range ownSlots {
		if slot := (begin + i) % ownSlots; !used[slot] {
			return firstOwn + slot*ownIDs, nil
		}
	}
	return 0, errors.New("no block of 65,536 user ids is free")
}

// ranges are ranges of ids, from the first to before the second.
type ranges [][2]int

func (r ranges) overlap(from, to int) bool {
	return slices.ContainsFunc(r, func(x [2]int) bool { return from < x[1] && x[0] < to })
}

// takenIDs returns the IDs of users, groups and running processes except one, and those that users may assign.
func takenIDs(but int) (ranges, error) {
	var out ranges
	for _, f := range []struct {
		name string
		id   int // the field with an id, or with the first of many
		size int // the field with their number; 0 if there is one
	}{{"/etc/passwd", 2, 0}, {"/etc/group", 2, 0}, {"/etc/subuid", 1, 2}, {"/etc/subgid", 1, 2}} {
		err := lines(f.name, func(line string) {
			fields := strings.Split(line, ":")
			if len(fields) <= max(f.id, f.size) {
				return
			}
			id, err := strconv.Atoi(fields[f.id])
			size := 1
			if f.size > 0 && err == nil {
				size, err = strconv.Atoi(fields[f.size])
			}
			if err == nil {
				out = append(out, [2]int{id, id + size})
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil || len(processes) == 0 {
		return nil, fmt.Errorf("/proc shows no process: %w", err)
	}
	for _, name := range processes {
		if name == fmt.Sprintf("/proc/%d/status", but) {
			continue
		}
		_ = lines(name, func(line string) { // fails for a process that has ended
			name, ids, _ := strings.Cut(line, ":")
			if name != "Uid" && name != "Gid" && name != "Groups" {
				return
			}
			for _, field := range strings.Fields(ids) {
				if id, err := strconv.Atoi(field); err == nil {
					out = append(out, [2]int{id, id + 1})
				}
			}
		})
	}
	return out, nil
}

func lines(name string, do func(line string)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20) // a process can be in 65,536 groups
	for s.Scan() {
		do(s.Text())
	}
	return s.Err()
}
