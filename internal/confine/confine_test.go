package confine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// order tells a child of a test how to confine itself, if at all, and what to try then.
type order struct {
	Confine *confine.Limits `json:"confine"`
	Looker  bool            `json:"looker"` // else it is a service
	Dir     string          `json:"dir"`
	Try     []string        `json:"try"`
	Wait    bool            `json:"wait"` // for the end of its standard input
}

// answer is the child's result.
type answer struct {
	Refused string            `json:"refused"` // why it was not confined
	Tried   map[string]string `json:"tried"`   // the error of each attempt; empty where it worked
	Layers  []confine.Layer   `json:"layers"`
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		child(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func child(told string) {
	var o order
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		panic(err)
	}
	a := answer{Tried: make(map[string]string)}
	threads := startThreads() // those that there are before, too
	if o.Confine != nil {
		o.Confine.Syscalls = confine.ServiceSyscalls()
		if o.Looker {
			o.Confine.Syscalls = confine.LookerSyscalls()
		}
		c, err := confine.Apply(*o.Confine)
		if err != nil {
			a.Refused = err.Error()
		} else if !o.Looker {
			a.Layers = c.Layers()
		}
	}
	for _, name := range o.Try {
		for _, all := range []map[string]func(string) error{refusedCalls, allowedCalls, otherAttempts} {
			if do := all[name]; do != nil {
				a.Tried[name] = errName(do(o.Dir))
			}
		}
	}
	a.Tried["in another thread"] = threads()
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(raw, '\n'))
	if o.Wait {
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

// startThreads holds threads that try to make a namespace once they are released, and returns their results.
func startThreads() func() string {
	const n = 8
	begin, ready, errs := make(chan bool), make(chan bool), make(chan error, n)
	for range n {
		go func() {
			runtime.LockOSThread()
			ready <- true
			<-begin
			errs <- unix.Unshare(0)
		}()
		<-ready
	}
	return func() string {
		close(begin)
		var out []string
		for range n {
			out = append(out, errName(<-errs))
		}
		slices.Sort(out)
		return strings.Join(slices.Compact(out), " ")
	}
}

func errName(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func call(number uintptr, args ...uintptr) func(string) error {
	return func(string) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func socket(family, kind, protocol int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func memory(prot, then int) func(string) error {
	return func(string) error {
		m, err := unix.Mmap(-1, 0, 4096, prot, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err == nil && then != 0 {
			err = unix.Mprotect(m, then)
		}
		return err
	}
}

func tcp(do func(fd int, at unix.Sockaddr) error, port int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
}

func at(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func reading(path string) func(string) error {
	return func(dir string) error { _, err := os.ReadFile(at(dir, path)); return err }
}

func listing(path string) func(string) error {
	return func(dir string) error { _, err := os.ReadDir(at(dir, path)); return err }
}

func writing(path string) func(string) error {
	return func(dir string) error { return os.WriteFile(at(dir, path), nil, 0o600) }
}

func renaming(from, to string) func(string) error {
	return func(dir string) error { return unix.Rename(at(dir, from), at(dir, to)) }
}

// Ports of the tests, which no kernel assigns by itself and where no process listens.
const (
	mayBind, mayNotBind       = 20461, 20462
	mayConnect, mayNotConnect = 20463, 20464
)

const bad = ^uintptr(0)

// refusedCalls are system calls that the filter of a service refuses. Most have arguments that no kernel accepts:
// without a filter nothing happens, but another error comes back.
var refusedCalls = map[string]func(dir string) error{
	"execute":           func(string) error { return unix.Exec("/nowhere", nil, nil) },
	"start a process":   func(string) error { return exec.Command("/bin/true").Run() },
	"ptrace":            call(unix.SYS_PTRACE, bad, bad),
	"process_vm_readv":  call(unix.SYS_PROCESS_VM_READV, bad),
	"process_vm_writev": call(unix.SYS_PROCESS_VM_WRITEV, bad),
	"mount":             call(unix.SYS_MOUNT, 0, 0, 0),
	"umount2":           call(unix.SYS_UMOUNT2, 0, 0),
	"fsopen":            call(unix.SYS_FSOPEN, 0, bad),
	"unshare":           call(unix.SYS_UNSHARE, 0),
	"setns":             call(unix.SYS_SETNS, bad, 0),
	"clone a namespace": call(unix.SYS_CLONE, unix.CLONE_NEWNS|unix.CLONE_FS),
	"kexec_load":        call(unix.SYS_KEXEC_LOAD, 0, bad, 0, bad),
	"bpf":               call(unix.SYS_BPF, bad, 0, 0),
	"perf_event_open":   call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0),
	"init_module":       call(unix.SYS_INIT_MODULE, 0, 0, 0),
	"finit_module":      call(unix.SYS_FINIT_MODULE, bad, 0, 0),
	"delete_module":     call(unix.SYS_DELETE_MODULE, 0, 0),
	"keyctl":            call(unix.SYS_KEYCTL, bad),
	"add_key":           call(unix.SYS_ADD_KEY, 0, 0, 0, bad),
	"request_key":       call(unix.SYS_REQUEST_KEY, 0, 0, 0, 0),
	"userfaultfd":       call(unix.SYS_USERFAULTFD, 0x7ff0),
	"io_uring_setup":    call(unix.SYS_IO_URING_SETUP, 0, 0),
	"pivot_root":        call(unix.SYS_PIVOT_ROOT, 0, 0),
	"chroot":            call(unix.SYS_CHROOT, 0),
	"swapon":            call(unix.SYS_SWAPON, 0, 0),
	"reboot":            call(unix.SYS_REBOOT, 0, 0, 0),
	"personality":       call(unix.SYS_PERSONALITY, 0xffffffff),
	"setuid":            call(unix.SYS_SETUID, bad),
	"capset":            call(unix.SYS_CAPSET, 0, 0),
	"mlockall":          call(unix.SYS_MLOCKALL, bad),
	"memfd_create":      call(unix.SYS_MEMFD_CREATE, 0, 0),
	"pidfd_open":        call(unix.SYS_PIDFD_OPEN, bad, 0),
	"open_by_handle_at": call(unix.SYS_OPEN_BY_HANDLE_AT, bad, 0, 0),
	"become dumpable":   func(string) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) },
	"set a limit": func(string) error {
		return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 3600, Max: 3600})
	},
	"type a key":         call(unix.SYS_IOCTL, bad, unix.TIOCSTI, 0),
	"signal its parent":  func(string) error { return unix.Kill(os.Getppid(), 0) },
	"a packet socket":    socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"a vsock":            socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"a kernel cipher":    socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"MPTCP":              socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
	"SCTP":               socket(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
	"netlink audit":      socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
	"executable memory":  memory(unix.PROT_READ|unix.PROT_EXEC, 0),
	"make it executable": memory(unix.PROT_READ|unix.PROT_WRITE, unix.PROT_READ|unix.PROT_EXEC),
}

// allowedCalls are system calls that it allows.
var allowedCalls = map[string]func(dir string) error{
	"signal itself": func(string) error { return unix.Kill(os.Getpid(), 0) },
	"TCP":           socket(unix.AF_INET, unix.SOCK_STREAM, 0),
	"UDP over IPv6": socket(unix.AF_INET6, unix.SOCK_DGRAM, 0),
	"netlink route": socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
	"a unix socket": socket(unix.AF_UNIX, unix.SOCK_STREAM, 0),
	"memory":        memory(unix.PROT_READ|unix.PROT_WRITE, unix.PROT_READ),
}

// otherAttempts are the other attempts of children.
var otherAttempts = map[string]func(dir string) error{
	"clone3":                call(unix.SYS_CLONE3, 0, 0),
	"read":                  reading("read/file"),
	"read what is new":      listing("read"),
	"read one file":         reading("one"),
	"read another file":     reading("other"),
	"read the password":     reading("/etc/passwd"),
	"list the root":         listing("/"),
	"write what it reads":   writing("read/file"),
	"make a file":           writing("write/new"),
	"make a file elsewhere": writing("new"),
	"replace a file": func(dir string) error {
		return errors.Join(writing("write/a")(dir), renaming("write/a", "write/b")(dir))
	},
	"move a file":     renaming("move/from/file", "move/to/file"),
	"move a file out": renaming("write/from/file", "write/to/file"),
	"make a socket": func(dir string) error {
		l, err := net.Listen("unix", filepath.Join(dir, "listen", "s"))
		if err == nil {
			err = l.Close()
		}
		return err
	},
	"make a file beside it":   writing("listen/new"),
	"bind":                    tcp(unix.Bind, mayBind),
	"bind another port":       tcp(unix.Bind, mayNotBind),
	"connect":                 tcp(unix.Connect, mayConnect),
	"connect to another port": tcp(unix.Connect, mayNotConnect),
	"read a link":             func(string) error { _, err := os.Readlink("/proc/self/exe"); return err },
	"open a file":             reading("/proc/self/status"),
	"read its parent's standard": func(string) error {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", os.Getppid()))
		return err
	},
}

// run runs a child to its end.
func run(t *testing.T, o order) answer {
	t.Helper()
	raw, err := json.Marshal(o)
	check.Must(t, err)
	out, err := exec.CommandContext(t.Context(), os.Args[0], "child", string(raw)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	var a answer
	if err := errors.Join(err, json.Unmarshal(out, &a)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

// all are all capabilities: a child that has them is not refused for lack of one.
func all() (out []cap.Value) {
	for v := cap.Value(0); v < cap.MaxBits(); v++ {
		out = append(out, v)
	}
	return out
}

// kernelABI is the kernel's version of Landlock, or 0.
func kernelABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

func TestSystemCalls(t *testing.T) {
	refused, allowed := slices.Sorted(maps.Keys(refusedCalls)), slices.Sorted(maps.Keys(allowedCalls))
	allowed = append(allowed, "read the password")
	try := slices.Concat(refused, allowed, []string{"clone3"})
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: other users lack capabilities for some of these calls")
	}
	free := run(t,
		order{Confine: &confine.Limits{Landlock: confine.Off, Seccomp: confine.Off, Capabilities: all()}, Try: try})
	held := run(t, order{Confine: &confine.Limits{Landlock: confine.Off, Capabilities: all()}, Try: try})
	if held.Refused != "" {
		t.Fatal(held.Refused)
	}
	for _, what := range refused {
		if held.Tried[what] != "EPERM" || free.Tried[what] == "EPERM" {
			t.Errorf("%s: %q, and without a filter %q", what, held.Tried[what], free.Tried[what])
		}
	}
	for _, what := range allowed {
		if held.Tried[what] != "" {
			t.Errorf("%s: %q", what, held.Tried[what])
		}
	}
	if held.Tried["clone3"] != "ENOSYS" || free.Tried["clone3"] == "ENOSYS" {
		t.Errorf("clone3: %q, %q", held.Tried["clone3"], free.Tried["clone3"])
	}
	if held.Tried["in another thread"] != "EPERM" || free.Tried["in another thread"] != "" {
		t.Errorf("threads that were there before: %q, %q", held.Tried["in another thread"],
			free.Tried["in another thread"])
	}
}

// TestLooker tries what the looker must not do.
func TestLooker(t *testing.T) {
	try := []string{"read a link", "read its parent's standard", "open a file", "TCP", "a unix socket",
		"start a process", "executable memory"}
	a := run(t, order{
		Confine: &confine.Limits{Landlock: confine.Off, Capabilities: []cap.Value{cap.SYS_PTRACE, cap.DAC_READ_SEARCH}},
		Looker:  true, Try: try})
	if a.Refused != "" {
		t.Fatal(a.Refused)
	}
	for i, what := range try {
		if want := map[bool]string{true: "", false: "EPERM"}[i < 2]; a.Tried[what] != want {
			t.Errorf("%s: %q", what, a.Tried[what])
		}
	}
}

func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"read/file", "one", "other", "write/from/file", "write/to/x", "move/from/file",
		"move/to/x", "listen/x"} {
		path := filepath.Join(dir, name)
		check.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)))
	}
	return dir
}

