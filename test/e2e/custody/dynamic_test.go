package custody

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/tlstest"
)

const dynamicRules = `
actions:
  - name: with-files
    match: {url: "https://CLIENTS/files", methods: [POST]}
    subject: agent:worker-1
    action: create_file
    clientCertificate: {file: secrets/client.pem, keyFile: secrets/client.key}
  - name: with-vault
    match: {url: "https://CLIENTS/vault", methods: [POST]}
    subject: agent:worker-1
    action: create_file
    clientCertificate: {vault: {path: pki/issue/mediator, commonName: worker-1.agents.example}}
  - name: with-user
    match: {url: "https://PLAIN/reports", methods: [POST]}
    subject: agent:worker-1
    action: create_report
    credential: &user {basic: {}, vault: {path: database/creds/reports}}
egress:
  - name: reports
    match: {url: "https://PLAIN/reports", methods: [GET]}
    credential: *user
  - name: open
    match: {url: "https://CLIENTS/open", methods: [GET]}
` + kit.Upstream + `  - {host: "CLIENTS", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// dynamic are an API that takes the users of a database, and one that takes client certificates of two authorities.
type dynamic struct {
	dsn     string
	clients *x509.CertPool
}

func (d dynamic) mounted(t *testing.T, v *vaultRig) {
	v.vault.Mount(t, "pki", "pki", nil)
	root := v.vault.Write(t, "pki/root/generate/internal", map[string]any{"common_name": "APIs' CA", "key_type": "ec"})
	d.clients.AppendCertsFromPEM([]byte(root.Data["certificate"].(string)))
	v.vault.Write(t, "pki/roles/mediator", map[string]any{"allowed_domains": "agents.example", "allow_subdomains": true,
		"key_type": "ec", "ttl": "10m"})
	v.vault.Postgres(t)
	v.vault.Mount(t, "database", "database", nil)
	v.vault.Write(t, "database/config/reports", map[string]any{"plugin_name": "postgresql-database-plugin",
		"connection_url": d.dsn, "allowed_roles": "reports"})
	v.vault.Write(t, "database/roles/reports", map[string]any{"db_name": "reports", "default_ttl": "10m", "max_ttl": "1h",
		"creation_statements": `CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`})
}

// report takes what PostgreSQL knows as a user.
func (d dynamic) report(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	as, err := url.Parse(d.dsn)
	if err == nil {
		query := as.Query()
		query.Set("user", user)
		as.RawQuery = query.Encode()
		var conn *pgx.Conn
		if conn, err = pgx.Connect(r.Context(), as.String()); err == nil {
			err = conn.Close(r.Context())
		}
	}
	if err != nil || user == "" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// take is the API with client certificates, which its reads need not have.
func (d dynamic) take(w http.ResponseWriter, r *http.Request) {
	who := ""
	for _, c := range r.TLS.PeerCertificates[:min(1, len(r.TLS.PeerCertificates))] {
		who = c.Subject.CommonName
	}
	want := map[string]string{"/files": "files", "/vault": "worker-1.agents.example", "/open": ""}
	if who != want[r.URL.Path] {
		http.Error(w, "another client: "+who, http.StatusForbidden)
	}
}

func (d dynamic) users(t *testing.T) (all []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.dsn)
	check.Must(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT rolname FROM pg_roles WHERE rolname LIKE 'v-%'`)
	check.Must(t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	check.Must(t, err)
	return all
}

