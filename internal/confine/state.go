package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Layer is one restriction of a process, and a test of it.
type Layer struct {
	Name    string `json:"name"`
	InForce bool   `json:"inForce"`
	Seen    string `json:"seen"` // one sentence
}

// The names of the layers.
const (
	Privileges   = "privileges"   // executing a program gives none
	Capabilities = "capabilities" // only those that the process needs
	Memory       = "memory"       // no core dump, and no debugger of the same user
	SystemCalls  = "system calls" // seccomp
	Files        = "files"        // Landlock
	Ports        = "ports"        // Landlock
)

// Layers tests all layers now: by the kernel's status of each thread, and by trying what must fail.
func (c *Confined) Layers() []Layer {
	out := []Layer{memory()}
	threads, err := readThreads()
	if err != nil {
		unseen := fmt.Sprintf("It could not be looked at: %v.", err)
		out = append(out, Layer{Privileges, false, unseen}, Layer{Capabilities, false, unseen},
			Layer{SystemCalls, false, unseen})
	} else {
		out = append(out, threads.privileges(), threads.capabilities(c.limits), threads.systemCalls(c.limits))
	}
	return append(out, c.files(), c.ports())
}

// threads are the fields of each thread's status file (proc_pid_status(5)).
type threads []map[string]string

func readThreads() (threads, error) {
	names, err := filepath.Glob("/proc/self/task/*/status")
	if err == nil && len(names) == 0 {
		err = errors.New("/proc shows no thread of this process")
	}
	if err != nil {
		return nil, err
	}
	var out threads
	for _, name := range names {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, err
		}
		fields := make(map[string]string)
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ":")
			fields[name] = strings.TrimSpace(value)
		}
		f.Close()
		if err := lines.Err(); err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
		if fields["Seccomp"] != "" { // the thread has not ended meanwhile
			out = append(out, fields)
		}
	}
	return out, nil
}

func (t threads) all(field, value string) bool {
	return len(t) > 0 && !slices.ContainsFunc(t, func(fields map[string]string) bool { return fields[field] != value })
}

func (t threads) privileges() Layer {
	return told(Privileges, t.all("NoNewPrivs", "1"), fmt.Sprintf("NoNewPrivs is 1 in each of %d threads.", len(t)),
		"NoNewPrivs is not 1 in each thread.")
}

func (t threads) capabilities(l Limits) Layer {
	const none = "0000000000000000"
	var mask uint64
	for _, v := range l.Capabilities {
		mask |= 1 << v
	}
	var beyond uint64
	for _, field := range []string{"CapPrm", "CapEff", "CapInh", "CapAmb"} {
		for _, fields := range t {
			var bits uint64
			if _, err := fmt.Sscanf(fields[field], "%x", &bits); err != nil {
				return Layer{Capabilities, false, fmt.Sprintf("%s could not be read.", field)}
			}
			beyond |= bits &^ mask
		}
	}
	holds := fmt.Sprintf("CapPrm and CapEff are 0 in each of %d threads.", len(t))
	if !t.all("CapPrm", none) {
		holds = fmt.Sprintf("Each of %d threads has no capability beyond %s.", len(t), l.capabilities())
	}
	return told(Capabilities, beyond == 0, holds,
		fmt.Sprintf("A thread has capabilities that it does not need: %016x.", beyond))
}

// systemCalls tries a call that changes nothing, and that kernels and the default filters of containers allow.
func (t threads) systemCalls(l Limits) Layer {
	if l.Seccomp == Off {
		return Layer{SystemCalls, false, "Seccomp is off in the configuration."}
	}
	const asked = 0xffffffff // reads the personality and sets none
	_, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, asked, 0, 0)
	return told(SystemCalls, t.all("Seccomp", "2") && errno == unix.EPERM,
		fmt.Sprintf("Seccomp is 2 (a filter) in each of %d threads, and personality(2) is refused.", len(t)),
		"Seccomp is not 2 in each thread, or personality(2) is not refused.")
}

func memory() Layer {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	var core unix.Rlimit
	err = errors.Join(err, unix.Getrlimit(unix.RLIMIT_CORE, &core))
	return told(Memory, err == nil && dumpable == 0 && core.Max == 0,
		"The process is not dumpable, and its core limit is 0.",
		"The process is dumpable, or its core limit is not 0.")
}

func (c *Confined) files() Layer {
	if c.limits.Landlock == Off {
		return Layer{Files, false, "Landlock is off in the configuration."}
	}
	d, err := os.Open("/")
	if err == nil {
		d.Close()
	}
	return told(Files, errors.Is(err, unix.EACCES),
		fmt.Sprintf("Landlock holds it to %d files and folders: / cannot be opened.", len(c.limits.Files)),
		fmt.Sprintf("The files are those of its user: / can be opened; %s.", kernelHas(c.abi)))
}

func (c *Confined) ports() Layer {
	if c.limits.Landlock == Off {
		return Layer{Ports, false, "Landlock is off in the configuration."}
	}
	port := 1<<16 - 1
	for slices.Contains(c.limits.Bind, uint16(port)) {
		port--
	}
	err := bind(port)
	if c.limits.AnyConnect && errors.Is(err, unix.EACCES) {
		return Layer{Ports, false,
			fmt.Sprintf("It may connect to any TCP port, as its configuration has it; Landlock holds "+
				"it to %d to listen on: port %d cannot be bound.", len(c.limits.Bind), port)}
	}
	return told(Ports, errors.Is(err, unix.EACCES),
		fmt.Sprintf("Landlock holds it to %d TCP ports to listen on and %d to connect to: port %d cannot be bound.",
			len(c.limits.Bind), len(c.limits.Connect), port),
		fmt.Sprintf("It may listen on and connect to any TCP port; for ports Landlock needs ABI %d (Linux 6.7), and "+
			"%s.", portsABI, kernelHas(c.abi)))
}

func bind(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

// told returns a layer with the sentence yes or no.
func told(name string, inForce bool, yes, no string) Layer {
	if inForce {
		return Layer{name, true, yes}
	}
	return Layer{name, false, no}
}