func limits(dir string) *confine.Limits {
	return &confine.Limits{
		Files: []confine.File{
			{filepath.Join(dir, "read"), confine.Read}, {filepath.Join(dir, "one"), confine.Read},
			{filepath.Join(dir, "write"), confine.Write},
			{filepath.Join(dir, "move"), confine.Move}, {filepath.Join(dir, "listen"), confine.Listen},
			{filepath.Join(dir, "absent"), confine.Write},
			{"/proc/self", confine.Read},
		},
		Bind: []uint16{mayBind}, Connect: []uint16{mayConnect}, Landlock: confine.BestEffort,
	}
}

// TestFilesAndPorts tries files and ports inside and outside of the limits. Without Landlock nothing is refused.
func TestFilesAndPorts(t *testing.T) {
	type denial struct {
		abi  int // the first version of Landlock that refuses it
		want string
	}
	denied := map[string]denial{
		"read": {}, "read what is new": {}, "read one file": {}, "make a file": {}, "replace a file": {},
		"move a file":   {},
		"make a socket": {}, "bind": {}, "connect": {0, "ECONNREFUSED"}, "read another file": {1, "EACCES"},
		"read the password": {1, "EACCES"}, "list the root": {1, "EACCES"}, "write what it reads": {1, "EACCES"},
		"make a file elsewhere": {1, "EACCES"}, "make a file beside it": {1, "EACCES"}, "move a file out": {2, "EXDEV"},
		"bind another port": {4, "EACCES"}, "connect to another port": {4, "EACCES"}, "signal its parent": {6, "EPERM"},
	}
	try := slices.Sorted(maps.Keys(denied))
	free := run(t, order{Dir: tree(t), Try: try})
	without := map[string]string{"connect": "ECONNREFUSED", "connect to another port": "ECONNREFUSED"}
	for _, anyConnect := range []bool{false, true} {
		dir := tree(t)
		l := limits(dir)
		l.Seccomp, l.AnyConnect = confine.Off, anyConnect
		if anyConnect {
			denied["connect to another port"] = denied["connect"]
		}
		a := run(t, order{Confine: l, Dir: dir, Try: try})
		if a.Refused != "" {
			t.Fatal(a.Refused)
		}
		for what, d := range denied {
			want := d.want
			if kernelABI() < d.abi {
				want = without[what]
			}
			if a.Tried[what] != want || free.Tried[what] != without[what] {
				t.Errorf("%s (any port: %t): %q, want %q; and without Landlock %q", what, anyConnect, a.Tried[what],
					want, free.Tried[what])
			}
		}
		for _, layer := range a.Layers {
			if anyConnect && layer.Name == confine.Ports &&
				(layer.InForce || !strings.HasPrefix(layer.Seen, "It may ")) {
				t.Errorf("it says %+v", layer)
			}
		}
	}
}