// TestDynamicCredentials posts from the confined sidecar with client certificates from files and from Vault's PKI
// engine, and as a database's user that Vault made.
func TestDynamicCredentials(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
	ca, other := tlstest.New(t), tlstest.New(t)
	d := dynamic{dsn: pgtest.Start(t).Database(t), clients: x509.NewCertPool()}
	d.clients.AppendCertsFromPEM(ca.PEM())
	v := newVault(t)
	d.mounted(t, v)
	v.addCredentialRole(t, "kv/data/post-plain")
	clients := ""
	v.Rig = kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		pair, err := tls.LoadX509KeyPair(r.In("api.pem"), r.In("api.key"))
		check.Must(t, err)
		up := httptest.NewUnstartedServer(http.HandlerFunc(d.take))
		up.EnableHTTP2 = true
		up.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs: d.clients, MinVersion: tls.VersionTLS12}
		up.StartTLS()
		t.Cleanup(up.Close)
		_, port, _ := strings.Cut(up.Listener.Addr().String(), ":")
		clients = kit.Plain[0] + ":" + port
		return http.HandlerFunc(d.report), strings.ReplaceAll(dynamicRules, "CLIENTS", clients)
	}, kit.ManyPosts, v.config)
	certify := func(by *tlstest.Authority, edit func(*x509.Certificate)) {
		certificate, key := by.Certify(t, func(c *x509.Certificate) {
			c.Subject.CommonName = "files"
			if edit != nil {
				edit(c)
			}
		})
		kit.Write(t, v.In("secrets/client.pem"), string(certificate))
		kit.Write(t, v.In("secrets/client.key"), string(key))
	}
	certify(ca, nil)
	v.Start(t)
	agent := v.OpenAgent(t)
	plain := agent.Base
	call := func(method, base, path, code string, status int) {
		t.Helper()
		agent.Base = base
		o := agent.Call(method, path, map[string]string{"POST": `{"a":1}`}[method])
		if o.Code != code || o.Status != status {
			t.Errorf("%s %s: %+v", method, path, o)
		}
	}
	all := func() {
		t.Helper()
		call("POST", "https://"+clients, "/files", "", http.StatusOK)
		call("GET", "https://"+clients, "/open", "", http.StatusOK)
		call("POST", "https://"+clients, "/vault", "", http.StatusOK)
		call("GET", "https://"+clients, "/open", "", http.StatusOK)
		call("POST", plain, "/reports", "", http.StatusOK)
		call("GET", plain, "/reports", "", http.StatusOK)
	}
	all()
	first := d.users(t)
	kit.Mediator(t, "reload", "unix:"+v.Stack.Socket("serve")).Done("reloaded: configuration ")
	all()
	if again := d.users(t); len(first) != 1 || len(again) != 1 || first[0] != again[0] {
		t.Errorf("one lease makes the users %v, after a reload %v", first, again)
	}

	v.vault.Write(t, "sys/leases/revoke-prefix/database/creds/reports", map[string]any{"sync": true})
	kit.Until(t, "another user", func() bool { // the first call finds out
		agent.Base = plain
		return agent.Call("GET", "/reports", "").Status == http.StatusOK
	})
	if again := d.users(t); len(again) != 1 || again[0] == first[0] {
		t.Errorf("%v after the lease of %v was lost", again, first)
	}

	certify(other, nil)
	call("POST", "https://"+clients, "/files", "upstream_client_refused", http.StatusBadGateway)
	certify(ca, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	call("POST", "https://"+clients, "/files", "custody_unavailable", http.StatusServiceUnavailable)
	certify(ca, nil)
	all()
	for code, state := range map[string]ledger.State{"upstream_client_refused": ledger.StateIndeterminate,
		"custody_unavailable": ledger.StateRefused} {
		if got := v.RecordsOf(t, "with-files", code); len(got) != 1 || got[0].State != state {
			t.Errorf("%s: %.2000s", code, fmt.Sprintf("%+v", got))
		}
	}
	metrics := kit.Metrics(t, v.Stack.Socket("serve"))
	for _, want := range []string{`until_seconds{rule="with-files"} 1`, `until_seconds{rule="with-vault"} 1`,
		`until_seconds{rule="with-user"} 1`, `failures_total{rule="with-files"} 1`} {
		if !strings.Contains(metrics, "mediator_credential_"+want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	v.StopProcess(t, "serve")
	kit.Until(t, "no user", func() bool { return len(d.users(t)) == 0 })
	check.Must(t, v.vault.Client(t).Sys().UnmountWithContext(t.Context(), "database"))
	if log := v.Log(t, "serve"); strings.Contains(log, "BEGIN") || strings.Contains(log, first[0]) {
		t.Errorf("%.4096s", log)
	}
}
