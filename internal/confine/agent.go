package confine

import (
	"runtime"
	"slices"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// RestrictAgent takes from every program that this process executes the rights that an isolated agent must not have:
// new privileges, capabilities, and system calls that reach across namespaces. The process itself keeps its
// capabilities.
//
// Unlike [ServiceSyscalls] it lists forbidden calls, because an agent runs programs of any kind.
func RestrictAgent() error {
	return inOrder("the agent", []step{
		{"get no privileges by executing a program", noNewPrivileges},
		{"get no capabilities by executing a program", noInheritedCapabilities},
		{"be held to its system calls by seccomp", agentSyscalls},
	})
}

// noInheritedCapabilities empties the sets from which executed programs get capabilities.
func noInheritedCapabilities() error {
	own := cap.GetProc()
	if err := cap.ResetAmbient(); err != nil {
		return err
	}
	for v := range cap.MaxBits() {
		if err := cap.DropBound(v); err != nil {
			return err
		}
	}
	if err := own.ClearFlag(cap.Inheritable); err != nil {
		return err
	}
	return own.SetProc()
}

func agentSyscalls() error {
	instructions, err := agentFilter()
	if err != nil {
		return err
	}
	program, err := bpf.Assemble(instructions)
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filters[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	load := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]} //nolint:gosec // some thirty instructions
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&load)))
	runtime.KeepAlive(filters)
	if errno != 0 {
		return errno
	}
	return nil
}

// agentFilter makes the filter of agents. A network namespace separates unix, IP and netlink sockets; others, such as
// those of virtual machines (AF_VSOCK), lead out of it. io_uring makes sockets that no filter sees. Keyrings come from
// the launcher. A set-user-ID or set-group-ID file would give the agent's user or group to everyone who executes it.
func agentFilter() ([]bpf.Instruction, error) {
	native, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	other := func(call string) seccomp.NameWithConditions {
		return only(call, isNot(0, unix.AF_UNIX), isNot(0, unix.AF_INET), isNot(0, unix.AF_INET6),
			isNot(0, unix.AF_NETLINK))
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		{Names: []string{"io_uring_setup", "io_uring_enter", "io_uring_register", "add_key", "request_key", "keyctl"},
			Action: seccomp.ActionErrno},
		{NamesWithCondtions: []seccomp.NameWithConditions{other("socket"), other("socketpair")},
			Action: seccomp.ActionErrno | seccomp.Action(unix.EAFNOSUPPORT)},
		{NamesWithCondtions: setID(native), Action: seccomp.ActionErrno},
		// whose mode no filter sees
		{Names: []string{"openat2"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
	}}
	judged, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	// Refuse calls of another architecture: a program on x86-64 can make 32-bit calls, whose numbers the policy does
	// not know and would allow.
	const architecture = 4 // its offset in struct seccomp_data
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: architecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(native.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.EPERM)},
	}, judged...), nil
}

// setID returns the calls that can make a set-user-ID or set-group-ID file.
func setID(native *arch.Info) []seccomp.NameWithConditions {
	const (
		bits      = unix.S_ISUID | unix.S_ISGID // either of them
		temporary = unix.O_TMPFILE &^ unix.O_DIRECTORY
	)
	calls := []seccomp.NameWithConditions{
		only("chmod", has(1, bits)), only("fchmod", has(1, bits)), only("fchmodat", has(2, bits)),
		only("fchmodat2", has(2, bits)),
		only("creat", has(1, bits)), only("mknod", has(1, bits)), only("mknodat", has(2, bits)),
	}
	for _, makes := range []uint64{unix.O_CREAT, temporary} { // other flags ignore the mode
		calls = append(calls, only("open", has(1, makes), has(2, bits)), only("openat", has(2, makes), has(3, bits)))
	}
	return slices.DeleteFunc(calls, func(c seccomp.NameWithConditions) bool {
		_, known := native.SyscallNames[c.Name]
		return !known
	})
}
