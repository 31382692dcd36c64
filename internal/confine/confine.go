// Package confine restricts a process so that an attacker who takes it over gains little: its files and ports
// (Landlock), its system calls (seccomp), its capabilities, and access to its memory. The restrictions are permanent
// and apply to every thread. [Confined.Layers] tests them.
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
	Files             []File
	Bind, Connect     []uint16 // the TCP ports that it may listen on and connect to
	AnyConnect        bool     // it may connect to every TCP port
	Landlock, Seccomp Mode
}

// SystemFiles are files that Go's runtime, its resolver, crypto/x509 and SQLite read by themselves, and the time zones
// that a schedule or a policy rule can name. Few processes need the system's authorities, and reading all of them would
// take a tenth of a start.
var SystemFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/dev/urandom",
	"/proc/self", "/usr/share/zoneinfo", "/etc/ssl/certs", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem",
	"/etc/ssl/ca-bundle.pem", "/etc/pki/tls/certs", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates"}

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
	err := inOrder("this process", []step{
		{"write no core dump", noCore},
		{"get no privileges by executing a program", noNewPrivileges},
		{"drop capabilities", l.dropCapabilities},
		{"be held to its files and ports by Landlock", c.landlock},
		{"be out of reach for debuggers", undumpable}, // after the steps that may change the process's credentials
		{"be held to its system calls by seccomp", l.seccomp},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

type step struct {
	what string
	do   func() error
}

func inOrder(who string, steps []step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s cannot %s: %w", who, s.what, err)
		}
	}
	return nil
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

// undumpable keeps other processes of the same user out of this one's memory (PR_SET_DUMPABLE in prctl(2)).
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

func (l Limits) capabilities() string {
	var names []string
	for _, v := range l.Capabilities {
		names = append(names, v.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
