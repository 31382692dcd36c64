// Package debian installs the Debian package in a Debian that systemd boots, and follows docs/operations/running.md:
// the target that the page starts, a post, an upgrade, and the package's removal. It needs root; see setup.sh.
package debian

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	bin  = "../../../bin/"
	page = "../../../docs/operations/running.md"
	// patience bounds every wait: a busy machine takes long, so it only ends a broken test.
	patience = 5 * time.Minute
)

// TestMain becomes the API that gets the posts where the machine runs this binary.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "api" {
		panic(api())
	}
	os.Exit(m.Run())
}

// api answers at 127.0.0.1:9443 as example.com, writes its CA, and appends each post to /root/posts.
func api() error {
	l, err := net.Listen("tcp", "127.0.0.1:9443")
	if err != nil {
		return err
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		f, bad := os.OpenFile("/root/posts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil || bad != nil {
			panic(http.ErrAbortHandler)
		}
		defer f.Close()
		fmt.Fprintf(f, "%s with %s\n", body, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusCreated)
	}))
	s.Listener = l
	s.StartTLS()
	if err := os.WriteFile("/etc/mediator/api.pem",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		return err
	}
	select {}
}

// machine is a Debian that systemd has booted, in namespaces and with a network of its own.
type machine struct {
	t      *testing.T
	root   string
	leader string // the process ID of its systemd
}

func boot(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir()}
	if out, err := exec.Command("tar", "-xf", bin+"debian-root.tar", "-C", m.root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	console, err := os.Create(filepath.Join(t.TempDir(), "console"))
	must(t, err)
	nspawn := exec.Command("systemd-nspawn", "--boot", "--directory="+m.root, "--private-network", "--register=no",
		"--keep-unit", "--link-journal=no", "--console=pipe")
	nspawn.Stdout, nspawn.Stderr = console, console
	must(t, nspawn.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = nspawn.Wait()
	}()
	t.Cleanup(func() {
		if t.Failed() && m.leader != "" {
			log, _ := m.try("journalctl --no-pager -o cat -n 100 -u 'mediator-*'")
			t.Logf("the journal:\n%s", log)
		}
		_ = nspawn.Process.Signal(syscall.SIGTERM) // shuts the machine down
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = nspawn.Process.Kill()
			<-ended
		}
	})
	m.until("systemd is started", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", nspawn.Process.Pid))
		m.leader = strings.TrimSpace(string(raw))
		return err == nil && m.leader != ""
	})
	m.until("systemd is running", func() bool {
		out, _ := m.try("systemctl is-system-running")
		return strings.HasPrefix(out, "running")
	})
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) until(what string, done func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("not reached: %s", what)
		}
	}
}

// try runs a script of the shell as root of the machine.
func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+m.leader, "--all", "sh", "-ec", "cd /etc; "+script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

func (m *machine) want(script string, has ...string) {
	m.t.Helper()
	out := m.run(script)
	for _, text := range has {
		if !strings.Contains(out, text) {
			m.t.Errorf("%s: no %q in\n%s", script, text, out)
		}
	}
}

// install installs a package as the page says.
func (m *machine) install(command, version string) {
	m.t.Helper()
	raw, err := os.ReadFile(bin + "mediator-" + version + ".deb")
	must(m.t, err)
	must(m.t, os.WriteFile(m.root+"/root/mediator-linux-amd64.deb", raw, 0o644))
	m.run("cd /root; " + strings.Replace(command, "apt install", "apt-get install -y", 1))
}

var posted = 0

// post delivers an event, and starts an isolated agent that posts for it.
func (m *machine) post() {
	m.t.Helper()
	posted++
	m.until("all are ready", func() bool {
		_, err := m.try("for p in trigger control reputation admin; do " +
			"curl -sf --unix-socket /run/mediator/$p.sock http://mediator/readyz; done")
		return err == nil
	})
	body := `{"n": ` + strconv.Itoa(posted) + `}`
	m.want(`echo '{"action": "published", "n": `+strconv.Itoa(posted)+`}' >/run/event.json
		mediator events send github /run/event.json --config /etc/mediator/trigger.yaml
		mediator run --require-isolation -- curl -sS -w '%{http_code}' -d '`+body+
		`' -H 'Content-Type: application/json' https://example.com/posts
		grep -Fx '`+body+` with Bearer token-of-the-api' /root/posts`, "201")
}

