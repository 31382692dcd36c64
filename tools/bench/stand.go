package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/vaulttest"
)

// host is the name under which every proxy reaches the upstream.
const host = "localhost"

// stand is everything that a run has started.
type stand struct {
	dir, memory string // folders on the disk and in memory
	upstream    string // host:port
	processes   []*exec.Cmd
	vault       *vaulttest.Server
}

// target is one way to the upstream.
type target struct {
	name  string
	base  string   // the upstream's URL
	proxy *url.URL // nil: directly
	roots *x509.CertPool
	post  call
	pids  []int // the processes of the proxy; empty for none
	later bool  // they go on working after an answer
}

func newStand() (*stand, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	memory, err := os.MkdirTemp("/dev/shm", "bench-")
	return &stand{dir: dir, memory: memory}, err
}

// stop ends all processes, the last one first, and removes what they have written.
func (b *stand) stop() {
	for len(b.processes) > 0 {
		b.stopLast()
	}
	if b.vault != nil {
		b.vault.Close()
		b.vault = nil
	}
	_ = os.RemoveAll(b.dir)
	_ = os.RemoveAll(b.memory)
}

func (b *stand) stopLast() {
	last := len(b.processes) - 1
	p := b.processes[last]
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGTERM) // the group, because strace ignores it and waits for its program
	_ = p.Wait()
	b.processes = b.processes[:last]
}

// run starts a process that ends with this one, and logs to a file.
func (b *stand) run(args ...string) (*exec.Cmd, error) {
	log, err := os.CreateTemp(b.dir, "log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.processes = append(b.processes, cmd)
	return cmd, nil
}

// self starts this program as something else, at an address that is its second argument.
func (b *stand) self(as string) (*exec.Cmd, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	return b.run("/proc/self/exe", as, address, b.dir)
}

// start starts the upstream, and every proxy in front of it.
func (b *stand) start(ctx context.Context, o options) (all []target, err error) {
	if err := trial.WriteCertificates(b.dir, host); err != nil {
		return nil, err
	}
	upstream, err := b.self("upstream")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(upstream.Args[2])
	b.upstream = net.JoinHostPort(host, port)
	custody, transit, err := b.startVault()
	if err != nil {
		return nil, err
	}
	roots := pool(filepath.Join(b.dir, "api-ca.pem"))
	goproxy, err := b.self("goproxy")
	if err != nil {
		return nil, err
	}
	mitmdump, err := b.startMitmdump(ctx)
	if err != nil {
		return nil, err
	}
	all = []target{{name: "direct", roots: roots, post: post}, {name: "goproxy", proxy: proxyURL(goproxy.Args[2]),
		roots: roots, post: post, pids: tree(goproxy.Process.Pid)}, mitmdump}
	for _, l := range layers(o, custody) {
		t, err := b.startMediator(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		all = append(all, t)
	}
	for i := range all {
		t := &all[i]
		t.base = "https://" + b.upstream
		err := wait(ctx, 50*time.Millisecond, func() error { return t.post.once(ctx, t.client(1, false), *t) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return append(all, transit), nil
}

func pool(path string) *x509.CertPool {
	p := x509.NewCertPool()
	if raw, err := os.ReadFile(path); err == nil {
		p.AppendCertsFromPEM(raw)
	}
	return p
}

// startMitmdump starts mitmproxy without its screen. It makes a CA of its own.
func (b *stand) startMitmdump(ctx context.Context) (t target, err error) {
	address, err := freeport.Address()
	if err != nil {
		return t, err
	}
	_, port, _ := net.SplitHostPort(address)
	own := filepath.Join(b.dir, "mitmproxy")
	p, err := b.run("mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", port, "--set", "confdir="+own,
		"--set", "ssl_verify_upstream_trusted_ca="+filepath.Join(b.dir, "api-ca.pem"))
	if err != nil {
		return t, fmt.Errorf("apt-get install mitmproxy: %w", err)
	}
	ca := filepath.Join(own, "mitmproxy-ca-cert.pem")
	err = wait(ctx, 50*time.Millisecond, func() error { _, err := os.Stat(ca); return err })
	return target{name: "mitmdump", proxy: proxyURL(address), roots: pool(ca), post: post,
		pids: tree(p.Process.Pid)}, err
}

func proxyURL(address string) *url.URL { return &url.URL{Scheme: "http", Host: address} }

// wait tries until it succeeds, for a minute.
func wait(ctx context.Context, pause time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil || !sleep(ctx, pause) {
			return err
		}
	}
}