func TestLayers(t *testing.T) {
	inForce := func(a answer) (out []string) {
		for _, l := range a.Layers {
			if l.InForce {
				out = append(out, l.Name)
			}
			if !strings.HasSuffix(l.Seen, ".") {
				t.Errorf("%+v is no sentence", l)
			}
		}
		return out
	}
	always := []string{confine.Memory, confine.Privileges, confine.Capabilities}
	withLandlock := func(layers ...string) []string {
		if kernelABI() >= 1 {
			layers = append(layers, confine.Files)
		}
		if kernelABI() >= 4 {
			layers = append(layers, confine.Ports)
		}
		return layers
	}
	off := func(l confine.Limits) confine.Limits { l.Landlock, l.Seccomp = confine.Off, confine.Off; return l }
	noSeccomp := func(l confine.Limits) confine.Limits { l.Seccomp = confine.Off; return l }
	dir := tree(t)
	for _, tt := range []struct {
		name   string
		limits confine.Limits
		want   []string
	}{
		{"all", *limits(dir), withLandlock(append(slices.Clone(always), confine.SystemCalls)...)},
		{"without seccomp", noSeccomp(*limits(dir)), withLandlock(slices.Clone(always)...)},
		{"neither", off(*limits(dir)), always},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := run(t, order{Confine: &tt.limits, Dir: dir})
			if got := inForce(a); a.Refused != "" || !slices.Equal(got, tt.want) {
				t.Errorf("in force: %q, want %q %s\n%+v", got, tt.want, a.Refused, a.Layers)
			}
		})
	}
}

