package runs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/guard"
	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// The pod of the tests of guard is a network namespace with one device. The world behind it is another one with one
// host, which is API, resolver, and router of everything else.
const (
	podAddress, worldAddress = "10.77.0.2", "10.77.0.1"
	mediatorUID              = 10001
	worldHost                = "api.example.org"
)

type netns struct{ calls chan func() }

func newNetNS(t *testing.T) *netns {
	t.Helper()
	ns, made := &netns{make(chan func())}, make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer own.Close()
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		made <- err
		if err != nil {
			return
		}
		for f := range ns.calls {
			f()
		}
		// The thread lives on: the processes of other tests that it started before would end with it.
		if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
	}()
	if err := <-made; err != nil {
		t.Fatalf("a network namespace is needed (run the tests as root): %v", err)
	}
	t.Cleanup(func() { close(ns.calls) })
	return ns
}

func (ns *netns) do(f func()) {
	done := make(chan struct{})
	ns.calls <- func() { defer close(done); f() }
	<-done
}

func (ns *netns) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := ns.output(exec.Command("sh", "-ec", script))
	if err != nil {
		t.Fatalf("%s (are iproute2 and nftables there? run test/scripts/setup.sh): %v\n%s", script, err, out)
	}
	return out
}

func (ns *netns) output(cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	var err error
	ns.do(func() { err = cmd.Start() })
	if err == nil {
		err = cmd.Wait()
	}
	return out.String(), err
}

type pod struct {
	*trial.Deployment
	t          *testing.T
	pod, world *netns
	devices    []string // at which packet sockets are refused
	// see every frame: the pod's before its sender goes on, the world's even those that go past the queue
	taps   [2]int
	thread int // of the pod, for /proc
}

//go:embed testdata/pod.yaml
var podRules string

var worldNames = map[string]string{
	"api.example.org": worldAddress, "rebinding.example.org": "127.0.0.1", "metadata.example.org": "169.254.169.254",
	"nat64.example.org": "64:ff9b::a9fe:a9fe", "6to4.example.org": "2002:a9fe:a9fe::1",
	"mapped.example.org": "::ffff:169.254.169.254",
}

func newPod(t *testing.T) *pod {
	t.Helper()
	full.Only(t, "root, and network namespaces")
	dir, err := os.MkdirTemp("", "pod")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &pod{t: t, pod: newNetNS(t), world: newNetNS(t),
		Deployment: &trial.Deployment{Dir: dir, Listen: "127.0.0.1:8181", Hooks: "127.0.0.1:8182",
			PlainAddr: worldAddress + ":443", AwareAddr: worldAddress + ":443"}}
	p.connect()
	p.startWorld()
	p.startMediator()
	return p
}

func (p *pod) connect() {
	p.pod.do(func() { p.thread = unix.Gettid() })
	// The tests listen to every frame, so the kernel must send none by itself.
	for _, ns := range []*netns{p.pod, p.world} {
		ns.sh(p.t,
			`cd /proc/sys/net/ipv6/conf/default; echo 0 >accept_dad; echo 0 >router_solicitations; ip link set lo up`)
	}
	p.pod.sh(p.t, `echo "0 2147483647" >/proc/sys/net/ipv4/ping_group_range; ip link add eth0 type veth peer name world`)
	var tid int
	p.world.do(func() { tid = unix.Gettid() })
	p.pod.sh(p.t, fmt.Sprintf(`ip link set world netns /proc/%d/ns/net`, tid))
	p.world.sh(p.t, `ip addr add 10.77.0.1/24 dev world; ip -6 addr add fd77::1/64 dev world nodad; ip link set world up`)
	p.pod.sh(p.t, `ip addr add 10.77.0.2/24 dev eth0; ip -6 addr add fd77::2/64 dev eth0 nodad; ip link set eth0 up
		ip route add default via 10.77.0.1; ip -6 route add default via fd77::1`)
	for i, ns := range []*netns{p.pod, p.world} {
		var err error
		ns.do(func() {
			p.taps[i], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
				int(htons(unix.ETH_P_ALL)))
		})
		check.Must(p.t, err)
		p.t.Cleanup(func() { _ = unix.Close(p.taps[i]) })
	}
}

func htons(v uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)) }

const secret, secretLeft = "a secret", ", with the secret"

