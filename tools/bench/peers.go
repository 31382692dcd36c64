package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/runas"
)

// startGoproxy starts goproxy in a process of its own.
func (b *stand) startGoproxy(context.Context) (target, error) {
	address, err := freeport.Address()
	if err != nil {
		return target{}, err
	}
	cmd, err := b.self("goproxy", address)
	if err != nil {
		return target{}, err
	}
	roots := pool(filepath.Join(b.dir, "ca.pem"))
	return target{name: "goproxy", proxy: proxyURL(address), roots: roots, pids: []int{cmd.Process.Pid}}, nil
}

// startMitmdump starts mitmproxy without its screen. It makes a CA of its own.
func (b *stand) startMitmdump(ctx context.Context) (target, error) {
	address, err := freeport.Address()
	if err != nil {
		return target{}, err
	}
	_, port, _ := net.SplitHostPort(address)
	path, err := exec.LookPath("mitmdump")
	if err != nil {
		return target{}, errors.New("mitmdump is not installed: apt-get install mitmproxy")
	}
	confdir := filepath.Join(b.dir, "mitmproxy")
	cmd, err := b.run(path, "-q", "--listen-host", "127.0.0.1", "-p", port,
		"--set", "confdir="+confdir, "--set", "ssl_verify_upstream_trusted_ca="+filepath.Join(b.dir, "ca.pem"))
	if err != nil {
		return target{}, err
	}
	ca := filepath.Join(confdir, "mitmproxy-ca-cert.pem")
	if err := wait(ctx, func() error { _, err := os.Stat(ca); return err }); err != nil {
		return target{}, err
	}
	return target{name: "mitmdump", proxy: proxyURL(address), roots: pool(ca), pids: []int{cmd.Process.Pid}}, nil
}

// certgen is the program with which Debian's Squid makes leaf certificates.
const certgen = "/usr/lib/squid/security_file_certgen"

// squidConfig has Squid decrypt every tunnel, and keep and log nothing.
const squidConfig = `
http_port ADDRESS ssl-bump tls-cert=DIR/ca.pem tls-key=DIR/ca.key \
    generate-host-certificates=on dynamic_cert_mem_cache_size=4MB
sslcrtd_program ` + certgen + ` -s DIR/leaves -M 4MB
tls_outgoing_options cafile=DIR/ca.pem
ssl_bump bump all
http_access allow localhost
cache deny all
access_log none
cache_log DIR/squid.log
pid_filename none
coredump_dir DIR
pinger_enable off
shutdown_lifetime 0 seconds
`

// startSquid starts Squid in the foreground. It refuses to work as root, so what it reads and writes belongs to its
// user.
func (b *stand) startSquid(ctx context.Context) (target, error) {
	path, err := exec.LookPath("squid")
	if err != nil {
		return target{}, errors.New("squid is not installed: apt-get install squid-openssl")
	}
	address, err := freeport.Address()
	if err != nil {
		return target{}, err
	}
	dir, err := os.MkdirTemp("", "bench-squid-")
	if err != nil {
		return target{}, err
	}
	b.folders = append(b.folders, dir)
	for _, name := range []string{"ca.pem", "ca.key"} {
		raw, err := os.ReadFile(filepath.Join(b.dir, name))
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), raw, 0o600)); err != nil {
			return target{}, err
		}
	}
	conf := filepath.Join(dir, "squid.conf")
	if err := os.WriteFile(conf, []byte(strings.NewReplacer("ADDRESS", address, "DIR", dir).Replace(squidConfig)),
		0o600); err != nil {
		return target{}, err
	}
	leaves := exec.Command(certgen, "-c", "-s", filepath.Join(dir, "leaves"), "-M", "4MB")
	owner, err := runas.Credential("proxy")
	if err != nil {
		return target{}, err
	}
	if owner != nil {
		for _, path := range []string{dir, conf, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")} {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				return target{}, err
			}
		}
		leaves.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	}
	if out, err := leaves.CombinedOutput(); err != nil {
		return target{}, fmt.Errorf("squid: %w: %s", err, out)
	}
	cmd, err := b.run(path, "-N", "-f", conf)
	if err != nil {
		return target{}, err
	}
	if err := wait(ctx, func() error { return dial(ctx, address) }); err != nil {
		return target{}, fmt.Errorf("squid: %w", err)
	}
	roots := pool(filepath.Join(b.dir, "ca.pem"))
	return target{name: "squid", proxy: proxyURL(address), roots: roots, pids: children(cmd.Process.Pid)}, nil
}

func dial(ctx context.Context, address string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}
