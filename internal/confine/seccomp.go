package confine

import (
	"os"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// Calls are the system calls that a process may make: by name, and some only with certain arguments. Every other one fails with EPERM, also
// those that a kernel will have one day, and those of another architecture.
type Calls struct {
	names []string
	some  []seccomp.NameWithConditions
}

// seccomp holds the process to its system calls.
func (l Limits) seccomp() error {
	if l.Seccomp == Off {
		return nil
	}
	policy, err := l.Calls.policy("")
	if err != nil {
		return err
	}
	return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: *policy})
}

// policy makes the filter's policy for an architecture, whose name is Go's; empty for the one that runs. A call that the architecture
// does not have is left out: x86-64 has open(2), and arm64 has openat(2) alone.
func (c Calls) policy(goarch string) (*seccomp.Policy, error) {
	info, err := arch.GetInfo(goarch)
	if err != nil {
		return nil, err
	}
	has := func(name string) bool { _, ok := info.SyscallNames[name]; return ok }
	allowed := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, name := range c.names {
		if has(name) {
			allowed.Names = append(allowed.Names, name)
		}
	}
	for _, call := range c.some {
		if has(call.Name) {
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions, call)
		}
	}
	absent := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)}
	for _, name := range pretended {
		if has(name) {
			absent.Names = append(absent.Names, name)
		}
	}
	return &seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{allowed, absent}}, nil
}

// pretended are calls that are said not to be there, for which the C library then takes an older one. The arguments of clone3 cannot be seen
// by a filter, those of clone can.
var pretended = []string{"clone3"}

// only is a call that is allowed if all of its conditions hold.
func only(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: conditions}
}

func is(argument uint32, value uint64) seccomp.Condition {
	return seccomp.Condition{Argument: argument, Operation: seccomp.Equal, Value: value}
}

func isNot(argument uint32, value uint64) seccomp.Condition {
	return seccomp.Condition{Argument: argument, Operation: seccomp.NotEqual, Value: value}
}

func has(argument uint32, bits uint64) seccomp.Condition {
	return seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: bits}
}

func lacks(argument uint32, bits uint64) seccomp.Condition {
	return seccomp.Condition{Argument: argument, Operation: seccomp.BitsNotSet, Value: bits}
}

// Service are the system calls of a process that serves: it works with files and sockets and makes threads. It starts no process, executes
// nothing, maps no memory that can be executed, and signals only itself.
func Service() Calls {
	return Calls{names: slices.Concat(running, files, sockets), some: slices.Concat(itself(), families)}
}

// Looker are the system calls of a process that answers questions about /proc by reading links: it opens nothing.
func Looker() Calls { return Calls{names: slices.Concat(running, links), some: itself()} }

// running is what Go's runtime and the C library need to run threads, allocate memory and tell the time.
var running = []string{
	"brk", "madvise", "membarrier", "mincore", "mremap", "munmap",
	"exit", "exit_group", "futex", "get_robust_list", "getpid", "getppid", "gettid", "rseq", "sched_getaffinity", "sched_yield", "set_robust_list", "set_tid_address",
	"restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack",
	"clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time", "times",
	"getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getrlimit", "getrusage", "getuid", "sysinfo", "uname",
	"getrandom",
	"close", "dup", "dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "fcntl", "pipe2",
	"poll", "ppoll", "pselect6", "read", "readv", "select", "write", "writev",
	"capget", "wait4", "waitid",
}

// links is what reads a link.
var links = []string{"readlink", "readlinkat"}

// files is what works with files.
var files = []string{
	"access", "chmod", "copy_file_range", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchmod", "fchmodat", "fdatasync", "flock", "fstat", "fstatfs", "fsync",
	"ftruncate", "getcwd", "getdents64", "getxattr", "lgetxattr", "lseek", "lstat", "mkdir", "mkdirat", "msync", "newfstatat", "open", "openat", "pread64", "preadv",
	"preadv2", "pwrite64", "pwritev", "pwritev2", "readlink", "readlinkat", "rename", "renameat", "renameat2", "rmdir", "sendfile", "splice", "stat", "statfs", "statx",
	"sync_file_range", "umask", "unlink", "unlinkat", "utimensat",
}

// sockets is what works with sockets once they are there.
var sockets = []string{
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto",
	"setsockopt", "shutdown",
}

// families are the sockets that may be made: unix, TCP and UDP, and netlink for the machine's addresses. Landlock holds TCP to its ports and
// not MPTCP or SCTP, which are refused here.
var families = []seccomp.NameWithConditions{
	only("socket", is(0, unix.AF_UNIX)),
	only("socket", is(0, unix.AF_INET), atMost(2, unix.IPPROTO_UDP)),
	only("socket", is(0, unix.AF_INET6), atMost(2, unix.IPPROTO_UDP)),
	only("socket", is(0, unix.AF_NETLINK), is(2, unix.NETLINK_ROUTE)),
	only("socketpair", is(0, unix.AF_UNIX)),
}

func atMost(argument uint32, value uint64) seccomp.Condition {
	return seccomp.Condition{Argument: argument, Operation: seccomp.LessOrEqual, Value: value}
}

// prSetVMA names memory of Go's runtime (PR_SET_VMA in prctl(2)).
const prSetVMA = 0x53564d41

// namespaces are the flags of clone that make a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// itself is what a process may do to itself alone: threads and no processes, signals to its own threads, memory that is not executed,
// limits that are read and not set, and no key strokes for a terminal.
func itself() []seccomp.NameWithConditions {
	self := uint64(os.Getpid())
	return []seccomp.NameWithConditions{
		only("clone", has(0, unix.CLONE_THREAD), lacks(0, namespaces)),
		only("tgkill", is(0, self)),
		only("kill", is(0, self)),
		only("mmap", lacks(2, unix.PROT_EXEC)),
		only("mprotect", lacks(2, unix.PROT_EXEC)),
		only("prlimit64", is(2, 0)),
		only("prctl", is(0, unix.PR_GET_DUMPABLE)),
		only("prctl", is(0, unix.PR_GET_NO_NEW_PRIVS)),
		only("prctl", is(0, prSetVMA)),
		only("ioctl", isNot(1, unix.TIOCSTI), isNot(1, unix.TIOCLINUX)),
	}
}
