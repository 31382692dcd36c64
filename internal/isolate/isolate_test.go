package isolate_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == isolate.Command {
		if err := isolate.Inside(); err != nil {
			os.Stderr.WriteString(err.Error())
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, change func(*isolate.Options)) (*isolate.Place, *bytes.Buffer, error) {
	t.Helper()
	full.Only(t, "root")
	var out bytes.Buffer
	o := isolate.Options{Users: isolate.Users{Own: true}, Program: "/bin/sh", Bounds: isolate.DefaultBounds,
		Stdout: &out, Stderr: &out}
	if change != nil {
		change(&o)
	}
	p, err := isolate.Start(t.Context(), o)
	return p, &out, err
}

// run makes a place and runs the agent in it to its end.
func run(t *testing.T, change func(*isolate.Options), args ...string) (p *isolate.Place, out string, err error) {
	t.Helper()
	p, said, err := start(t, change)
	check.Must(t, err)
	defer p.Listener.Close()
	err = p.Run(isolate.Agent{Args: args, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, CA: newCA(t)})
	return p, said.String(), err
}

// pendingSignals returns how many signals this machine queues for a user.
func pendingSignals(t *testing.T) uint64 {
	t.Helper()
	var limit unix.Rlimit
	check.Must(t, unix.Getrlimit(unix.RLIMIT_SIGPENDING, &limit))
	return limit.Max
}

// newCA makes a CA whose name OpenSSL writes in another way before it makes a hash of it.
func newCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	name := pkix.Name{CommonName: " Interception   CA of Ä ", Organization: []string{"Test"}, Country: []string{"DE"}}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: name, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	check.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// wantUnfit wants an error that says why an agent cannot run anywhere.
func wantUnfit(t *testing.T, err error, why string) {
	t.Helper()
	var unfit *isolate.AgentError
	if !errors.As(err, &unfit) || !strings.Contains(unfit.Reason, why) {
		t.Errorf("got %v, want %q", err, why)
	}
}

// hoarder makes user namespaces and keeps each by a descriptor.
const hoarder = `
import ctypes, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
libc, kept = ctypes.CDLL(None), []
while True:
    ready, say = os.pipe()
    until, end = os.pipe()
    if (child := os.fork()) == 0:
        os.write(say, b"1" if libc.unshare(0x10000000) == 0 else b"0") # CLONE_NEWUSER
        os.read(until, 1)
        os._exit(0)
    made = os.read(ready, 1) == b"1"
    if made: kept.append(os.open(f"/proc/{child}/ns/user", os.O_RDONLY))
    os.write(end, b"1")
    os.waitpid(child, 0)
    for fd in ready, say, until, end: os.close(fd)
    if not made: break
print("none after", len(kept))`

func TestPlace(t *testing.T) {
	t.Chdir("/") // below /tmp, the agent's own /tmp would show the way to the current folder
	for _, tt := range []struct {
		name   string
		change func(*isolate.Options)
		script string
		want   string
		status int
	}{
		{"its user", nil, `id -u; id -g; id -G; cat /proc/self/uid_map | wc -l`, "1000\n1000\n1000\n1\n", 0},
		{"a user that it shares", func(o *isolate.Options) {
			o.Users = isolate.Users{UID: 60570, GID: 60570}
		}, `id -u; id -G`, "60570\n60570\n", 0},
		{"no privileges", nil,
			`grep -c -e 'Cap[A-Z][a-z]*:.*[1-9a-f]' /proc/self/status; grep NoNewPrivs /proc/self/status`,
			"0\nNoNewPrivs:\t1\n", 0},
		{"no privileges of the user that it shares",
			func(o *isolate.Options) { o.Users = isolate.Users{UID: 0, GID: 0} },
			`grep -c -e 'Cap[A-Z][a-z]*:.*[1-9a-f]' /proc/self/status; mount -t tmpfs x /tmp 2>/dev/null || echo refused`,
			"0\nrefused\n", 0},
		{"its processes", nil, `set -- /proc/[0-9]*; echo $#; kill -0 1 2>/dev/null || echo not 1`, "2\nnot 1\n", 0},
		{"its network", nil, `cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | wc -l`, "    lo\n1\n",
			0},
		{"its terminals", nil, `ls /dev/pts; script -qc 'test -t 0 && echo terminal' /dev/null`, "ptmx\nterminal\r\n",
			0},
		{"its devices", nil, `ls /dev | tr '\n' ' '; echo x >/dev/null; head -c 3 /dev/zero | wc -c`,
			"fd full null ptmx pts random shm stderr stdin stdout tty urandom zero 3\n", 0},
		{"what it cannot undo", nil,
			`unshare -Urm sh -c 'umount /tmp || umount -l /run || umount /dev || umount /proc' 2>/dev/null || ls /tmp /run`,
			"/run:\nagent\n\n/tmp:\n", 0},
		{"how many processes it may have", func(o *isolate.Options) { o.Bounds.Processes = 32 },
			`(for i in $(seq 100); do sleep 1000 & done) 2>/dev/null
n=0; for d in /proc/[0-9]*; do n=$((n+1)); done; test $n -gt 25 && test $n -le 34 && echo bounded`, "bounded\n", 0},
		{"how many in namespaces of its own", func(o *isolate.Options) { o.Bounds.Processes = 32 },
			`(unshare -Ur sh -c 'for i in $(seq 100); do sleep 1000 & done') 2>/dev/null
n=0; for d in /proc/[0-9]*; do n=$((n+1)); done; test $n -gt 20 && test $n -le 34 && echo bounded`, "bounded\n", 0},
		{"how many namespaces of a kind it may have", nil, `/usr/bin/python3 -c "$0"`, "none after 256\n", 0},
		{"how many namespaces with a user that it shares", func(o *isolate.Options) {
			o.Users = isolate.Users{UID: 60570, GID: 60570}
		}, `/usr/bin/python3 -c "$0"`, "none after 256\n", 0},
		{"how many namespaces in a namespace of its own", nil, `unshare -Ur /usr/bin/python3 -c "$0"`,
			"none after 255\n", 0},
		{"how many instances of inotify it may have", nil, `/usr/bin/python3 -c 'import ctypes
libc = ctypes.CDLL(None)
print(sum(libc.inotify_init() >= 0 for i in range(100)))'`, "32\n", 0},
		{"how much of what the kernel counts for root", nil, `
for of in inotify/max_user_watches fanotify/max_user_groups fanotify/max_user_marks; do
  echo $(($(cat /proc/sys/fs/$of) / 4 - $(cat /proc/sys/user/max_$(echo $of | sed s,/max_user,,))))
done
python3 -c 'import ctypes, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
send, n = ctypes.CDLL(None).sigqueue, 0
while n < 1 << 17 and send(os.getpid(), signal.SIGRTMIN, None) == 0: n += 1
print(n)'`, fmt.Sprintf("0\n0\n0\n%d\n", pendingSignals(t)/16), 0},
		{"how much it may keep in memory", func(o *isolate.Options) { o.Bounds.TempMiB = 8 },
			`for f in /tmp/a /var/tmp/b /run/agent/home/c /dev/shm/d; do
  head -c 3M /dev/zero >$f 2>/dev/null && echo $f
done; true`, "/tmp/a\n/var/tmp/b\n", 0},
		{"how many empty files it may keep in memory", func(o *isolate.Options) { o.Bounds.TempMiB = 1 },
			`cd /tmp && touch $(seq 1000) 2>/dev/null; test $(ls | wc -l) -lt 256 && echo bounded`, "bounded\n", 0},
		{"no files that make others its user or group", nil,
			`cd /tmp; cp /bin/true a; for who in u g; do chmod $who+s a 2>/dev/null || echo refused; done
/usr/bin/python3 -c 'import os
for mode in 0o4755, 0o2755, 0o6755:
    for make in (lambda: os.open("b", os.O_CREAT, mode), lambda: os.mknod("c", 0o100000 | mode),
        lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, mode), lambda: os.fchmod(os.open("a", 0), mode)):
        try: make()
        except PermissionError: print("refused")'; find . -perm /6000`, strings.Repeat("refused\n", 2+3*4), 0},
		{"its end", nil, `exit 3`, "", 3},
		{"its end by a signal", nil, `kill -TERM $$`, "", 128 + 15},
		{"its daemons end with it", nil,
			`(setsid sh -c 'trap "" TERM; echo begun; >/tmp/begun; while :; do sleep 1000; done' &)
while [ ! -e /tmp/begun ]; do sleep 0.01; done; exit 4`, "begun\n", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, out, err := run(t, tt.change, "sh", "-c", tt.script, hoarder)
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status, err = exit.ExitCode(), nil
			}
			if err != nil || status != tt.status || out != tt.want {
				t.Errorf("status %d, %q, %v, want %d, %q", status, out, err, tt.status, tt.want)
			}
			if syscall.Kill(p.Init, 0) == nil {
				t.Error("the place outlives its agent")
			}
		})
	}
}

