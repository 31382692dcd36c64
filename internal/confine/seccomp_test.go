package confine

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/test/check"
)

// What the filter returns to the kernel (seccomp(2)).
const (
	allow = unix.SECCOMP_RET_ALLOW
	deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Calls of x86-64 kernels with other numbers: AUDIT_ARCH_I386, the bit of the x32 calls, and what a filter says of
// those.
const x86, x32 = 0x40000003, 0x40000000

var ofX32 = map[string]uint32{"amd64": nosys, "arm64": deny}[runtime.GOARCH]

// judge runs the filter on one system call. The virtual machine reads big-endian words, so both halves of an argument
// are put where the filter of a little-endian kernel looks.
func judge(t *testing.T, as uint32, number int, args ...uint64) uint32 {
	t.Helper()
	policy, err := ServiceSyscalls().policy(runtime.GOARCH)
	check.Must(t, err)
	instructions, err := policy.Assemble()
	check.Must(t, err)
	return judgeBy(t, instructions, as, number, args...)
}

func judgeBy(t *testing.T, instructions []bpf.Instruction, as uint32, number int, args ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(instructions)
	check.Must(t, err)
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, uint32(number))
	binary.BigEndian.PutUint32(data[4:], as)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	got, err := vm.Run(data)
	check.Must(t, err)
	return uint32(got)
}

// TestFilter runs the filter on calls of this architecture that TestSystemCalls does not try, and on those of others.
func TestFilter(t *testing.T) {
	self := uint64(os.Getpid())
	info, err := arch.GetInfo(runtime.GOARCH)
	check.Must(t, err)
	call := func(name string, args ...uint64) uint32 {
		return judge(t, uint32(info.ID), info.SyscallNames[name], args...)
	}
	for what, got := range map[string][2]uint32{
		"read":                             {call("read"), allow},
		"futex":                            {call("futex"), allow},
		"getrandom":                        {call("getrandom"), allow},
		"execveat":                         {call("execveat"), deny},
		"seccomp":                          {call("seccomp"), deny},
		"landlock_restrict_self":           {call("landlock_restrict_self"), deny},
		"a thread":                         {call("clone", unix.CLONE_VM|unix.CLONE_THREAD), allow},
		"a process":                        {call("clone", unix.CLONE_VM|unix.CLONE_VFORK), deny},
		"a thread in a network of its own": {call("clone", unix.CLONE_THREAD|unix.CLONE_NEWNET), deny},
		"a signal to a thread of its own":  {call("tgkill", self), allow},
		"a signal to another thread":       {call("tgkill", self+1), deny},
		"a signal to its group":            {call("kill", 0), deny},
		"a signal with a wide pid":         {call("kill", self|1<<32), deny},
		"another netlink socket": {call("socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
			deny},
		"limits read":       {call("prlimit64", 0, unix.RLIMIT_NOFILE, 0), allow},
		"limits set":        {call("prlimit64", 0, unix.RLIMIT_NOFILE, 1<<40), deny},
		"another ioctl":     {call("ioctl", 0, unix.TCGETS), allow},
		"a call of 32 bits": {judge(t, x86, 3), deny},
		"an x32 call":       {judge(t, uint32(arch.X86_64.ID), info.SyscallNames["read"]|x32), ofX32},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %#x, want %#x", what, got[0], got[1])
		}
	}
}

// TestArchitectures makes the policy for each released architecture and looks up the calls that a service needs.
func TestArchitectures(t *testing.T) {
	for goarch, opens := range map[string][]string{"amd64": {"open", "openat", "epoll_wait"},
		"arm64": {"openat", "epoll_pwait"}} {
		policy, err := ServiceSyscalls().policy(goarch)
		check.Must(t, err)
		for _, name := range append(opens, "read", "write", "futex", "connect", "accept4", "getrandom", "fdatasync") {
			if !slices.Contains(policy.Syscalls[0].Names, name) {
				t.Errorf("%s lacks %s", goarch, name)
			}
		}
		if slices.Contains(policy.Syscalls[0].Names, "open") != (goarch == "amd64") {
			t.Errorf("%s: open", goarch)
		}
	}
}

