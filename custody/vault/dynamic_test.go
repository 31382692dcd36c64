package vault_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// The database engine's user lives as long as Vault renews it, is replaced once when its lease is gone, and ends with
// the process, whose token is not its own.
func TestDatabaseUser(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	server.Postgres(t)
	server.Mount(t, "database", "database", nil)
	server.Write(t, "database/config/reports", map[string]any{"plugin_name": "postgresql-database-plugin",
		"connection_url": dsn, "allowed_roles": "*"})
	role := map[string]any{"db_name": "reports", "default_ttl": "10m", "max_ttl": "3h",
		"creation_statements": `CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`}
	server.Write(t, "database/roles/reports", role)

	conn, err := pgx.Connect(t.Context(), dsn)
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	users := func() (all []string) {
		t.Helper()
		rows, err := conn.Query(t.Context(), `SELECT rolname FROM pg_roles WHERE rolname LIKE 'v-%' ORDER BY 1`)
		check.Must(t, err)
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		check.Must(t, err)
		return all
	}
	const may = selfPolicy + `path "database/creds/reports" { capabilities = ["read"] }`
	c := &clock{t: time.Now()}
	from := open(t, vault.Options{Now: c.now})
	s := from.Secrets(&vault.TokenFile{Path: write(t, server.TokenFor(t, "database", may+`
path "sys/leases/renew/database/creds/reports/*"  { capabilities = ["update"] }
path "sys/leases/revoke/database/creds/reports/*" { capabilities = ["update"] }
`, time.Hour))}).Secret("database/creds/reports", 0)
	user := func() string {
		t.Helper()
		got, err := s.Read(t.Context())
		check.Must(t, err)
		name, err := got.Field("username")
		check.Must(t, err)
		if left := got.End.Sub(c.now()); left > 10*time.Minute || left <= 0 {
			t.Errorf("it ends in %s", left)
		}
		return name
	}
	const ninth = 9 * time.Minute
	first := user()
	for range 3 {
		c.add(ninth)
		if again := user(); again != first {
			t.Errorf("%s was not renewed: %s", first, again)
		}
	}
	check.Must(t, server.Client(t).Sys().RevokePrefixWithContext(t.Context(), "database/creds/reports"))
	c.add(ninth)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { user() })
	}
	wait.Wait()
	if all := users(); len(all) != 1 || all[0] == first || all[0] != user() {
		t.Errorf("%v, not one user after %s", all, first)
	}
	refused, err := s.Read(t.Context())
	check.Must(t, err)
	password, err := refused.Field("password")
	check.Must(t, err)
	c.add(time.Minute)
	s.Refused("password", password)
	if user() == "" || len(users()) != 2 {
		t.Errorf("%v: a call on its way can still use a refused user", users())
	}
	role["max_ttl"], role["default_ttl"] = "4m", "2m"
	server.Write(t, "database/roles/reports", role)
	before := user()
	c.add(ninth)
	if user() == before {
		t.Error("a user near its longest life is not replaced")
	}
	check.Must(t, from.Close())
	all := users()
	for began := time.Now(); len(all) > 1 && time.Since(began) < 2*time.Minute; all = users() { // Vault takes its time
		time.Sleep(10 * time.Millisecond)
	}
	if len(all) != 1 || all[0] != before {
		t.Errorf("%v outlive the process; want %s, which ends by itself", all, before)
	}

	core, logged := observer.New(zap.WarnLevel)
	denied := open(t, vault.Options{Now: c.now, Log: zap.New(core)}).Secrets(&vault.TokenFile{Path: write(t,
		server.TokenFor(t, "database-2", may, time.Hour))}).Secret("database/creds/reports", 0)
	s = denied
	before = user()
	c.add(110 * time.Second)
	if user() == before {
		t.Error("a lease is renewed without the right")
	}
	if logged.FilterMessageSnippet("lease is not renewed").Len() != 1 {
		t.Errorf("logged %v", logged.All())
	}
}

// sts answers as AWS's Security Token Service does: who asks, and what key it gets.
func sts(w http.ResponseWriter, r *http.Request) {
	const answer = `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">` +
		`<%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>`
	action, result := r.PostFormValue("Action"), ""
	switch action {
	case "GetCallerIdentity":
		result = `<Arn>arn:aws:iam::1:user/vault</Arn><UserId>AIDAEXAMPLE</UserId><Account>1</Account>`
	case "GetFederationToken":
		result = `<Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>the-secret-key</SecretAccessKey>` +
			`<SessionToken>the-session-token</SessionToken><Expiration>` +
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `</Expiration></Credentials>` +
			`<FederatedUser><Arn>arn:aws:sts::1:federated-user/a</Arn><FederatedUserId>1:a</FederatedUserId></FederatedUser>`
	default:
		http.Error(w, "no such action", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, answer, action, result)
}

// The AWS engine's temporary key has what a signature needs.
func TestAWSKey(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(sts))
	t.Cleanup(api.Close)
	server.AWS(t)
	server.Mount(t, "aws", "aws", nil)
	server.Write(t, "aws/config/root", map[string]any{"access_key": "AKIAEXAMPLE", "secret_key": "root",
		"region": "eu-central-1", "sts_endpoint": api.URL, "sts_region": "eu-central-1", "iam_endpoint": api.URL})
	server.Write(t, "aws/roles/deploy", map[string]any{"credential_type": "federation_token",
		"policy_document": `{"Version": "2012-10-17", "Statement": []}`, "default_sts_ttl": "1h"})
	s := secrets(t, &clock{t: time.Now()}, "aws", selfPolicy+`path "aws/creds/deploy" { capabilities = ["read"] }`).
		Secret("aws/creds/deploy", 0)
	got, err := s.Read(t.Context())
	check.Must(t, err)
	for field, want := range map[string]string{"access_key": "ASIAEXAMPLE", "security_token": "the-session-token"} {
		if value, err := got.Field(field); value != want || err != nil {
			t.Errorf("%s: %q, %v", field, value, err)
		}
	}
	if got.End.IsZero() {
		t.Error("it has no end")
	}
}

// The PKI engine issues a certificate with a key and its chain, to names that its role allows.
func TestIssue(t *testing.T) {
	server.Mount(t, "pki", "pki", nil)
	server.Write(t, "pki/root/generate/internal", map[string]any{"common_name": "APIs' CA", "key_type": "ec"})
	server.Write(t, "pki/roles/client", map[string]any{"allowed_domains": "agents.example", "allow_subdomains": true,
		"key_type": "ec", "ttl": "10m"})
	all := secrets(t, &clock{t: time.Now()}, "pki", selfPolicy+`path "pki/issue/client" { capabilities = ["update"] }`)
	got, err := all.Issue(t.Context(), "pki/issue/client", "one.agents.example")
	check.Must(t, err)
	pair, err := tls.X509KeyPair([]byte(got.Certificate), []byte(got.Key))
	check.Must(t, err)
	if pair.Leaf.Subject.CommonName != "one.agents.example" || !pair.Leaf.NotAfter.Equal(got.End) ||
		len(pair.Certificate) != 2 || fmt.Sprintf("%+v", got) != "REDACTED" {
		t.Errorf("%+v", pair.Leaf.Subject)
	}
	for path, want := range map[string]string{"pki/issue/other": "denies the role of API credentials to write to",
		"pki/issue/client": "Vault answers 400"} {
		_, err := all.Issue(t.Context(), path, "somebody.example")
		check.WantCode(t, err, "custody_unavailable", want)
	}
}