func TestRequired(t *testing.T) {
	dir := tree(t)
	l := limits(dir)
	l.Landlock = confine.Required
	a := run(t, order{Confine: l, Dir: dir})
	if (a.Refused != "") != (kernelABI() < 6) {
		t.Errorf("with ABI %d: %q", kernelABI(), a.Refused)
	}
}

// TestOutOfReach has another process of the same user read a child's memory.
func TestOutOfReach(t *testing.T) {
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: they take another user")
	}
	dir := tree(t)
	for _, tt := range []struct {
		name    string
		confine *confine.Limits
		reached bool
	}{
		{"confined", &confine.Limits{Landlock: confine.Off, Seccomp: confine.Off}, false},
		{"not confined", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw, err := json.Marshal(order{Confine: tt.confine, Dir: dir, Wait: true})
			child := other(exec.Command("/proc/self/exe", "child", string(raw)))
			stdin, errIn := child.StdinPipe()
			stdout, errOut := child.StdoutPipe()
			check.Must(t, errors.Join(err, errIn, errOut, child.Start()))
			defer func() { stdin.Close(); _ = child.Wait() }()
			var a answer
			if err := json.NewDecoder(stdout).Decode(&a); err != nil || a.Refused != "" {
				t.Fatal(err, a.Refused)
			}
			for _, file := range []string{"environ", "mem"} {
				from := fmt.Sprintf("if=/proc/%d/%s", child.Process.Pid, file)
				err := other(exec.Command("dd", "bs=1", "count=0", "status=none", from)).Run()
				if (err == nil) != tt.reached {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}

// other runs a command as its own user.
func other(c *exec.Cmd) *exec.Cmd {
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	return c
}