// reached is an agent that opens each way in and prints its pid; reaches tries the ways from outside.
const (
	reached = `
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(4, 1, 0, 0, 0) # dumpable
libc.prctl(0x59616d61, -1, 0, 0, 0) # any process may trace this one (Yama)
s = socket.socket(socket.AF_UNIX); s.bind("\0" + sys.argv[1]); s.listen()
m = libc.shmget(int(sys.argv[1]), 4096, 0o1666)
q = libc.mq_open(b"/" + sys.argv[1].encode(), 0o102, 0o666, None)
print(os.getpid() if m >= 0 and q >= 0 else "not ready", flush=True)
time.sleep(1000)`
	reaches = `
import ctypes, os, signal, socket, sys
name, pid = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0: raise OSError(ctypes.get_errno(), name)
here = ctypes.create_string_buffer(8)
class part(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
start = int(open(f"/proc/{os.getpid()}/maps").readline().split("-")[0], 16)
local, far = part(ctypes.addressof(here), 8), part(start, 8)
def memory(name):
    failed = getattr(libc, name)(pid, ctypes.byref(local), 1, ctypes.byref(far), 1, 0) < 0
    if failed and ctypes.get_errno() == 1: raise PermissionError
for way, do in {
    "signal": lambda: os.kill(pid, 0), "ptrace": lambda: call("ptrace", 16, pid, 0, 0),
    "read memory": lambda: memory("process_vm_readv"), "write memory": lambda: memory("process_vm_writev"),
    "mem": lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR), "output": lambda: os.readlink(f"/proc/{pid}/fd/1"),
    "environ": lambda: os.open(f"/proc/{pid}/environ", 0), "root": lambda: os.listdir(f"/proc/{pid}/root"),
    "namespace": lambda: os.open(f"/proc/{pid}/ns/mnt", 0),
    "socket": lambda: socket.socket(socket.AF_UNIX).connect("\0" + name),
    "shared memory": lambda: call("shmget", int(name), 4096, 0o666),
    "queue": lambda: call("mq_open", b"/" + name.encode(), 2, 0, None),
}.items():
    try: do(); print("open:", way)
    except OSError: print("closed:", way)
libc.shmctl(libc.shmget(int(name), 0, 0), 0, 0) # remove it, where there is one
libc.mq_unlink(b"/" + name.encode())`
)

