package observe

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Agent is the user that the agent runs as.
type Agent struct {
	UID  uint32
	GIDs []uint32 // all its groups
}

// Process observes whether the agent's user could reach the memory of a process that runs as uid. A process of the same
// user can (ptrace, /proc), and root can reach everything.
func (a Agent) Process(uid uint32) Observation {
	switch a.UID {
	case 0:
		return look(Process, Contradicts, "The agent runs as root, which reaches every process here.")
	case uid:
		return look(Process, Contradicts, "This process and the agent both run as user %d.", uid)
	}
	return look(Process, Holds, "This process runs as user %d and the agent as user %d.", uid, a.UID)
}

// Path is a file, folder or socket that the agent must not change, nor read if it is secret.
type Path struct {
	Name   string
	Secret bool
	// Users are the users that the listener of a socket admits besides its own. The listener drops connections of all
	// other users, so the mode of the socket does not matter.
	Users []uint32
}

// Files observes whether the agent's user can change one of the paths, replace it, or read a secret one. A path that
// does not exist is judged by the folders in which it would be. Files goes by owners and modes as this process sees
// them. If an access control list adds to a mode, the result is Unseen.
func (a Agent) Files(paths ...Path) Observation {
	for _, p := range paths {
		access, err := a.access(p)
		if err != nil {
			return look(Files, NotObserved, "%s could not be looked at: %v.", p.Name, err)
		}
		if access != "" {
			return look(Files, Contradicts, "The agent's user %d can %s %s.", a.UID, access, p.Name)
		}
	}
	return look(Files, Holds, "By owner and mode, user %d can neither change nor replace this process's %d files and folders, nor read the secret ones.", a.UID, len(paths))
}

var errACL = errors.New("an access control list adds to its mode")

// access returns what the agent can do to p and must not: "read", "write", "replace", "connect to" or nothing.
func (a Agent) access(p Path) (string, error) {
	path, err := filepath.Abs(p.Name)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	reachable, dir := true, "/"
	for _, part := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		mode, err := a.mode(dir)
		if err != nil {
			return "", err
		}
		// A user who can write to a folder can replace what is in it, unless the folder is sticky and the thing belongs
		// to another user. A user who cannot pass through a folder can do nothing below it.
		reachable = reachable && mode.search
		next := filepath.Join(dir, part)
		if reachable && mode.write && !(mode.sticky && !a.owns(next)) {
			return "replace", nil
		}
		dir = next
	}
	switch {
	case !reachable:
		return "", nil
	case slices.Contains(p.Users, a.UID):
		return "connect to", nil
	}
	mode, err := a.mode(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case mode.read && p.Secret:
		return "read", nil
	case mode.write && !mode.socket:
		return "write", nil
	}
	return "", nil
}

type mode struct{ read, write, search, sticky, socket bool }

func (a Agent) owns(path string) bool {
	s, err := lstat(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) // the agent would make it
	}
	return s.Uid == a.UID
}

// mode returns what the agent may do with one file or folder.
func (a Agent) mode(path string) (mode, error) {
	s, err := lstat(path)
	if err != nil {
		return mode{}, err
	}
	if n, _ := unix.Lgetxattr(path, "system.posix_acl_access", nil); n > 0 { // -1 if there is none
		return mode{}, errACL
	}
	bits := s.Mode
	switch {
	case a.UID == 0, s.Uid == a.UID: // an owner can change the mode
		bits = 0o7
	case slices.Contains(a.GIDs, s.Gid):
		bits >>= 3
	}
	return mode{read: bits&4 != 0, write: bits&2 != 0, search: bits&1 != 0, sticky: s.Mode&unix.S_ISVTX != 0, socket: s.Mode&unix.S_IFMT == unix.S_IFSOCK}, nil
}

func lstat(path string) (s unix.Stat_t, err error) {
	if err = unix.Lstat(path, &s); err != nil {
		err = &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return s, err
}
