package confine

import (
	"os"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// Calls are the system calls that a process may make, some only with certain arguments. Every other call fails with
// EPERM, including calls of future kernels and of other architectures.
type Calls struct {
	names []string
	some  []seccomp.NameWithConditions
}

func (l Limits) seccomp() error {
	if l.Seccomp == Off {
		return nil
	}
	policy, err := l.Syscalls.policy("")
	if err != nil {
		return err
	}
	return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: *policy})
}

// policy makes the filter for an architecture, by its Go name; an empty name means this one. It skips calls that the
// architecture lacks: x86-64 has open(2), arm64 only openat(2).
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

// pretended are calls that fail as if the kernel lacked them. The C library then uses an older call, whose arguments
// the filter can see.
var pretended = []string{"clone3"}

// only allows a call if all conditions hold.
func only(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: conditions}
}

func condition(op seccomp.Operation) func(argument uint32, value uint64) seccomp.Condition {
	return func(argument uint32, value uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: op, Value: value}
	}
}

var (
	is     = condition(seccomp.Equal)
	isNot  = condition(seccomp.NotEqual)
	atMost = condition(seccomp.LessOrEqual)
	has    = condition(seccomp.BitsSet)
	lacks  = condition(seccomp.BitsNotSet)
)

// ServiceSyscalls returns the system calls of a server. It starts no program, maps no executable memory, and signals
// only itself.
func ServiceSyscalls() Calls {
	return Calls{names: slices.Concat(running, files, sockets), some: slices.Concat(itself(), families)}
}

// LookerSyscalls returns the system calls of a process that reads links and owners of files in /proc, and opens no
// file.
func LookerSyscalls() Calls { return Calls{names: slices.Concat(running, links), some: itself()} }

// running are the calls that Go's runtime and the C library need for threads, memory and time.
var running = []string{
	"brk", "madvise", "membarrier", "mincore", "mremap", "munmap",
	"exit", "exit_group", "futex", "get_robust_list", "getpid", "getppid", "gettid", "rseq", "sched_getaffinity",
	"sched_yield", "set_robust_list", "set_tid_address",
	"restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait",
	"sigaltstack", "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time", "times",
	"getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getrlimit", "getrusage", "getuid",
	"sysinfo", "uname",
	"getrandom",
	"close", "dup", "dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2",
	"epoll_wait", "eventfd2", "fcntl", "pipe2",
	"poll", "ppoll", "pselect6", "read", "readv", "select", "write", "writev",
	"capget", "wait4", "waitid",
}

var links = []string{"readlink", "readlinkat", "newfstatat", "stat"}

var files = []string{
	"access", "chmod", "copy_file_range", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchmod", "fchmodat",
	"fdatasync", "flock", "fstat", "fstatfs", "fsync",
	"ftruncate", "getcwd", "getdents64", "getxattr", "inotify_add_watch", "inotify_init1", "lgetxattr", "lseek",
	"lstat", "mkdir", "mkdirat", "msync", "newfstatat", "open", "openat", "pread64", "preadv",
	"preadv2", "pwrite64", "pwritev", "pwritev2", "readlink", "readlinkat", "rename", "renameat", "renameat2", "rmdir",
	"sendfile", "splice", "stat", "statfs", "statx",
	"sync_file_range", "umask", "unlink", "unlinkat", "utimensat",
}

var sockets = []string{
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
	"recvmmsg",
	"recvmsg", "sendmmsg", "sendmsg", "sendto",
	"setsockopt", "shutdown",
}

// families are the sockets that the process may make: unix, TCP, UDP, and netlink for the machine's addresses. MPTCP
// and SCTP are not among them, because Landlock restricts only ports of TCP.
var families = []seccomp.NameWithConditions{
	only("socket", is(0, unix.AF_UNIX)),
	only("socket", is(0, unix.AF_INET), atMost(2, unix.IPPROTO_UDP)),
	only("socket", is(0, unix.AF_INET6), atMost(2, unix.IPPROTO_UDP)),
	only("socket", is(0, unix.AF_NETLINK), is(2, unix.NETLINK_ROUTE)),
	only("socketpair", is(0, unix.AF_UNIX)),
}

// prSetVMA names memory of Go's runtime (PR_SET_VMA in prctl(2)).
const prSetVMA = 0x53564d41

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.
	CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// itself returns the calls that a process may use only on itself: it may make threads, signal them, map memory that is
// not executable, and read its limits. It may not push keystrokes into a terminal.
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
