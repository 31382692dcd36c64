package registrar_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/test/check"
)

// lost is a store that loses each edit.
type lost struct{ registrar.Store }

var errLost = errors.New("lost")

func (l lost) Edit(ctx context.Context, do func(dir string) error) error {
	return l.Store.Edit(ctx, func(dir string) error {
		path := filepath.Join(dir, "ca.pem")
		before, err := os.ReadFile(path)
		return cmp.Or(err, do(dir), os.WriteFile(path, before, 0o600), errLost)
	})
}

func TestAuthority(t *testing.T) {
	r := newRig(t)
	a := &registrar.Authority{Key: memory(t, "ca"), Store: r.store, TrustDomain: "example.org", Now: r.clock}
	check.Must(t, a.Open(t.Context()))
	first := string(a.PEM())
	public, _, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	leaf, _, err := a.Issue(t.Context(),
		registrar.Leaf{Path: "pod/agents/u1", DNSNames: []string{"trigger.mediator.svc"},
			Public: public, Lifetime: time.Hour})
	check.Must(t, err)
	verify := func(at time.Time) error {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(a.PEM())
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, DNSName: "trigger.mediator.svc",
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	check.Must(t, verify(r.now))
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != domain+"pod/agents/u1" || leaf.IsCA ||
		leaf.NotAfter.Sub(leaf.NotBefore) != time.Hour {
		t.Errorf("%v, %v to %v", leaf.URIs, leaf.NotBefore, leaf.NotAfter)
	}
	// The next half year's CA has the same key, so both certificates verify what it signs.
	r.now = r.now.Add(190 * 24 * time.Hour)
	a.Store = lost{r.store}
	if err := a.Open(t.Context()); !errors.Is(err, errLost) || string(a.PEM()) != first {
		t.Errorf("a CA certificate that is not stored: %v, %t", err, string(a.PEM()) != first)
	}
	a.Store = r.store
	check.Must(t, a.Open(t.Context()))
	if string(a.PEM()) == first || !strings.HasSuffix(string(a.PEM()), first) || verify(leaf.NotBefore) != nil {
		t.Error("the new CA certificate replaces the old one at once")
	}
	if verify(r.now) == nil {
		t.Error("a certificate verifies after its end")
	}
	if _, _, err := a.Issue(t.Context(), registrar.Leaf{Path: "x", Public: "no key", Lifetime: time.Hour}); err == nil {
		t.Error("a certificate is made for no key")
	}
}