// left returns the frames that left the pod since the last call, each once or twice, without those that find
// neighbours.
func (p *pod) left() []string {
	var out []string
	for i, kind := range []uint8{unix.PACKET_OUTGOING, unix.PACKET_HOST} {
		for frame := make([]byte, 65536); ; {
			n, from, err := unix.Recvfrom(p.taps[i], frame, 0)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			check.Must(p.t, err)
			ll, ok := from.(*unix.SockaddrLinklayer)
			if !ok || ll.Hatype == unix.ARPHRD_LOOPBACK ||
				(ll.Pkttype == unix.PACKET_OUTGOING) != (kind == unix.PACKET_OUTGOING) {
				continue
			}
			if f := describeFrame(frame[:n]); f != "" {
				if bytes.Contains(frame[:n], []byte(secret)) {
					f += secretLeft
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// describeFrame returns "" for ARP (RFC 826), neighbour discovery (RFC 4861), multicast listener reports (RFC 3810),
// and the sidecar's own probes of the rules.
func describeFrame(b []byte) string {
	switch etherType := binary.BigEndian.Uint16(b[12:14]); {
	case etherType == unix.ETH_P_ARP:
		return ""
	case etherType == unix.ETH_P_IP && len(b) >= 34:
		if netip.AddrFrom4([4]byte(b[30:34])) == guard.ProbeAddress {
			return ""
		}
		at := 14 + int(b[14]&15)*4
		return fmt.Sprintf("protocol %d from %s to %s % x", b[23], netip.AddrFrom4([4]byte(b[26:30])),
			netip.AddrFrom4([4]byte(b[30:34])), b[at:min(len(b), at+4)])
	case etherType == unix.ETH_P_IPV6 && len(b) >= 55:
		if next, kind := b[20],
			b[54]; next == unix.IPPROTO_ICMPV6 && kind >= 133 && kind <= 136 || next == unix.IPPROTO_HOPOPTS {
			return ""
		}
		return fmt.Sprintf("protocol %d to %s", b[20], netip.AddrFrom16([16]byte(b[38:54])))
	default:
		return fmt.Sprintf("a frame of type %#04x", etherType)
	}
}

func (p *pod) startWorld() {
	check.Must(p.t, trial.WriteCertificates(p.Dir, worldHost))
	cert, err := tls.LoadX509KeyPair(p.Dir+"/api.pem", p.Dir+"/api.key")
	check.Must(p.t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "the world") })
	for _, port := range []string{"443", "80"} {
		var l net.Listener
		p.world.do(func() { l, err = net.Listen("tcp", worldAddress+":"+port) })
		check.Must(p.t, err)
		if port == "443" {
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
		}
		s := &http.Server{Handler: mux}
		go func() { _ = s.Serve(l) }()
		p.t.Cleanup(func() { _ = s.Close() })
	}
	var dns net.PacketConn
	p.world.do(func() { dns, err = net.ListenPacket("udp", worldAddress+":53") })
	check.Must(p.t, err)
	p.t.Cleanup(func() { _ = dns.Close() })
	go resolve(dns)
}

// resolve answers queries until the connection is closed.
func resolve(conn net.PacketConn) {
	for b := make([]byte, 1500); ; {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Additionals = true, nil
		addr, err := netip.ParseAddr(worldNames[strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")])
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch {
		case err != nil:
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA && addr.Is4():
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

func (p *pod) startMediator() {
	files := p.Files(podRules)
	check.Must(p.t, errors.Join(os.Chmod(p.Dir, 0o711), devstack.Prepare(p.Dir, files), p.CopySelf(),
		os.WriteFile(p.Dir+"/resolv.conf", []byte("nameserver "+worldAddress+"\n"), 0o644)))
	err := filepath.Walk(p.Dir, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, mediatorUID, mediatorUID))
	})
	check.Must(p.t, err)
	cmd := exec.Command("unshare", "-m", "sh", "-ec", `mount --bind "$0/resolv.conf" /etc/resolv.conf
		exec setpriv --reuid=10001 --regid=10001 --clear-groups "$0/mediator" dev --quiet --dir "$0"`, p.Dir)
	out, err := cmd.StdoutPipe()
	check.Must(p.t, err)
	cmd.Stderr = os.Stderr
	p.pod.do(func() { err = cmd.Start() })
	check.Must(p.t, err)
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		if p.t.Failed() {
			fmt.Fprint(os.Stderr, p.Logs())
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready in") {
		p.t.Fatalf("the mediator did not start: %q, %v", line, err)
	}
	p.Stack = devstack.New(p.Dir)
	if out := p.try("wait for an event", nil); out != "" {
		p.t.Fatalf("no session: %s", out)
	}
}

func (p *pod) install() {
	p.t.Helper()
	if out, err := p.guard(); err != nil {
		p.t.Fatalf("mediator guard: %v\n%s", err, out)
	}
}

func (p *pod) guard(args ...string) (string, error) {
	return p.pod.output(
		exec.Command(p.Self, append([]string{"guard", "--config", filepath.Join(p.Dir, devstack.SidecarFile)}, args...)...))
}

func (p *pod) counters() map[string]uint64 {
	p.t.Helper()
	// any: the counters are the same
	rules, err := guard.Rules(guard.Options{UIDs: []uint32{mediatorUID}, Proxy: 8181, Devices: p.devices})
	check.Must(p.t, err)
	var counted map[string]uint64
	p.pod.do(func() { counted, err = rules.Count() })
	check.Must(p.t, err)
	return counted
}

func (p *pod) posts(flow string) []ledger.Record {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	var posts []ledger.Record
	check.Must(p.t, admin.Get(ctx, p.Stack.Admin(), "/v1/posts?limit=20&flow="+flow, &posts))
	return posts
}

const gotOut = "got out"

// try has the agent try a way, in its own process with the agent's user and only the named capabilities. It returns
// what the agent got: "" for success. It stops the agent once until holds.
func (p *pod) try(way string, until func() bool, capabilities ...uintptr) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Self, "way", way)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: launch.DefaultUID, Gid: launch.DefaultUID},
		AmbientCaps: capabilities, Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	var err error
	p.pod.do(func() { err = cmd.Start() })
	check.Must(p.t, err)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				p.t.Fatalf("the agent failed: %v\n%s", err, out.String())
			}
			return strings.TrimSpace(out.String())
		case <-tick.C:
			if until != nil && until() {
				cancel()
				<-done
				return gotOut
			}
		}
	}
}
