// Package confine takes from a process what it does not need, so that an attacker who takes it over gains little: other
// files and ports (Landlock), system calls (seccomp), capabilities, and access to its memory. This is for good and for
// every thread. [Confined.Layers] then tests the restrictions.
package confine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// Mode says what happens if a process cannot be confined.
type Mode string

// The modes. The zero value is Required.
const (
	Required   Mode = ""            // Apply fails
	BestEffort Mode = "best_effort" // Apply uses all that the kernel offers; only for Landlock
	Off        Mode = "off"         // the process is not confined
)

// Limits are what a process keeps. The zero value leaves no file, no port and no capability.
type Limits struct {
	// Syscalls are the system calls; see [ServiceSyscalls] and [LookerSyscalls].
	Syscalls Calls
	// Capabilities are kept if the process has them.
	Capabilities []cap.Value
	// Files are the files that the process may use. A file below two of them gets both uses.
	Files []File
	// Bind and Connect are the TCP ports that it may listen on and connect to.
	Bind, Connect []uint16
	// AnyConnect allows connections to every TCP port, not only those in Connect.
	AnyConnect bool
	// Landlock and Seccomp say what happens if the kernel cannot enforce Files, Bind and Connect, or Syscalls.
	Landlock, Seccomp Mode
}

// Use says how a process may use a file, or everything below a folder.
type Use int

// The uses. None of them allows a process to execute a file.
const (
	Read   Use = iota // read and list
	Write             // read, list, make, change and remove
	Move              // Write, and move from one folder to another
	Listen            // make and remove unix sockets
)

// File is a file or folder that a process may use, by its absolute path. A path that does not exist is skipped.
type File struct {
	Path string
	Use  Use
}

// Confined describes the confinement of this process.
type Confined struct {
	limits Limits
	abi    int // the kernel's version of Landlock; 0 if it has none
}

// Apply confines this process. Call it once, after the process has opened what it keeps and before it listens. After an
// error the process is only partly confined and must end.
func Apply(l Limits) (*Confined, error) {
	c := &Confined{limits: l}
	steps := []struct {
		what string
		do   func() error
	}{
		{"write no core dump", noCore},
		{"get no privileges by executing a program", noNewPrivileges},
		{"drop capabilities", l.dropCapabilities},
		{"be held to its files and ports by Landlock", c.landlock},
		{"be out of reach for debuggers", undumpable}, // after the steps that may change the process's credentials
		{"be held to its system calls by seccomp", l.seccomp},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return nil, fmt.Errorf("this process cannot %s: %w", s.what, err)
		}
	}
	return c, nil
}

// Missing returns the files and the ports of l that Landlock denies this process.
func (c *Confined) Missing(l Limits) []string {
	var out []string
	for _, f := range l.Files {
		reaches := func(g File) bool {
			return (f.Use == g.Use || f.Use == Read && g.Use != Listen || f.Use == Write && g.Use == Move) &&
				(f.Path == g.Path || strings.HasPrefix(f.Path, g.Path+"/"))
		}
		if c.abi > 0 && !slices.ContainsFunc(c.limits.Files, reaches) {
			out = append(out, f.Path)
		}
	}
	for _, p := range l.Connect {
		if c.abi >= portsABI && !c.limits.AnyConnect && !slices.Contains(c.limits.Connect, p) {
			out = append(out, fmt.Sprintf("port %d", p))
		}
	}
	return out
}

func noCore() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// undumpable keeps other processes of the same user from tracing this one and reading its memory (PR_SET_DUMPABLE in
// prctl(2)).
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

func noNewPrivileges() error {
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func (l Limits) dropCapabilities() error {
	had, left := cap.GetProc(), cap.NewSet()
	for _, v := range l.Capabilities {
		has, err := had.GetFlag(cap.Permitted, v)
		if err == nil && has {
			err = errors.Join(left.SetFlag(cap.Permitted, true, v), left.SetFlag(cap.Effective, true, v))
		}
		if err != nil {
			return err
		}
	}
	return left.SetProc() // this drops the ambient and inheritable ones too
}

// capabilities returns the names of the kept capabilities.
func (l Limits) capabilities() string {
	var names []string
	for _, v := range l.Capabilities {
		names = append(names, v.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
