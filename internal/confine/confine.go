// Package confine takes from a process what it does not need, so that whoever takes the process over gets little with it: further files and
// ports (Landlock), system calls (seccomp), capabilities, and the way to read its memory. Everything is for good, for every thread, and says
// afterwards by trying whether it is so.
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

// Mode says what becomes of a process that cannot be confined.
type Mode string

// The modes. The zero one is Required.
const (
	Required   Mode = ""            // it gets an error
	BestEffort Mode = "best_effort" // it is confined as far as the kernel can; only for Landlock
	Off        Mode = "off"         // it is not asked to be
)

// Limits are what a process is left with. The zero Limits leave it no file, no port and no capability.
type Limits struct {
	// Calls are the system calls; see [Service] and [Looker].
	Calls Calls
	// Capabilities are kept if the process has them.
	Capabilities []cap.Value
	// Files are the files that it reaches. A file below two of them may be used as either says.
	Files []File
	// Bind and Connect are the TCP ports that it may listen on and connect to.
	Bind, Connect []uint16
	// Landlock and Seccomp say what happens where the kernel cannot hold the process to Files, Bind and Connect, and to Calls.
	Landlock, Seccomp Mode
}

// Use is what may be done with a file, and with all that is below a folder.
type Use int

// The uses. None of them is to execute.
const (
	Read   Use = iota // read and list
	Write             // read, list, make, change and remove
	Move              // Write, and move from one folder to another
	Listen            // make and remove unix sockets
)

// File is a file or folder, by its absolute path, that a process may use. One that does not exist is left out.
type File struct {
	Path string
	Use  Use
}

// Confined is a process that has been confined.
type Confined struct {
	limits Limits
	abi    int // the kernel's version of Landlock; 0 where it has none
}

// Apply confines this process. It is called once, after the process has opened what it keeps, and before it listens. An error leaves it
// half confined: it has to end.
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
		{"be out of reach for debuggers", undumpable}, // after what may change the process's credentials
		{"be held to its system calls by seccomp", l.seccomp},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return nil, fmt.Errorf("this process cannot %s: %w", s.what, err)
		}
	}
	return c, nil
}

// Beyond names the files and the ports of l that Landlock keeps this process from.
func (c *Confined) Beyond(l Limits) []string {
	var out []string
	for _, f := range l.Files {
		reaches := func(g File) bool {
			return (f.Use == g.Use || f.Use == Read && g.Use != Listen || f.Use == Write && g.Use == Move) && (f.Path == g.Path || strings.HasPrefix(f.Path, g.Path+"/"))
		}
		if c.abi > 0 && !slices.ContainsFunc(c.limits.Files, reaches) {
			out = append(out, f.Path)
		}
	}
	for _, p := range l.Connect {
		if c.abi >= portsABI && !slices.Contains(c.limits.Connect, p) {
			out = append(out, fmt.Sprintf("port %d", p))
		}
	}
	return out
}

func noCore() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// undumpable keeps other processes of the same user from tracing this one and from reading its memory (PR_SET_DUMPABLE in prctl(2)).
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
	return left.SetProc() // the ambient and the inheritable ones go too
}

// capabilities names the ones that are kept.
func (l Limits) capabilities() string {
	var names []string
	for _, v := range l.Capabilities {
		names = append(names, v.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
