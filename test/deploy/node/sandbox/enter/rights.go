package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/test/deploy/node/sandbox"
	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// become gives up what the container may not do, and takes its user.
func become(s *sandbox.Spec) error {
	if s.Seccomp {
		if err := refuseCalls(s); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	for number := range uintptr(unix.CAP_LAST_CAP + 1) {
		if slices.Contains(s.Capabilities, capabilities[number]) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0); err != nil {
			return fmt.Errorf("drop %s: %w", capabilities[number], err)
		}
	}
	groups := make([]int, len(s.Groups))
	for i, g := range s.Groups {
		groups[i] = int(g)
	}
	if err := unix.Setgroups(groups); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := unix.Setresgid(int(s.GID), int(s.GID), int(s.GID)); err != nil {
		return fmt.Errorf("setresgid: %w", err)
	}
	if err := unix.Setresuid(int(s.UID), int(s.UID), int(s.UID)); err != nil {
		return fmt.Errorf("setresuid: %w", err)
	}
	if s.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
	}
	// The process ends with the test that started it; a change of user takes the setting away, so it comes last.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// refuseCalls refuses, with EPERM, what containerd's and Docker's default profiles refuse and what matters to a guard:
// new namespaces, mounts, other processes' memory, the kernel. Calls that a capability of the container allows are
// left.
func refuseCalls(s *sandbox.Spec) error {
	refused := []string{
		"acct", "add_key", "bpf", "delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen",
		"fspick", "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "kexec_file_load", "kexec_load",
		"keyctl", "mount", "mount_setattr", "move_mount", "move_pages", "open_by_handle_at", "open_tree",
		"perf_event_open", "pivot_root", "quotactl", "reboot", "request_key", "setns", "settimeofday", "swapoff",
		"swapon", "syslog", "umount2", "unshare", "userfaultfd", "vhangup",
	}
	if slices.Contains(s.Capabilities, "SYS_ADMIN") {
		return nil
	}
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: false,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      []seccomp.SyscallGroup{{Action: seccomp.ActionErrno, Names: refused}},
		},
	})
}

// capabilities are the kernel's, in the order of their numbers.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)
