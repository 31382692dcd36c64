package runs

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
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

// hiddenShell is a shell whose first thread has ended. It looks for credentials of sessions, and posts.
//
//go:embed testdata/hidden.py
var hiddenShell string

// An isolated agent has nothing worth reading. The session of an agent that shares the user is tainted.
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

func TestListenerOfASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := isolate.Start(t.Context(), isolate.Options{
		Users: isolate.Users{Own: true}, Program: kit.Need(t, "sleep"), Bounds: isolate.DefaultBounds, Stdout: os.Stdout,
		Stderr: os.Stderr,
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

// connects prints what each of its connections, a line of kind, host and port, gets.
//
//go:embed testdata/connects.py
var connects string

func TestTransparentRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rows := []struct{ connect, host, code string }{
		{"tls denied.test 443", "denied.test:443", "egress_denied"},
		{"tls 192.0.2.7 8443", "192.0.2.7:8443", "egress_denied"},
		{"tls 2001:db8::7 443", "[2001:db8::7]:443", "egress_denied"},
		{"cleartext denied-too.test 80", "denied-too.test:80", "egress_denied"},
		{"cleartext 169.254.169.254 80", "169.254.169.254:80", "egress_denied"},
		{"cleartext secure.test 443", "", "not_http"},
		{"ssh git.test 22", "", "not_http"},
		{"half smtp.test 25", "", ""}, // a client that sends nothing leaves no record, as a spare connection of a browser
		{"spare spare.test 443", "", ""},
		{"nameless nameless.test 443", "", "target_mismatch"},
		{"misnamed named.test 443", "misnamed.test:443", "target_mismatch"},
		{"old old.test 80", "", "target_mismatch"},
		{"long long.test 80", "", "request_malformed"},
		{"dns 1.1.1.1 53", "1.1.1.1:53", "upstream_unresolvable"},
		{"tls dns.test 853", "dns.test:853", "egress_denied"},
		{"tunnel 1.1.1.1 53", "", "upstream_unresolvable"},
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, row.connect)
	}
	stdout, stderr, err := r.StartRun(t, nil, nil, `/usr/bin/python3 -c "$0" "$1"`, connects, strings.Join(lines, "\n"))
	check.Must(t, err)
	if !strings.HasPrefix(stderr, "mediator: refused calls: 14, most often:\nmediator: 1 × egress_denied: ") ||
		strings.Count(stdout, "b'HTTP/1.1 403'") < 6 ||
		!strings.Contains(stdout, `tunnel 1.1.1.1 53 b'\x85\x80\x00\x01\x00\x00\x00\x00\x00\x00'`) {
		t.Errorf("%s%s", stdout, stderr)
	}
	var want, got []string
	for _, row := range rows {
		if row.code != "" {
			want = append(want, row.code+" "+row.host)
		}
	}
	for _, p := range r.Records(t, "limit=1000") {
		host := p.Host
		if strings.HasPrefix(host, "198.1") {
			host = "" // the address that the run's resolver gave
		}
		if p.Code == "upstream_unresolvable" && !strings.Contains(p.Reason, `"secret.test.", type TXT`) {
			t.Errorf("recorded of a query: %s", p.Reason)
		}
		got = append(got, p.Code+" "+host)
	}
	slices.Sort(want)
	slices.Sort(got)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("records:\n%s\nwant:\n%s\nthe agent got:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), stdout)
	}
}

func TestConfiguredNowhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	url := "https://" + r.Plain() + "/repos/acme/site"
	for _, program := range []string{"curl -sS", "wget -qO-",
		"chromium --headless --no-sandbox --user-data-dir=/tmp/chromium --dump-dom",
		`/usr/bin/python3 -c "import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).read())"`} {
		stdout, stderr, err := r.StartRun(t, nil, nil, `exec env -i PATH="$PATH" `+program+` "$0"`, url)
		if err != nil || !strings.Contains(stdout, "acme") {
			t.Errorf("%s: %v\n%s%s", program, err, stdout, stderr)
		}
	}
	kit.Need(t, "wget")
	kit.Need(t, "chromium")
}