const rules = `
actions:
  - name: create-post
    match: {url: "https://example.com/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
upstreams:
  - {host: "example.com:443", address: "127.0.0.1:9443", networks: [127.0.0.0/8], ca: api.pem}
`

func TestPackage(t *testing.T) {
	text, err := os.ReadFile(page)
	must(t, err)
	var commands []string
	for _, c := range regexp.MustCompile(`(?m)^    (.*)$`).FindAllStringSubmatch(string(text), 5) {
		commands = append(commands, c[1])
	}
	install, setup, start, again, restart := commands[0], commands[1], commands[2], commands[3], commands[4]
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)

	m := boot(t)
	must(t, os.WriteFile(m.root+"/usr/local/bin/api", self, 0o755))
	m.install(install, "1.0.0")
	m.run("cd /lib/systemd/system; systemd-analyze verify mediator*.service mediator*.t*")
	m.want("systemctl is-enabled mediator.target", "enabled")
	m.run("umask 077; printf '\\n\\n\\n\\nyes\\n\\n' | " + setup)
	m.run("systemd-run --unit=api /usr/local/bin/api")
	m.until("the API is started", func() bool { _, err := os.Stat(m.root + "/etc/mediator/api.pem"); return err == nil })
	m.run("cat >>mediator/mediator.yaml <<'END'" + rules + "END\nprintf token-of-the-api >mediator/secrets/api-token")
	m.run(again)
	m.run(start)
	m.post()
	m.sandboxed()

	// A certified program goes on after an upgrade, and its successor starts only when it is certified too.
	m.run("sha256sum mediator/keys/* mediator/*.yaml mediator/secrets/* >/root/before")
	m.install(install, "1.0.1")
	m.run("sha256sum --quiet -c /root/before")
	m.post()
	m.run("systemctl restart mediator-serve")
	m.until("the sidecar refuses to start", func() bool {
		out, _ := m.try("journalctl -u mediator-serve -o cat")
		return strings.Contains(out, "(pin_mismatch)")
	})
	m.run(again + " && " + restart)
	m.post()
	m.run("systemctl restart mediator-control") // its keys in memory are new, and the registry certifies them
	m.post()

	m.run("apt-get remove -y mediator")
	m.want("test ! -e /usr/bin/mediator; ls mediator; systemctl list-units 'mediator-*'", "mediator.yaml", "0 loaded")
	m.want("dpkg --purge mediator", "kept, with keys or the record: /etc/mediator/keys")
	m.want("find mediator /var/lib/mediator* -type f 2>/dev/null || :", "mediator/keys/registry.key.jwk",
		"mediator/trust/trust.json", "/var/lib/mediator/ledger.db")
	m.want("ls mediator", "keys\ntrust\n")
}

// sandboxed checks that each process runs as its own user, with the sandbox of its unit, and that the agent's user
// reads no secret.
func (m *machine) sandboxed() {
	m.t.Helper()
	for _, unit := range []string{"serve", "trigger", "control", "reputation", "registry", "registry-node", "auditor"} {
		if unit == "auditor" { // it has ended
			m.want("systemctl start mediator-auditor; journalctl -u mediator-auditor -o cat", "certified manifest")
		} else {
			m.want("pid=$(systemctl show -P MainPID mediator-"+unit+"); id -nu $(awk '/^Uid/{print $2}' /proc/$pid/status); "+
				"cat /proc/$pid/status", "mediator-"+strings.TrimSuffix(unit, "-node"), "NoNewPrivs:\t1", "Seccomp:\t2",
				"CapEff:\t0000000000000000")
		}
		m.run("systemd-analyze security --no-pager --threshold=25 mediator-" + unit) // an exposure of 2.5 of 10
	}
	m.want("systemctl show -P NRestarts 'mediator-*.service' | sort -u | xargs", "0\n") // nothing had to fail first
	m.want("mediator doctor || :", "observed true  agentSessionSignerAccessibleToAgent: false")
	out := m.run(`for f in $(find mediator -type f); do
		setpriv --reuid=mediator-agent --regid=mediator-agent --clear-groups cat $f >/dev/null 2>&1 && echo $f; done; true`)
	for _, private := range []string{"keys/", "secrets/"} {
		if strings.Contains(out, private) || !strings.Contains(out, "mediator.yaml") {
			m.t.Errorf("the agent's user reads\n%s", out)
		}
	}
}
