package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/test/check"
)

func newPair(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"node.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	check.Must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestServerCertificate(t *testing.T) {
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(path string, content []byte) {
		t.Helper()
		check.Must(t, os.WriteFile(path, content, 0o600))
	}
	first, firstKey := newPair(t, 1)
	second, secondKey := newPair(t, 2)
	write(certificate, first)
	core, log := observer.New(zapcore.InfoLevel)
	group, ctx := errgroup.WithContext(t.Context())
	ctx, cancel := context.WithCancel(ctx)
	open := func() (net.Listener, error) {
		return ListenTLS(ctx, group, "127.0.0.1:0", certificate, key, zap.New(core))
	}
	if _, err := open(); err == nil {
		t.Error("a listener opens without its key")
	}
	write(key, secondKey)
	if _, err := open(); err == nil {
		t.Error("a listener opens with the key of another certificate")
	}
	write(key, firstKey)
	l, err := open()
	check.Must(t, err)
	group.Go(func() error { return Serve(ctx, l, http.NotFoundHandler(), PublicLimits, time.Minute, zap.NewNop()) })
	defer func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}()
	serial := func() int64 {
		t.Helper()
		any := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the test reads only the serial number
		c, err := tls.Dial("tcp", l.Addr().String(), any)
		check.Must(t, err)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	said := func(message string) func() bool {
		return func() bool { return log.FilterMessage(message).Len() > 0 }
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited for %s in vain", what)
			}
		}
	}
	if n := serial(); n != 1 {
		t.Errorf("the first certificate has the number %d", n)
	}
	write(certificate, second) // in the middle of a renewal
	eventually("the log", said("the previous TLS certificate stays"))
	if n := serial(); n != 1 {
		t.Errorf("the certificate before is not kept: it has the number %d", n)
	}
	write(key, secondKey)
	eventually("the new certificate", func() bool { return serial() == 2 })
	if !said("TLS certificate taken over")() {
		t.Error("the log does not say that the certificate was taken over")
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11} //nolint:gosec // on purpose
	if _, err := tls.Dial("tcp", l.Addr().String(), old); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}