// TestNoWayIntoAPlace has another user try all ways into an agent that opens them. Outside a place the same user
// succeeds.
func TestNoWayIntoAPlace(t *testing.T) {
	full.Only(t, "root")
	other := &syscall.Credential{Uid: uint32(60000 + os.Getpid()%500), Gid: 60573}
	try := func(name string, pid int) string {
		cmd := exec.Command("/usr/bin/python3", "-c", reaches, name, fmt.Sprint(pid))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: other, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v %s", err, out)
		}
		return string(out)
	}
	line := func(r io.Reader) (pid int) {
		if _, err := fmt.Fscanln(r, &pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	name := fmt.Sprint(1_000_000 + os.Getpid())

	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := isolate.Start(ctx, isolate.Options{
		Users: isolate.Users{Own: true}, Program: "/usr/bin/python3", Bounds: isolate.DefaultBounds, Stdout: w,
		Stderr: os.Stderr,
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- p.Run(isolate.Agent{Args: []string{"python3", "-c", reached, name}}) }()
	line(r)
	for _, pid := range below(t, p.Init) {
		if out := try(name, pid); strings.Contains(out, "open:") || strings.Count(out, "closed:") != 12 {
			t.Error(out)
		}
	}
	cancel()
	<-ended

	agent := exec.Command("/usr/bin/python3", "-c", reached, name)
	agent.SysProcAttr = &syscall.SysProcAttr{Credential: other, Pdeathsig: syscall.SIGKILL}
	said, err := agent.StdoutPipe()
	check.Must(t, errors.Join(err, agent.Start()))
	pid := line(said)
	if out := try(name, pid); strings.Contains(out, "closed:") {
		t.Errorf("what is closed outside of a place shows nothing:\n%s", out)
	}
	_ = agent.Process.Kill()
	_ = agent.Wait()
}

// below returns the processes that a process has started.
func below(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(raw)) {
			child, err := strconv.Atoi(field)
			check.Must(t, err)
			pids = append(pids, child)
		}
	}
	if len(pids) == 0 {
		t.Fatal("the place has no process")
	}
	return pids
}

