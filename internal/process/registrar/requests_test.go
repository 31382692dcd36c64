package registrar

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/test/check"
)

// serve answers processes at an address.
func serve(t *testing.T, p *process, listen func(config.Endpoint, *identity.Identity, *zap.Logger) (net.Listener,
	error)) string {
	t.Helper()
	l, err := listen(config.Endpoint{TCP: "127.0.0.1:0"}, p.own, zap.NewNop())
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- endpoint.Serve(ctx, l, p.public(), endpoint.Limits{}, 0, zap.NewNop()) }()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String()
}

// callerFrom returns a client with the certificate of a pod.
func callerFrom(t *testing.T, p *process, name string) *http.Client {
	t.Helper()
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
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.authority.PEM())
	own := tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: private}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		ServerName: "registrar", MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}}}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// TestNonces has one pod ask for nonces without end. Otherwise it used up those of all others.
func TestNonces(t *testing.T) {
	p := newProcess(t, &fakeAPI{})
	at := serve(t, p, endpoint.Listen)
	ask := func(name string) func() int {
		client := callerFrom(t, p, name)
		return func() int {
			resp, err := client.Post("https://"+at+"/v1/nonces", "application/json", strings.NewReader("{}"))
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

// TestOpenRequests has one pod leave many answers unread. Otherwise they took all memory.
func TestOpenRequests(t *testing.T) {
	p := newProcess(t, &fakeAPI{})
	at := serve(t, p, endpoint.Listen)
	ask := func(client *http.Client) int {
		resp, err := client.Get("https://" + at + "/v1/trust")
		check.Must(t, err)
		var trust registrar.Trust
		if resp.StatusCode == http.StatusOK {
			check.Must(t, json.NewDecoder(resp.Body).Decode(&trust))
			check.WantEqual(t, json.Valid([]byte(trust.Bundle)), true)
		}
		check.Must(t, resp.Body.Close())
		return resp.StatusCode
	}
	flood, other := callerFrom(t, p, "flood"), callerFrom(t, p, "other")
	check.WantEqual(t, ask(flood), http.StatusOK)
	open := func() int {
		p.askingMu.Lock()
		defer p.askingMu.Unlock()
		return len(p.open)
	}
	until(t, "the request to end", func() bool { return open() == 0 })
	for range maxOpen {
		check.Must(t, p.begin("spiffe://example.org/pod/agents/uid-flood"))
	}
	check.WantEqual(t, ask(flood), http.StatusServiceUnavailable)
	check.WantEqual(t, ask(other), http.StatusOK)
	p.end("spiffe://example.org/pod/agents/uid-flood")
	check.WantEqual(t, ask(flood), http.StatusOK)
}

// TestSlowStranger sends the beginning of a request without a certificate that never ends.
func TestSlowStranger(t *testing.T) {
	p, _ := newTokens(t)
	c, err := tls.Dial("tcp", serve(t, p, endpoint.ListenOpen), &tls.Config{InsecureSkipVerify: true})
	check.Must(t, err)
	defer c.Close()
	check.Must(t, c.SetDeadline(time.Now().Add(3*time.Minute)))
	_, err = io.WriteString(c, "POST /v1/certificates HTTP/1.1\r\nHost: registrar\r\nContent-Length: 200000\r\n\r\n"+
		strings.Repeat(" ", 2*maxCSR))
	check.Must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	check.Must(t, err)
	check.WantEqual(t, resp.StatusCode, http.StatusBadRequest)
	check.Must(t, resp.Body.Close())
}

// TestEnding: a process that waits for another trust when its registrar ends gets an error, after which it pauses.
// After an empty answer it would ask again at once, and over again, as long as the registrar still answers.
func TestEnding(t *testing.T) {
	p := newProcess(t, &fakeAPI{})
	l, err := endpoint.Listen(config.Endpoint{TCP: "127.0.0.1:0"}, p.own, zap.NewNop())
	check.Must(t, err)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- endpoint.Serve(ctx, l, p.public(), endpoint.Limits{}, time.Minute, zap.NewNop()) }()
	client := callerFrom(t, p, "waits")
	next := func(has string) (trust registrar.Trust, status int) {
		resp, err := client.Get("https://" + l.Addr().String() + "/v1/trust?unlike=" + has)
		check.Must(t, err)
		defer resp.Body.Close()
		check.Must(t, json.NewDecoder(resp.Body).Decode(&trust))
		return trust, resp.StatusCode
	}
	has, status := next("")
	check.WantEqual(t, status, http.StatusOK)
	end()
	_, status = next(has.State)
	check.WantEqual(t, status, http.StatusServiceUnavailable)
	client.CloseIdleConnections()
	check.Must(t, <-done)
}
