package runs

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

//go:embed testdata/ways.py
var tryWays string

// TestNoWayOutOfARun has an isolated agent try what would lead past the mediator, without rules of mediator guard. The
// ways are open outside the run.
func TestNoWayOutOfARun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	listen := func(network, address string) string {
		l, err := net.Listen(network, address)
		check.Must(t, err)
		t.Cleanup(func() { l.Close() })
		return network + " " + l.Addr().String()
	}
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	check.Must(t, err)
	defer datagrams.Close()
	dir := openFolder(t, "")
	ways := []string{
		listen("tcp", "127.0.0.1:0"), listen("tcp", "[::1]:0"), "tcp " + r.Hooks, "tcp " + r.PlainAddr,
		"udp " + datagrams.LocalAddr().String(), "udp 169.254.169.254:443", "udp 1.1.1.1:443", "udp [2606:4700::1111]:443",
		listen("unix", "@mediator-test-"+strconv.Itoa(os.Getpid())), listen("unix", dir+"/socket"),
		"unix " + r.Stack.Socket("serve"), "socket 40", "socket 17", "socket 38", "uring 0", "key 0",
	}
	all := strings.Join(ways, "\n")
	stdout, stderr, err := r.StartRun(t, nil, nil,
		`/usr/bin/python3 -c "$0" "$1"; curl -sS -o /dev/null -w '%{http_code}\n' "https://$2/repos/acme/site"`,
		tryWays, all, r.Plain())
	if err != nil || strings.Contains(stdout, "OPEN") || strings.Count(stdout, "closed ") != len(ways) ||
		!strings.HasSuffix(stdout, "\n200\n") {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
	outside, err := exec.Command("/usr/bin/python3", "-c", tryWays, all).Output()
	check.Must(t, err)
	for _, way := range []string{
		"tcp 127.0.0.1:", "tcp [::1]:", "tcp " + r.Hooks, "udp 127.0.0.1:", "unix @mediator-test-", "unix " + dir, "key 0",
	} {
		if !strings.Contains(string(outside), "OPEN "+way) {
			t.Errorf("%s is closed outside too, so this test shows nothing:\n%s", way, outside)
		}
	}
}

// hiddenShell is a shell whose first thread has ended. It looks for credentials of a session in the environment of all
// processes, and posts with what it finds, and without.
//
//go:embed testdata/hidden.py
var hiddenShell string

// TestHiddenShell has a user with the agents' configured uid hide a shell from looks at processes, and post. An
// isolated agent has another user and nothing worth reading. The session of an agent that shares the user is tainted.
func TestHiddenShell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	shell := func(t *testing.T) (end func(), said string) {
		t.Helper()
		cmd, line := beside(t, r.User, "/usr/bin/python3", "-c", hiddenShell, "http://"+r.Listen,
			"https://"+r.Plain()+kit.Comments)
		return func() { endBeside(cmd) }, line
	}
	t.Run("isolated", func(t *testing.T) {
		a := startObedient(t, r)
		before := r.Posts.Load()
		end, said := shell(t)
		defer end()
		if !strings.HasPrefix(said, "0 ") || r.Posts.Load() != before {
			t.Errorf("the shell found credentials, or posted: %s", said)
		}
		a.post(" 201")
		wantEntered(t, r, true)
		wantDeclared(t, r, "Root and the container runtime can")
		a.tell(`tr '\0' '\n' </proc/self/environ | grep -c -e ses_ -e @; echo`)
		a.hear("0")
		a.hear("")
	})
	t.Run("with a shared user", func(t *testing.T) {
		a := startObedient(t, r, uid(r.User)...)
		a.post(" 201")
		wantEntered(t, r, false)
		wantDeclared(t, r)
		end, _ := shell(t)
		defer end()
		a.post(`"code":"session_tainted"`)
	})
}

