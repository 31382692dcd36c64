package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

const (
	pod     = "spiffe://example.org/pod/agents/1"
	service = "spiffe://example.org/service/mediator/control"
)

func load(t *testing.T, a *tlstest.Authority, ids ...string) *identity.Identity {
	t.Helper()
	i, err := identity.Load(a.Write(t, t.TempDir(), nil, ids...))
	check.Must(t, err)
	return i
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, id string
		want        bool
	}{
		{pod, pod, true}, {"spiffe://example.org/pod/*/1", pod, true}, {"spiffe://example.org/pod/agents/*", pod, true},
		{"spiffe://example.org/pod/*", pod, false}, {"spiffe://example.org/pod/agents/*/x", pod, false},
		{"spiffe://other.org/pod/agents/*", pod, false}, {"spiffe://example.org/service/*/*", pod, false},
	} {
		if got := identity.ID(tt.id).Matches(tt.pattern); got != tt.want || identity.CheckPattern(tt.pattern) != nil {
			t.Errorf("%s matches %s: %t", tt.pattern, tt.id, got)
		}
	}
	for _, bad := range []string{"", "*", "spiffe://*/pod", "spiffe://example.org", "spiffe://example.org/",
		"spiffe://example.org/po*", "https://example.org/pod", "spiffe://example.org/a?b=c", "spiffe://Example.org/a",
		"spiffe://user@example.org/a", "spiffe://example.org:1/a", "spiffe://example.org/a/../b",
		"spiffe://example.org/%61", "spiffe://example.org/" + strings.Repeat("a", 2048)} {
		if identity.CheckPattern(bad) == nil {
			t.Errorf("%.60s is a pattern", bad)
		}
	}
	check.WantEqual(t, identity.ID(pod).Path(), "pod/agents/1")
}

func FuzzPattern(f *testing.F) {
	f.Add(pod)
	f.Add("spiffe://example.org/*/x/*")
	f.Fuzz(func(t *testing.T, s string) {
		if identity.CheckPattern(s) != nil {
			return
		}
		id := identity.ID(strings.ReplaceAll(s, "*", "any"))
		if !id.Matches(s) || identity.CheckPattern(string(id)) != nil || identity.ID(string(id)+"/x").Matches(s) {
			t.Errorf("%q does not match %q", s, id)
		}
	})
}

// TestLoad gives each mistake in the files a sentence.
func TestLoad(t *testing.T) {
	a := tlstest.New(t)
	for name, tt := range map[string]struct {
		edit  func(*x509.Certificate)
		ids   []string
		files func(*identity.Files)
		says  string
	}{
		"no URI":      {nil, nil, nil, "it has 0 URIs; a process has exactly one, its SPIFFE id"},
		"two URIs":    {nil, []string{pod, service}, nil, "it has 2 URIs"},
		"another URI": {nil, []string{"https://example.org/pod"}, nil, "its URI is not a SPIFFE id"},
		"an escape":   {nil, []string{"spiffe://example.org/%61"}, nil, "its URI is not a SPIFFE id"},
		"an authority": {func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, []string{pod}, nil,
			"it is the certificate of an authority"},
		"no authorities": {nil, []string{pod}, func(f *identity.Files) { f.Authorities += ".absent" }, "no such file"},
		"a key among them": {nil, []string{pod}, func(f *identity.Files) { f.Authorities = f.Certificate },
			`block 1 is a "PRIVATE KEY", and not a certificate`},
		"no key": {nil, []string{pod}, func(f *identity.Files) { f.Key = f.Authorities }, "the key in "},
		"another key": {nil, []string{pod}, func(f *identity.Files) {
			f.Key = a.Write(t, t.TempDir(), nil, pod).Key
		}, "private key does not match public key"},
	} {
		t.Run(name, func(t *testing.T) {
			f := a.Write(t, t.TempDir(), tt.edit, tt.ids...)
			if tt.files != nil {
				tt.files(&f)
			}
			if _, err := identity.Load(f); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v, want %s", err, tt.says)
			}
		})
	}
}

// serve answers with the id of the caller, over TLS as the identity. It returns its URL.
func serve(t *testing.T, i *identity.Identity) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := i.Peer(r.TLS)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, string(id))
	}))
	s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	s.Listener = tls.NewListener(s.Listener, i.Config())
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "https:", 1)
}

func get(c http.RoundTripper, url string) (string, error) {
	resp, err := (&http.Client{Transport: c}).Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	return string(said), err
}

func plain() *http.Transport { return new(http.Transport) }

