package registrar

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/test/check"
)

// TestNonces has one pod ask for nonces without end. Otherwise it used up those of all others.
func TestNonces(t *testing.T) {
	p := newProcess(t, &fakeAPI{})
	l, err := daemon.Listen(config.Endpoint{TCP: "127.0.0.1:0"}, p.own, zap.NewNop())
	check.Must(t, err)
	done := make(chan error, 1)
	go func() { done <- daemon.Serve(t.Context(), l, p.public(), daemon.Limits{}, time.Minute, zap.NewNop()) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.authority.PEM())
	ask := func(name string) func() int {
		var pod kube.Pod
		raw, err := json.Marshal(podOf("agents", name, "worker", digest))
		check.Must(t, err, json.Unmarshal(raw, &pod))
		p.cluster.see(pod)
		public, private, err := ed25519.GenerateKey(rand.Reader)
		check.Must(t, err)
		_, chain, err := p.authority.Issue(t.Context(),
			registrar.Leaf{Path: "pod/agents/uid-" + name, Public: public, Lifetime: time.Hour})
		check.Must(t, err)
		block, _ := pem.Decode([]byte(chain))
		client := &http.Client{
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "registrar",
				MinVersion:   tls.VersionTLS13,
				Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: private}}}}}
		t.Cleanup(client.CloseIdleConnections)
		return func() int {
			resp, err := client.Post("https://"+l.Addr().String()+"/v1/nonces", "application/json", strings.NewReader("{}"))
			check.Must(t, err)
			check.Must(t, resp.Body.Close())
			return resp.StatusCode
		}
	}
	flood, other := ask("flood"), ask("other")
	asked := 0
	for flood() == http.StatusOK {
		if asked++; asked == registrar.MaxNonces/2 {
			t.Fatal("one pod may ask without end")
		}
	}
	if status := other(); status != http.StatusOK {
		t.Errorf("another pod gets the status %d", status)
	}
}
