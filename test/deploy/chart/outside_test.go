package chart_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/tlstest"
	"github.com/actionproof/mediator/test/vaulttest"
)

// serverTLS is for a server outside the cluster.
func serverTLS(t *testing.T, authority *tlstest.Authority, host string) *tls.Config {
	t.Helper()
	certificate, key := authority.Certify(t, func(c *x509.Certificate) { c.DNSNames = []string{host} })
	pair, err := tls.X509KeyPair(certificate, key)
	check.Must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// api is an API outside the cluster: it sends each posted body to the channel.
func api(t *testing.T, c *cluster.Cluster, authority *tlstest.Authority, host string) <-chan string {
	t.Helper()
	posts := make(chan string, 1<<16)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
			posts <- string(body)
		}
		w.WriteHeader(http.StatusCreated)
	})}
	l := c.Listen("140.82.112.6:443", host) // a public address, in the test's own network
	go server.Serve(tls.NewListener(l, serverTLS(t, authority, host)))
	t.Cleanup(func() { server.Close() })
	return posts
}

// vaultServer starts a Vault that pods reach as vault.example, and lets it ask the API server about their tokens.
func vaultServer(t *testing.T, c *cluster.Cluster) *vaulttest.Server {
	t.Helper()
	v, err := vaulttest.Launch()
	check.Must(t, err)
	t.Cleanup(v.Close)
	at, err := url.Parse(v.Address)
	check.Must(t, err)
	forward(c.Listen("203.0.113.8:8200", "vault.example"), func() (net.Conn, error) { return net.Dial("tcp", at.Host) })
	c.Apply("", `{apiVersion: v1, kind: Namespace, metadata: {name: vault}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: vault, namespace: vault}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: vault},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"},
  subjects: [{kind: ServiceAccount, name: vault, namespace: vault}]}`)
	day := int64(86400)
	reviewer, err := c.Client.CoreV1().ServiceAccounts("vault").CreateToken(t.Context(), "vault",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}},
		metav1.CreateOptions{})
	check.Must(t, err)
	v.Kubernetes(t)
	v.Write(t, "sys/auth/kubernetes", map[string]any{"type": "kubernetes"})
	v.Write(t, "auth/kubernetes/config", map[string]any{"kubernetes_host": c.Config.Host,
		"kubernetes_ca_cert": string(c.Config.TLSClientConfig.CAData), "token_reviewer_jwt": reviewer.Status.Token,
		"disable_local_ca_jwt": true})
	return v
}

// database makes a database that pods reach as db.example, with TLS. It returns their DSN and this machine's.
func database(t *testing.T, c *cluster.Cluster, authority *tlstest.Authority) (remote, local string) {
	t.Helper()
	local = pgtest.Start(t, "max_connections=1000").Database(t)
	u, err := url.Parse(local)
	check.Must(t, err)
	with := serverTLS(t, authority, "db.example")
	forward(c.Listen("203.0.113.9:5432", "db.example"), func() (net.Conn, error) {
		return net.Dial("unix", filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	}, func(client net.Conn) (net.Conn, error) { // PostgreSQL's SSLRequest: a length of 8, and a code
		request := make([]byte, 8)
		if _, err := io.ReadFull(client, request); err != nil || binary.BigEndian.Uint32(request[4:]) != 80877103 {
			return nil, io.ErrUnexpectedEOF
		}
		if _, err := client.Write([]byte("S")); err != nil {
			return nil, err
		}
		return tls.Server(client, with), nil
	})
	return "postgres://" + u.Query().Get("user") + "@db.example/" + strings.TrimPrefix(u.Path, "/") +
		"?sslmode=verify-full", local
}

// forward connects those who connect to l with what dial connects to, after what accept makes of the connections.
func forward(l net.Listener, dial func() (net.Conn, error), accept ...func(net.Conn) (net.Conn, error)) {
	serve := func(client net.Conn) {
		defer client.Close()
		for _, f := range accept {
			var err error
			if client, err = f(client); err != nil {
				return
			}
		}
		server, err := dial()
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			server.Close()
		}()
		_, _ = io.Copy(client, server)
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
}