// TestOwnUsers starts several runs where one block of user IDs is free. At most one of them gets it.
func TestOwnUsers(t *testing.T) {
	full.Only(t, "root")
	const first, size, slots, free, taken = 0xC000_0000, 1 << 16, 0x2FFF, 0x1234, 0x1235
	// Run again where all other blocks have a group: tests of other packages that run meanwhile need blocks too.
	if os.Getenv("GROUPS_TAKEN") == "" {
		groups, err := os.ReadFile("/etc/group")
		check.Must(t, err)
		for i := range slots {
			if i != free && i != taken {
				groups = fmt.Appendf(groups, "taken%d:x:%d:\n", i, first+i*size+7)
			}
		}
		file := filepath.Join(t.TempDir(), "group")
		check.Must(t, os.WriteFile(file, groups, 0o644))
		self, err := os.Executable()
		check.Must(t, err)
		again := exec.Command("unshare", "--mount", "sh", "-ec",
			`mount --bind "$1" /etc/group && exec "$0" -test.run='^TestOwnUsers$'`, self, file)
		again.Env = append(os.Environ(), "GROUPS_TAKEN=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	process := exec.Command("sleep", "1000")
	process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{first + taken*size +
		7}},
		Pdeathsig: syscall.SIGKILL}
	check.Must(t, process.Start())
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
	var wait sync.WaitGroup
	places := make(chan *isolate.Place, 8)
	for range cap(places) {
		wait.Go(func() {
			p, _, err := start(t, nil)
			if err != nil && !strings.Contains(err.Error(), "user ids") {
				t.Error(err)
			}
			if err == nil {
				places <- p
			}
		})
	}
	wait.Wait()
	close(places)
	if len(places) > 1 {
		t.Errorf("%d runs have the same users", len(places))
	}
	for p := range places {
		p.Close()
	}
	p, _, err := start(t, nil)
	check.Must(t, err)
	defer p.Close()
	if ids, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", p.Init)); err != nil ||
		!strings.Contains(string(ids), fmt.Sprint(first+free*size)) {
		t.Errorf("%s, %v", ids, err)
	}
}

