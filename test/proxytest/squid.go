package proxytest

import (
	"bytes"
	"crypto/md5" //nolint:gosec // what squid's Digest is made of
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

// Squid is Debian's squid. It asks for [SquidLogin], and resolves the hosts of the test to loopback.
type Squid struct {
	HTTP, HTTPS netip.AddrPort
	CA          []byte // in PEM, of the certificate at HTTPS, which is for 127.0.0.1
	said        *bytes.Buffer
	end         func()
}

// SquidLogin is the user and password that a Squid accepts. It has no connections for SquidDenied.
const (
	SquidLogin  = "mediator:the-password"
	SquidDenied = "denied.example.com"
)

// NewSquid starts a squid that asks by this scheme: basic or digest.
func NewSquid(t testing.TB, scheme string, hosts ...string) *Squid {
	t.Helper()
	dir, err := os.MkdirTemp("", "squid")
	check.Must(t, err, os.Chmod(dir, 0o777)) // for squid's user
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Squid{HTTP: freePort(t), HTTPS: freePort(t), said: new(bytes.Buffer)}
	authority := tlstest.New(t)
	certificate, key := authority.Certify(t, nil)
	s.CA = authority.PEM()
	user, password, _ := strings.Cut(SquidLogin, ":")
	helper, login := "digest_file_auth -c", fmt.Sprintf("%s:above:%s\n", user, ha1(user, password))
	if scheme == "basic" {
		helper = "basic_ncsa_auth"
		crypt, err := exec.Command("openssl", "passwd", "-apr1", password).Output()
		check.Must(t, err)
		login = user + ":" + string(crypt)
	}
	for name, content := range map[string]string{
		"login": login, "tls.pem": string(certificate) + string(key),
		"hosts": "127.0.0.1 " + strings.Join(append(hosts, SquidDenied), " ") + "\n",
		"squid.conf": fmt.Sprintf(`
http_port %s
https_port %s tls-cert=%s/tls.pem generate-host-certificates=off
auth_param %[4]s program /usr/lib/squid/%[5]s %[3]s/login
auth_param %[4]s children 1
auth_param %[4]s realm above
acl known proxy_auth REQUIRED
acl denied dstdomain -n %[6]s
http_access deny denied
http_access allow known
http_access deny all
hosts_file %[3]s/hosts
pid_filename %[3]s/pid
cache_log %[3]s/log
access_log none
cache deny all
netdb_filename none
pinger_enable off
shutdown_lifetime 0
max_filedescriptors 1024
coredump_dir %[3]s
`, s.HTTP, s.HTTPS, dir, scheme, helper, SquidDenied),
	} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	c := exec.Command("squid", "-N", "-f", filepath.Join(dir, "squid.conf"))
	c.Stderr = s.said
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check.Must(t, c.Start())
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	s.end = sync.OnceFunc(func() {
		_ = c.Process.Kill()
		<-ended
	})
	t.Cleanup(s.end)
	s.await(t, ended)
	return s
}

// Stop ends squid.
func (s *Squid) Stop() { s.end() }

func ha1(user, password string) string {
	sum := md5.Sum([]byte(user + ":above:" + password)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func (s *Squid) await(t testing.TB, ended <-chan struct{}) {
	t.Helper()
	for {
		c, err := net.Dial("tcp", s.HTTPS.String())
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("squid has ended:\n%s", s.said)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func freePort(t testing.TB) netip.AddrPort {
	t.Helper()
	at, err := freeport.Address()
	check.Must(t, err)
	return netip.MustParseAddrPort(at)
}