func TestNames(t *testing.T) {
	amd64, err := arch.GetInfo("amd64")
	check.Must(t, err)
	for _, calls := range []Calls{ServiceSyscalls(), LookerSyscalls()} {
		for i, name := range calls.names {
			if _, ok := amd64.SyscallNames[name]; !ok {
				t.Errorf("%s is no system call", name)
			}
			if slices.Contains(calls.names[:i], name) {
				t.Errorf("%s stands twice", name)
			}
		}
	}
}

// TestAgentFilter runs the filter of agents on calls that reach across namespaces, and on others.
func TestAgentFilter(t *testing.T) {
	noFamily := unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	instructions, err := agentFilter()
	check.Must(t, err)
	info, err := arch.GetInfo(runtime.GOARCH)
	check.Must(t, err)
	call := func(name string, args ...uint64) uint32 {
		return judgeBy(t, instructions, uint32(info.ID), info.SyscallNames[name], args...)
	}
	for what, got := range map[string][2]uint32{
		"a unix socket":             {call("socket", unix.AF_UNIX), allow},
		"an IPv4 socket":            {call("socket", unix.AF_INET), allow},
		"an IPv6 socket":            {call("socket", unix.AF_INET6), allow},
		"a netlink socket":          {call("socket", unix.AF_NETLINK), allow},
		"a socket of the machine":   {call("socket", unix.AF_VSOCK), noFamily},
		"a packet socket":           {call("socket", unix.AF_PACKET), noFamily},
		"a kernel cipher":           {call("socket", unix.AF_ALG), noFamily},
		"a family of the future":    {call("socket", 100), noFamily},
		"a family with high bits":   {call("socket", 1<<32|unix.AF_VSOCK), noFamily},
		"a pair of unix sockets":    {call("socketpair", unix.AF_UNIX), allow},
		"a pair of others":          {call("socketpair", unix.AF_TIPC), noFamily},
		"io_uring":                  {call("io_uring_setup"), deny},
		"entering io_uring":         {call("io_uring_enter"), deny},
		"registering with io_uring": {call("io_uring_register"), deny},
		"the keyring":               {call("keyctl"), deny},
		"a program":                 {call("execve"), allow},
		"a debugger":                {call("ptrace"), allow},
		"a namespace":               {call("unshare", unix.CLONE_NEWUSER), allow},
		"a mode":                    {call("fchmodat", 0, 0, 0o1755), allow},
		"set-group-ID":              {call("fchmodat", 0, 0, 0o2755), deny},
		"set-group-ID of a file":    {call("fchmod", 3, 0o2755), deny},
		"a new set-group-ID file":   {call("openat", 0, 0, unix.O_CREAT|unix.O_RDWR, 0o2755), deny},
		"one of those as a node":    {call("mknodat", 0, 0, unix.S_IFREG|0o2755), deny},
		"set-user-ID":               {call("fchmodat", 0, 0, 0o4755), deny},
		"set-user-ID, high bits":    {call("fchmodat2", 0, 0, 1<<32|0o4755, 0), deny},
		"set-user-ID of a file":     {call("fchmod", 3, 0o6755), deny},
		"a new file":                {call("openat", 0, 0, unix.O_CREAT, 0o755), allow},
		"a file that is there":      {call("openat", 0, 0, unix.O_RDWR, 0o4755), allow},
		"a new set-user-ID file":    {call("openat", 0, 0, unix.O_CREAT|unix.O_RDWR, 0o4755), deny},
		"one without a name":        {call("openat", 0, 0, unix.O_TMPFILE|unix.O_RDWR, 0o4755), deny},
		"one as a node":             {call("mknodat", 0, 0, unix.S_IFREG|0o4755), deny},
		"opening by a structure":    {call("openat2"), nosys},
		"a call of 32 bits":         {judgeBy(t, instructions, x86, 3), deny},
		"an x32 call": {judgeBy(t, instructions, uint32(arch.X86_64.ID), info.SyscallNames["read"]|x32),
			ofX32},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %#x, want %#x", what, got[0], got[1])
		}
	}
}