// TestNetwork connects from inside, by the listener's address, by names and by other addresses, to the launcher's
// listener.
func TestNetwork(t *testing.T) {
	p, out, err := start(t, func(o *isolate.Options) { o.Program = "/usr/bin/python3" })
	check.Must(t, err)
	l, err := net.FileListener(p.Listener)
	check.Must(t, err)
	p.Listener.Close()
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = io.WriteString(c, "the mediator")
			c.Close()
		}
	}()
	const agent = `
import socket
def says(family, kind, to, send=b""):
    s = socket.socket(family, kind)
    s.settimeout(60)
    try:
        s.connect(to)
        if send: s.send(send)
        return s.recv(100)
    except OSError as e: return type(e).__name__
for to in ("127.0.0.1", 8181), ("api.test", 443), ("smtp.test", 25), ("1.2.3.4", 8443), ("169.254.169.254", 80):
    print(says(socket.AF_INET, socket.SOCK_STREAM, to))
print(says(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 443)))
print(says(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 9)))
print(says(socket.AF_INET, socket.SOCK_DGRAM, ("api.test", 443), b"QUIC"))
q = b"\0\7\1\0\0\1\0\0\0\0\0\0\3api\4test\0\0\1\0\1"
answer = says(socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53), q)
print(socket.inet_ntoa(answer[-4:]) == socket.gethostbyname("api.test"))`
	if err := p.Run(isolate.Agent{Args: []string{"python3", "-c", agent}, CA: newCA(t)}); err != nil ||
		out.String() != strings.Repeat("b'the mediator'\n", 6)+strings.Repeat("ConnectionRefusedError\n", 2)+"True\n" {
		t.Errorf("%s, %v", out, err)
	}
	if !p.Transparent {
		t.Error("the place is not transparent")
	}
}

// TestTrust wants programs that read no variable to trust the CA.
func TestTrust(t *testing.T) {
	_, out, err := run(t, nil, "sh", "-c", `set -e
openssl verify -CApath /etc/ssl/certs /run/agent/ca.pem
openssl verify -no-CApath -CAfile /etc/ssl/certs/ca-certificates.crt /run/agent/ca.pem
test $(ls /etc/ssl/certs | wc -l) -gt 100`)
	if want := strings.Repeat("/run/agent/ca.pem: OK\n", 2); err != nil || out != want {
		t.Errorf("%q, %v", out, err)
	}
}

func TestPrograms(t *testing.T) {
	dir, err := os.MkdirTemp("", "programs-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.Must(t, os.Chmod(dir, 0o755))
	program := func(name string, mode, folder os.FileMode) string {
		at := filepath.Join(dir, name)
		check.Must(t, errors.Join(os.Mkdir(at, 0o755),
			os.WriteFile(filepath.Join(at, "p"), []byte("#!/bin/sh\necho started in $(pwd)\n"), 0o644),
			os.Chmod(filepath.Join(at, "p"), mode), os.Chmod(at, folder)))
		return filepath.Join(at, "p")
	}
	link := filepath.Join(dir, "link")
	check.Must(t, os.Symlink(program("linked", 0o755, 0o755), link))
	closed, hidden := program("closed", 0o700, 0o755), program("hidden", 0o755, 0o700)
	below := filepath.Join(filepath.Dir(hidden), "open")
	check.Must(t, errors.Join(os.Mkdir(below, 0o755), os.Symlink(link, filepath.Join(below, "link")),
		os.WriteFile(filepath.Join(below, "p"), []byte("#!/bin/sh\necho started in $(pwd)\n"), 0o755)))
	for _, tt := range []struct {
		program, dir, refused, started string
	}{
		{link, filepath.Dir(hidden), "", isolate.Home},
		{filepath.Join(below, "link"), below, "", below},
		{filepath.Join(below, "p"), below, "", below},
		{filepath.Join(below, "p"), "/", "permission denied", ""},
		{closed, "/", "permission denied", ""},
		{hidden, "/", "permission denied", ""},
		{hidden, below, "permission denied", ""},
		{filepath.Join(dir, "absent"), "/", "no such file", ""},
		{dir, "/", "is a directory", ""},
	} {
		t.Chdir(tt.dir)
		change := func(o *isolate.Options) { o.Program = tt.program }
		if tt.refused != "" {
			_, _, err := start(t, change)
			wantUnfit(t, err, tt.refused)
			continue
		}
		_, out, err := run(t, change, "p")
		if err != nil || !strings.HasSuffix(out, "started in "+tt.started+"\n") ||
			strings.Contains(out, "cannot enter "+tt.dir) != (tt.started == isolate.Home) {
			t.Errorf("%s: %v %s", tt.program, err, out)
		}
	}
}

// TestClosedFolder starts an agent below a folder that its user may not enter. The agent has its own folder, whose
// files it can change as far as they are open to every user, and nothing else of the closed one.
func TestClosedFolder(t *testing.T) {
	full.Only(t, "root")
	dir, err := os.MkdirTemp("/srv", "closed-")
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	work := filepath.Join(dir, "a", "work")
	check.Must(t, errors.Join(os.MkdirAll(work, 0o755), os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644),
		os.WriteFile(filepath.Join(work, "private"), nil, 0o600), os.Mkdir(filepath.Join(work, "open"), 0),
		os.Chmod(filepath.Join(work, "open"), 0o777),
		os.Symlink(filepath.Join(dir, "secret"), filepath.Join(work, "link"))))
	t.Chdir(work)
	_, out, err := run(t, nil, "sh", "-c", `pwd; ls; ls $0 ..; echo x > $0/a/work/open/new
cat private link 2>&1 | grep -c -e 'Permission denied' -e 'No such file'
touch $0/new 2>/dev/null || echo refused`, dir)
	if want := work + "\nlink\nopen\nprivate\n..:\nwork\n\n" + dir + ":\na\n2\nrefused\n"; err != nil || out != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	if raw, err := os.ReadFile(filepath.Join(work, "open", "new")); string(raw) != "x\n" {
		t.Errorf("written %q, %v", raw, err)
	}
}