func TestPeers(t *testing.T) {
	a, stranger := tlstest.New(t), tlstest.New(t)
	server := load(t, a, service)
	url := serve(t, server)
	ended := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	serving := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	for name, tt := range map[string]struct {
		by   *tlstest.Authority
		edit func(*x509.Certificate)
		ids  []string
		want string
	}{
		"a pod":                    {a, nil, []string{pod}, pod},
		"another authority's":      {stranger, nil, []string{pod}, ""},
		"an expired one":           {a, ended, []string{pod}, ""},
		"one for servers alone":    {a, serving, []string{pod}, ""},
		"one with two URIs":        {a, nil, []string{pod, service}, ""},
		"one with no URI":          {a, nil, nil, ""},
		"one with another's query": {a, nil, []string{pod + "?x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			certificate, key := tt.by.Certify(t, tt.edit, tt.ids...)
			pair, err := tls.X509KeyPair(certificate, key)
			check.Must(t, err)
			c := plain()
			any := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true} //nolint:gosec // a test
			c.TLSClientConfig = any
			defer c.CloseIdleConnections()
			if got, err := get(c, url); got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for name, c := range map[string]*tls.Config{"no certificate": {}, "TLS 1.2": {MaxVersion: tls.VersionTLS12}} {
		c.InsecureSkipVerify = true
		if got, err := get(&http.Transport{TLSClientConfig: c}, url); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, says := range map[string]string{"127.0.0.1": "", service: "", "localhost": "not valid for any names",
		pod: "it names " + service, "spiffe://example.org/service/mediator/*": "it names " + service} {
		c := load(t, a, pod).Transport(name, plain)
		if got, err := get(c, url); says == "" && got != pod || says != "" &&
			(err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := get(load(t, stranger, pod).Transport(service, plain), url); err == nil ||
		!strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of another authority: %q, %v", got, err)
	}
}

// TestRotation rotates certificates and then the authority, with requests all the time.
func TestRotation(t *testing.T) {
	first, second := tlstest.New(t), tlstest.New(t)
	dirs := [2]string{t.TempDir(), t.TempDir()}
	ids := [2]string{service, pod}
	core, logs := observer.New(zapcore.InfoLevel)
	var both [2]*identity.Identity
	for n, dir := range dirs {
		var err error
		both[n], err = identity.Load(first.Write(t, dir, nil, ids[n]))
		check.Must(t, err)
		go both[n].Follow(t.Context(), zap.New(core))
	}
	url, c := serve(t, both[0]), both[1].Transport(service, plain)
	request := func() {
		t.Helper()
		if got, err := get(c, url); got != pod || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	eventually := func(is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); request() {
			if time.Now().After(end) {
				t.Fatal("it never comes")
			}
		}
	}
	taken := func(n int) func() bool {
		return func() bool { return logs.FilterMessage("TLS certificate taken over").Len() >= n }
	}
	request()
	for _, dir := range dirs { // first they believe both authorities
		tlstest.Replace(t, filepath.Join(dir, "authorities.pem"), append(first.PEM(), second.PEM()...))
	}
	eventually(taken(2))
	for n, dir := range dirs {
		certificate, key := second.Certify(t, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Hour) },
			ids[n])
		tlstest.Replace(t, filepath.Join(dir, "bundle.pem"), append(certificate, key...))
	}
	eventually(func() bool {
		return time.Until(both[0].Until()) > time.Hour &&
			time.Until(both[1].Until()) > time.Hour
	})
	for _, dir := range dirs {
		tlstest.Replace(t, filepath.Join(dir, "authorities.pem"), second.PEM())
	}
	eventually(taken(6))
	request()

	// What does not belong together, or names another process, changes nothing.
	certificate, key := second.Certify(t, nil, pod)
	_, other := second.Certify(t, nil, pod)
	foreign, foreignKey := second.Certify(t, nil, pod+"2")
	for says, content := range map[string][]byte{
		"does not match public key":        append(certificate, other...),
		"but this process is " + pod + ":": append(foreign, foreignKey...),
	} {
		tlstest.Replace(t, filepath.Join(dirs[1], "bundle.pem"), content)
		eventually(func() bool {
			for _, line := range logs.FilterMessage("the previous TLS certificate stays").All() {
				if strings.Contains(line.ContextMap()["error"].(string), says) {
					return true
				}
			}
			return false
		})
	}
	tlstest.Replace(t, filepath.Join(dirs[1], "bundle.pem"), append(certificate, key...))
	eventually(taken(7))
}
