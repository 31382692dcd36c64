package registrar

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/test/check"
)

// withToken is a running pod with a token for the registrar in place of a certificate.
func withToken(name, account, image string) map[string]any {
	p := podOf("agents", name, account, image)
	p["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "identity", "projected": map[string]any{
		"sources": []any{map[string]any{"serviceAccountToken": map[string]any{"audience": evidence.AudienceRegistrar}}}}}}
	p["status"] = map[string]any{"phase": "Running", "podIPs": []any{map[string]any{"ip": "127.0.0.1"}},
		"initContainerStatuses": []any{map[string]any{"name": "mediator", "imageID": "mediator@" + image}}}
	return p
}

func newTokens(t *testing.T, pods ...map[string]any) (*process, *fakeAPI) {
	t.Helper()
	f := &fakeAPI{pods: make(map[string]map[string]any)}
	for _, p := range pods {
		f.pods[p["metadata"].(map[string]any)["name"].(string)] = p
	}
	p := newProcess(t, f)
	p.cluster.audience = evidence.AudienceRegistrar
	return p, f
}

// TestTokens: a process without a certificate gets one for its pod's token, by its own key, and another one in time.
func TestTokens(t *testing.T) {
	p, _ := newTokens(t, withToken("good", "worker", digest))
	p.config.Kubernetes.Lifetime = config.Duration(time.Minute + 4*time.Second) // it begins a minute ago
	l, err := endpoint.ListenOpen(config.Endpoint{TCP: "127.0.0.1:0"}, p.own, zap.NewNop())
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- endpoint.Serve(ctx, l, p.public(), endpoint.Limits{}, time.Second, zap.NewNop()) }()
	defer func() { cancel(); <-done }()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	check.Must(t, os.WriteFile(at("token"), []byte("good"), 0o600),
		os.WriteFile(at("authorities"), p.authority.PEM(), 0o600))
	client, err := daemon.New(ctx, zap.NewNop(), config.Process{TLS: &config.TLS{Token: at("token"),
		Authorities: at("authorities")}, Registrar: &config.Peer{TCP: l.Addr().String(), Name: "registrar"}})
	check.Must(t, err)
	check.WantEqual(t, string(client.Identity.ID()), "spiffe://example.org/pod/agents/uid-good")
	first := client.Identity.Until()
	go client.KeepIdentity(ctx)
	until(t, "another certificate", func() bool { return client.Identity.Until().After(first) })
	caller, base := client.Client(config.Peer{TCP: l.Addr().String(), Name: "registrar"})
	defer caller.CloseIdleConnections()
	for who, want := range map[*http.Client]int{caller: http.StatusForbidden, // no pod was listed yet
		{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}: http.StatusForbidden} {
		resp, err := who.Post(base+"/v1/nonces", "application/json", strings.NewReader("{}"))
		check.Must(t, err)
		check.WantEqual(t, resp.StatusCode, want)
		check.Must(t, resp.Body.Close())
		who.CloseIdleConnections()
	}
}

// TestTokenRefused: above all, a token that was stolen gets nothing from another address than its pod's.
func TestTokenRefused(t *testing.T) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	check.Must(t, err)
	broken := append(csr[:len(csr)-1:len(csr)-1], csr[len(csr)-1]^1)
	status := func(p map[string]any, change func(status map[string]any)) map[string]any {
		p["status"] = maps.Clone(p["status"].(map[string]any))
		change(p["status"].(map[string]any))
		return p
	}
	good := func() map[string]any { return withToken("good", "worker", digest) }
	for name, tt := range map[string]struct {
		pod         map[string]any
		token, from string
		csr         []byte
		reason      string
	}{
		"its own pod":             {good(), "good", "127.0.0.1", csr, ""},
		"a stolen token":          {good(), "good", "10.1.2.3", csr, "address"},
		"no token":                {good(), "", "127.0.0.1", csr, "token"},
		"a key that it lacks":     {good(), "good", "127.0.0.1", broken, "possession"},
		"another service account": {withToken("good", "default", digest), "good", "127.0.0.1", csr, "service_account"},
		"another image": {withToken("good", "worker", "sha256:"+strings.Repeat("9", 64)), "good", "127.0.0.1", csr,
			"digest"},
		"a pod that ended": {status(good(), func(s map[string]any) {
			s["phase"] = "Failed"
		}), "good", "127.0.0.1", csr, "gone"},
		"an image not yet known": {status(good(), func(s map[string]any) {
			delete(s, "initContainerStatuses")
		}), "good", "127.0.0.1", csr, "-"},
		"an address not yet known": {status(good(), func(s map[string]any) {
			delete(s, "podIPs")
		}), "good", "127.0.0.1", csr, "-"},
		"the node's address": {func() map[string]any {
			p := good()
			p["spec"].(map[string]any)["hostNetwork"] = true
			return p
		}(), "good", "127.0.0.1", csr, "address"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newTokens(t, tt.pod)
			var pod registrar.Pod
			_, err := p.cluster.exchange(t.Context(), tt.token, tt.from, tt.csr, &pod)
			var refused *registrar.Refusal
			switch {
			case tt.reason == "":
				check.Must(t, err)
			case tt.reason == "-":
				check.WantCode(t, err, "process_unavailable")
			case !errors.As(err, &refused) || refused.Reason != tt.reason:
				t.Errorf("%v, want the reason %s", err, tt.reason)
			}
		})
	}
}

// TestRulesMeanwhile: the rules that count are those after the API server has answered, which can take long.
func TestRulesMeanwhile(t *testing.T) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	check.Must(t, err)
	p, f := newTokens(t, withToken("good", "worker", digest))
	f.read = func() {
		raw, err := os.ReadFile(p.config.Rules)
		check.Must(t, err, os.WriteFile(p.config.Rules, []byte(strings.Replace(string(raw), "worker", "other", 1)), 0o600),
			p.readRules(t.Context()))
	}
	var pod registrar.Pod
	_, err = p.cluster.exchange(t.Context(), "good", "127.0.0.1", csr, &pod)
	if refused := new(registrar.Refusal); !errors.As(err, &refused) || refused.Reason != "service_account" {
		t.Errorf("%v, want the reason service_account", err)
	}
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	return private
}