// TestHiddenFolders refuses an agent whose folder would be empty, before anything is used up.
func TestHiddenFolders(t *testing.T) {
	for _, dir := range []string{"/tmp", "/run", "/var/tmp", "/var/run", "/tmp/.", "/proc/self/root/tmp"} {
		t.Chdir(dir)
		_, _, err := start(t, nil)
		wantUnfit(t, err, "it has its own, empty ")
	}
}

// TestElsewhere mounts hidden folders at other paths too, as in a chroot. The agent finds nothing there, and does not
// start there.
func TestElsewhere(t *testing.T) {
	full.Only(t, "root")
	for _, parent := range []string{"/srv", os.TempDir()} {
		dir, err := os.MkdirTemp(parent, "a chroot-")
		check.Must(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		at := func(name string) string { return filepath.Join(dir, name) }
		check.Must(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile("/run/"+filepath.Base(dir), nil, 0o644),
			os.WriteFile(at("file"), nil, 0o644)))
		t.Cleanup(func() { os.Remove("/run/" + filepath.Base(dir)) })
		mount := func(source, name, kind string, flags uintptr) {
			t.Helper()
			if kind != "" || name != "file" {
				check.Must(t, os.Mkdir(at(name), 0o755))
			}
			check.Must(t, syscall.Mount(source, at(name), kind, flags, ""))
			t.Cleanup(func() { _ = syscall.Unmount(at(name), syscall.MNT_DETACH) })
		}
		mount("proc", "proc", "proc", 0)
		mount("/run", "run", "", syscall.MS_BIND)
		mount("/tmp", "tmp", "", syscall.MS_BIND)
		mount("/", "root", "", syscall.MS_BIND)
		mount("/run/"+filepath.Base(dir), "file", "", syscall.MS_BIND)
		script := `touch proc/x run/x 2>/dev/null && echo writable
for d in proc run tmp root/tmp root/var/tmp; do echo $d $(ls $d | wc -l); done
test -f file || echo no file; test -e root/etc/passwd && echo the rest`
		t.Chdir(dir)
		_, out, err := run(t, nil, "sh", "-c", script)
		if err != nil || out != "proc 0\nrun 0\ntmp 0\nroot/tmp 0\nroot/var/tmp 0\nno file\nthe rest\n" {
			t.Errorf("%s: %v %s", parent, err, out)
		}
		for _, in := range []string{"proc", "run", "tmp", "root/tmp"} {
			t.Chdir(at(in))
			_, _, err := start(t, nil)
			wantUnfit(t, err, "is in a folder that shows this machine's")
		}
	}
}

func TestCommandByHand(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", isolate.Command).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "only mediator run uses this command") {
		t.Errorf("%v %s", err, out)
	}
}
