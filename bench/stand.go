package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/vaulttest"
)

// host is the name under which every proxy reaches the upstream.
const host = "localhost"

// stand is what a run has started.
type stand struct {
	dir       string
	upstream  string // host:port
	processes []*exec.Cmd
	vault     *vaulttest.Server
}

// target is one way to the upstream.
type target struct {
	name  string
	proxy *url.URL // nil: directly
	roots *x509.CertPool
	pids  []int // the processes of the proxy; empty for none
	base  string

	sidecar  []int          // of pids, the mediator's sidecar
	upstream *x509.CertPool // for asking the upstream itself
}

// start starts the upstream, and every proxy in front of it.
func (b *stand) start(ctx context.Context, o options) (map[string]target, error) {
	if err := b.certificates(); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	b.upstream = net.JoinHostPort(host, port)
	if _, err := b.self("upstream", address); err != nil {
		return nil, err
	}
	targets := map[string]target{"direct": {name: "direct", roots: pool(filepath.Join(b.dir, "ca.pem"))}}
	for _, start := range []func(context.Context) (target, error){
		b.startGoproxy, b.startMitmdump,
		func(ctx context.Context) (target, error) { return b.startMediator(ctx, "mediator", "{type: memory}") },
	} {
		t, err := start(ctx)
		if err != nil {
			return nil, err
		}
		targets[t.name] = t
	}
	if o.vault {
		custody, err := b.startVault()
		if err != nil {
			return nil, err
		}
		if targets["vault"], err = b.startMediator(ctx, "vault", custody); err != nil {
			return nil, err
		}
	}
	for name, t := range targets {
		t.base, t.upstream = "https://"+b.upstream, pool(filepath.Join(b.dir, "ca.pem"))
		targets[name] = t
		if err := t.await(ctx); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

func (b *stand) stop() {
	for i := len(b.processes) - 1; i >= 0; i-- {
		_ = b.processes[i].Process.Signal(syscall.SIGTERM)
		_ = b.processes[i].Wait()
	}
	if b.vault != nil {
		b.vault.Close()
	}
}

// run starts a process that ends with this one.
func (b *stand) run(name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(b.dir, filepath.Base(name)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.processes = append(b.processes, cmd)
	return cmd, nil
}

// self starts this program as something else.
func (b *stand) self(as, address string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.run(exe, as, address, b.dir)
}

func (b *stand) startGoproxy(context.Context) (target, error) {
	address, err := freeAddress()
	if err != nil {
		return target{}, err
	}
	cmd, err := b.self("goproxy", address)
	if err != nil {
		return target{}, err
	}
	return target{name: "goproxy", proxy: proxyURL(address), roots: pool(filepath.Join(b.dir, "ca.pem")), pids: []int{cmd.Process.Pid}}, nil
}

func (b *stand) startMitmdump(ctx context.Context) (target, error) {
	address, err := freeAddress()
	if err != nil {
		return target{}, err
	}
	_, port, _ := net.SplitHostPort(address)
	path, err := exec.LookPath("mitmdump")
	if err != nil {
		return target{}, errors.New("mitmdump is not installed: apt-get install mitmproxy")
	}
	confdir := filepath.Join(b.dir, "mitmproxy")
	cmd, err := b.run(path, "-q", "--listen-host", "127.0.0.1", "-p", port, "--set", "confdir="+confdir, "--set", "ssl_verify_upstream_trusted_ca="+filepath.Join(b.dir, "ca.pem"))
	if err != nil {
		return target{}, err
	}
	ca := filepath.Join(confdir, "mitmproxy-ca-cert.pem")
	if err := wait(ctx, func() error { _, err := os.Stat(ca); return err }); err != nil {
		return target{}, err
	}
	return target{name: "mitmdump", proxy: proxyURL(address), roots: pool(ca), pids: []int{cmd.Process.Pid}}, nil
}

const rules = `
actions:
  - name: post
    match: {url: "https://HOST/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
egress:
  - name: read
    match: {url: "https://HOST/**", methods: [GET]}
upstreams:
  - {host: "HOST", address: 127.0.0.1, networks: [127.0.0.0/8], ca: ../ca.pem}
limits: {session: {perSecond: 1000000}, host: {perSecond: 1000000}}
`

// startMediator starts the three processes as mediator dev has them, on configuration that differs from the embedded default in addresses,
// rules and rates alone, and opens a session whose event pays for every post of the run.
func (b *stand) startMediator(ctx context.Context, name, custody string) (target, error) {
	dir := filepath.Join(b.dir, name)
	listen, err := freeAddress()
	if err != nil {
		return target{}, err
	}
	hooks, err := freeAddress()
	if err != nil {
		return target{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return target{}, err
	}
	for file, raw := range configs.Dev {
		text := strings.NewReplacer("127.0.0.1:8181", listen, "127.0.0.1:8182", hooks, "{type: memory}", custody, `"0 * * * *"`, `"@every 1s"`,
			"sources:\n", "maxAge: 24h\nbudget: 1000000000\nsources:\n").Replace(string(raw))
		if before, _, ok := strings.Cut(text, "session: {standing"); ok {
			text = before + "log: {level: error}\n" + strings.ReplaceAll(rules, "HOST", b.upstream)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return target{}, err
		}
	}
	cmd, err := b.run("bin/mediator", "dev", "--dir", dir)
	if err != nil {
		return target{}, err
	}
	var opened struct{ ProxyURL, CAFile string }
	err = wait(ctx, func() error {
		var events []struct{ ID string }
		if err := ask(ctx, filepath.Join(dir, "run", "trigger.sock"), http.MethodGet, "/v1/events", nil, &events); err != nil {
			return err
		}
		if len(events) == 0 {
			return errors.New("no event yet")
		}
		return ask(ctx, filepath.Join(dir, "run", "serve.sock"), http.MethodPost, "/v1/sessions", map[string]string{"event": events[0].ID}, &opened)
	})
	if err != nil {
		return target{}, fmt.Errorf("%s: %w", name, err)
	}
	proxy, err := url.Parse(opened.ProxyURL)
	if err != nil {
		return target{}, err
	}
	t := target{name: name, proxy: proxy, roots: pool(opened.CAFile), pids: children(cmd.Process.Pid)}
	for _, pid := range t.pids {
		if raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(raw, []byte("\x00serve\x00")) {
			t.sidecar = append(t.sidecar, pid)
		}
	}
	return t, nil
}

// startVault starts a Vault server, prepares it, and returns the custody of the three processes' configurations.
func (b *stand) startVault() (string, error) {
	v, err := vaulttest.Launch()
	if err != nil {
		return "", err
	}
	b.vault = v
	token, secrets := filepath.Join(b.dir, "token"), filepath.Join(b.dir, "vault-secrets")
	if err := errors.Join(os.WriteFile(token, []byte(v.Token), 0o600), os.MkdirAll(secrets, 0o700)); err != nil {
		return "", err
	}
	cmd := exec.Command("bin/mediator", "vault", "bootstrap", "--apply", "--address", v.Address, "--ca", v.CAFile, "--token-file", token, "--out", secrets)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("vault bootstrap: %w: %s", err, out)
	}
	return fmt.Sprintf(`{type: vault, vault: {address: "%s", ca: "%s", keys: [runtime-key, session-key, request-proof-key, origin-proof-key, trigger-receipt-key,
    policy-decision-key, action-grant-key], auth: {appRole: {role: "mediator-{role}", roleIDFile: "%[3]s/{role}.role-id", secretIDFile: "%[3]s/{role}.secret-id"}}}}`,
		v.Address, v.CAFile, secrets), nil
}

// ask asks an internal endpoint.
func ask(ctx context.Context, socket, method, path string, body, answer any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}, Timeout: 5 * time.Second}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://mediator"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %d", path, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// await waits until a post goes through.
func (t target) await(ctx context.Context) error {
	err := wait(ctx, func() error {
		client := t.client(false)
		defer client.CloseIdleConnections()
		return postOnce(ctx, client, t.base)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// wait tries until it succeeds, for a minute.
func wait(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func proxyURL(address string) *url.URL { return &url.URL{Scheme: "http", Host: address} }

func pool(path string) *x509.CertPool {
	p := x509.NewCertPool()
	if raw, err := os.ReadFile(path); err == nil {
		p.AppendCertsFromPEM(raw)
	}
	return p
}

// children lists a process and those that it has started.
func children(pid int) []int {
	out := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for _, s := range strings.Fields(string(raw)) {
			if n, err := strconv.Atoi(s); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// certificates makes a CA, with which the upstream's certificate is signed and goproxy signs its own.
func (b *stand) certificates() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(b.dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(filepath.Join(b.dir, "ca.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
}

// leaf makes a certificate for a name.
func leaf(ca tls.Certificate, name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	parent, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, parent, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
