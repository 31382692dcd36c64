package intercept

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
)

func TestLeafIsKeptAndRenewed(t *testing.T) {
	now := time.Now()
	ca := newCA(t, CAOptions{Lifetime: 20 * time.Hour})
	l := newLeaves(ca, func() time.Time { return now })
	first, err := l.certificate("a.example")
	check.Must(t, err)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again, err := l.certificate("a.example"); err != nil || again != first {
				t.Errorf("another certificate, %v", err)
			}
		})
	}
	wg.Wait()

	now = now.Add(8 * time.Hour)
	if same, _ := l.certificate("a.example"); same != first {
		t.Error("renewed too early")
	}
	now = now.Add(2 * time.Hour)
	second, err := l.certificate("a.example")
	check.Must(t, err)
	if second == first {
		t.Error("not renewed before its end")
	}
	if second.Leaf.NotAfter.After(ca.Expires()) {
		t.Error("a leaf outlives its CA")
	}
	now = ca.Expires()
	if _, err := l.certificate("a.example"); err == nil {
		t.Error("an expired CA signs")
	}
}

func TestLeafOfAnyHost(t *testing.T) {
	ca := newCA(t, CAOptions{})
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	l := newLeaves(ca, time.Now)
	for _, host := range []string{"a.example", "my_service", "127.0.0.1", "2001:db8::1",
		strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example"} {
		c, err := l.certificate(host)
		check.Must(t, err)
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestLeafCacheIsBounded(t *testing.T) {
	ca := newCA(t, CAOptions{})
	l := newLeaves(ca, time.Now)
	for i := range leafCapacity {
		// without the price of a signature
		l.byHost.Put(fmt.Sprintf("h%d.example", i), &leaf{cert: new(tls.Certificate),
			renewAt: time.Now().Add(time.Hour)})
	}
	for range 2 {
		_, err := l.certificate("a.example")
		check.Must(t, err)
	}
	_, used := l.byHost.Get("a.example")
	_, recent := l.byHost.Get(fmt.Sprintf("h%d.example", leafCapacity-1))
	if l.byHost.Len() > leafCapacity || !used || !recent {
		t.Errorf("%d hosts are kept", l.byHost.Len())
	}
}

// Fault 5: leaves live for 13 months, are RSA, or share one private key.
func TestFault5Leaves(t *testing.T) {
	now := time.Now()
	keys := make(map[string]bool)
	for range 2 { // processes
		ca := newCA(t, CAOptions{})
		l := newLeaves(ca, func() time.Time { return now })
		for _, host := range []string{"a.example.com", "b.example.com"} {
			c, err := l.certificate(host)
			check.Must(t, err)
			key, ok := c.Leaf.PublicKey.(*ecdsa.PublicKey)
			if !ok {
				t.Fatalf("the key is %T", c.Leaf.PublicKey)
			}
			point, err := key.Bytes()
			check.Must(t, err)
			keys[string(point)] = true
			if life := c.Leaf.NotAfter.Sub(now); life > leafLifetime {
				t.Errorf("the certificate lives %s", life)
			}
		}
	}
	if len(keys) != 4 {
		t.Errorf("4 certificates have %d keys", len(keys))
	}
}

func BenchmarkLeaf(b *testing.B) {
	ca := newCA(b, CAOptions{})
	l := newLeaves(ca, time.Now)
	b.Run("mint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.mint("api.example.com"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cached", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.certificate("api.example.com"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
