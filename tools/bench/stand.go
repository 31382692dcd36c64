package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	dir       string
	upstream  string // host:port
	processes []*exec.Cmd
	folders   []string // outside of dir, removed at the end
	vault     *vaulttest.Server
}

// target is one way to the upstream.
type target struct {
	name    string
	proxy   *url.URL // nil: directly
	roots   *x509.CertPool
	pids    []int // the processes of the proxy; empty for none
	base    string
	sidecar []int  // of pids, the mediator's sidecar
	network string // the file of the network from which to call; empty for the own one
	// of the mediator
	deployment *trial.Deployment
}

// start starts the upstream, and every proxy in front of it.
func (b *stand) start(ctx context.Context, o options) (map[string]target, error) {
	if err := b.startUpstream(); err != nil {
		return nil, err
	}
	targets := map[string]target{"direct": {name: "direct", roots: pool(filepath.Join(b.dir, "ca.pem"))}}
	for _, start := range []func(context.Context) (target, error){
		b.startGoproxy, b.startMitmdump, b.startSquid,
		func(ctx context.Context) (target, error) { return b.startMediator(ctx, "mediator", "{type: memory}") },
	} {
		t, err := start(ctx)
		if err != nil {
			return nil, err
		}
		targets[t.name] = t
	}
	var err error
	if targets["run"], err = b.startRun(ctx, targets["mediator"]); err != nil {
		return nil, err
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
		t.base = "https://" + b.upstream
		targets[name] = t
		if err := t.await(ctx); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// startUpstream starts the API behind every target.
func (b *stand) startUpstream() error {
	if err := b.certificates(); err != nil {
		return err
	}
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(address)
	b.upstream = net.JoinHostPort(host, port)
	_, err = b.self("upstream", address)
	return err
}

// newStand makes a stand with an empty folder.
func newStand() (*stand, error) {
	dir, err := os.MkdirTemp("", "bench-")
	return &stand{dir: dir, folders: []string{dir}}, err
}

// stop ends all processes, the last one first, and removes what they have written.
func (b *stand) stop() {
	for _, p := range slices.Backward(b.processes) {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	}
	if b.vault != nil {
		b.vault.Close()
	}
	for _, dir := range b.folders {
		_ = os.RemoveAll(dir)
	}
}

// run starts a process that ends with this one. It logs to a file in the stand's folder.
func (b *stand) run(name string, args ...string) (*exec.Cmd, error) {
	file := filepath.Join(b.dir, filepath.Base(name)+".log")
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
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
		os.WriteFile(filepath.Join(b.dir, "ca.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
			0o600))
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
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, parent, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
