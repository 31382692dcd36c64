package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLeafIsKeptAndRenewed(t *testing.T) {
	now := time.Now()
	ca, err := NewCA(CAOptions{Now: time.Now, Lifetime: 20 * time.Hour})
	must(t, err)
	l := newLeaves(ca, func() time.Time { return now })
	first, err := l.certificate("a.example")
	must(t, err)

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
	must(t, err)
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
	ca, err := NewCA(CAOptions{Now: time.Now})
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	l := newLeaves(ca, time.Now)
	for _, host := range []string{"a.example", "my_service", "127.0.0.1", "2001:db8::1", strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example"} {
		c, err := l.certificate(host)
		must(t, err)
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestLeafCacheIsBounded(t *testing.T) {
	ca, err := NewCA(CAOptions{Now: time.Now})
	must(t, err)
	l := newLeaves(ca, time.Now)
	kept := func(i int) *leaf { // without the price of a signature
		return &leaf{host: fmt.Sprintf("h%d.example", i), cert: new(tls.Certificate), renewAt: time.Now().Add(time.Hour)}
	}
	for i := range leafCapacity {
		l.keep(kept(i))
	}
	if l.cached("h0.example") == nil { // and thereby is the most recent
		t.Fatal("lost before the cache was full")
	}
	l.keep(kept(leafCapacity))
	l.keep(kept(leafCapacity)) // the same host once more takes no second place
	if l.byHost.len() != leafCapacity || len(l.byHost.byKey) != leafCapacity {
		t.Errorf("%d hosts in the list, %d in the map, want %d", l.byHost.len(), len(l.byHost.byKey), leafCapacity)
	}
	if l.cached("h0.example") == nil || l.cached("h1.example") != nil {
		t.Error("the one to go was not the least recently used")
	}
}