// TestListenerOfASession passes listeners with requests for sessions. One is good for one session, while that is open.
func TestListenerOfASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := isolate.Start(t.Context(), isolate.Options{
		Users: isolate.Users{Own: true}, Program: kit.Need(t, "sleep"), Dir: "/",
		Bounds: isolate.DefaultBounds, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	check.Must(t, err)
	defer p.Close()
	open := func(file *os.File) (s admin.Session, code string) {
		t.Helper()
		request := admin.SessionRequest{Event: r.Event(t), Launcher: true, Init: p.Init}
		err := admin.OpenSession(t.Context(), r.Stack.Admin(), request, file, &s)
		var refused *problem.Error
		if errors.As(err, &refused) {
			return s, refused.Code()
		}
		check.Must(t, err)
		return s, ""
	}
	wantRefused := func(what string, file *os.File) {
		t.Helper()
		if _, code := open(file); code != "isolation_unavailable" {
			t.Errorf("%s: %q", what, code)
		}
	}
	here, err := net.Listen("tcp4", "127.0.0.1:0")
	check.Must(t, err)
	defer here.Close()
	ours, err := here.(*net.TCPListener).File()
	check.Must(t, err)
	null, err := os.Open(os.DevNull)
	check.Must(t, err)
	wantRefused("a listener in the network of the sidecar", ours)
	wantRefused("no socket", null)
	first, code := open(p.Listener)
	if code != "" || first.ProxyURL != "http://"+isolate.ListenAddress {
		t.Fatalf("%q, %+v", code, first)
	}
	wantRefused("the listener of another session", p.Listener)
	const event = "http://mediator.internal/v1/event"
	get := func(proxy string) string {
		t.Helper()
		out, _ := exec.Command("nsenter", "--target", strconv.Itoa(p.Init), "--net", "curl", "-sS", "--max-time", "60",
			"-w", " %{http_code}", "-x", proxy, event).CombinedOutput()
		return string(out)
	}
	for _, proxy := range []string{first.ProxyURL, "http://x:y@" + isolate.ListenAddress} {
		if out := get(proxy); !strings.Contains(out, first.Session) {
			t.Errorf("a connection to the listener by %s: %s", proxy, out)
		}
	}
	byID := fmt.Sprintf("http://%s:@%s", first.Session, r.Listen)
	if out, _ := exec.Command("curl", "-sS", "-x", byID, event).CombinedOutput(); !strings.Contains(string(out),
		"session_required") {
		t.Errorf("the session by its id, at the shared port: %s", out)
	}
	check.Must(t, admin.Call(t.Context(), r.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+first.Session, nil, nil))
	if out := get(first.ProxyURL); !strings.Contains(out, "curl: (7) ") { // not connected
		t.Errorf("the listener outlives its session: %s", out)
	}
	wantRefused("a listener whose session has ended", p.Listener)
}

// denials are what containers and security modules deny to programs in them, as filters of system calls.
var denials = map[string]seccomp.SyscallGroup{
	// The default profile of container runtimes, for a container without CAP_SYS_ADMIN.
	"namespaces": {
		NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "clone",
				Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER}}},
			{Name: "unshare",
				Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER}}},
		},
		Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM),
	},
	// AppArmor's default profile of container runtimes.
	"mounts": {Names: []string{"mount", "umount2", "pivot_root"},
		Action: seccomp.ActionErrno | seccomp.Action(unix.EACCES)},
	// AppArmor on Ubuntu: a user namespace in which its maker has no capabilities.
	"capabilities": {
		NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "ioctl", Conditions: []seccomp.Condition{{Argument: 1, Operation: seccomp.Equal, Value: unix.SIOCSIFFLAGS}}},
		},
		Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM),
	},
}

// runDenied executes this program again with the arguments after the first, which names what is denied.
func runDenied(args []string) int {
	err := seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{denials[args[0]]}},
	})
	if err == nil {
		err = syscall.Exec("/proc/self/exe", append([]string{"mediator"}, args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
