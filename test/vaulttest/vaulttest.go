// Package vaulttest starts a real Vault server for tests: TLS, raft storage, initialised and unsealed, not in
// development mode.
package vaulttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
)

// Server is a Vault server of one test binary.
type Server struct {
	Address string // https://127.0.0.1:PORT
	CAFile  string
	Token   string // the root token

	dir, unseal string
	ca          authority
	cmd         *exec.Cmd
}

// patience bounds the requests of a test: a busy machine takes long to start and to initialise a server.
const patience = 3 * time.Minute

// Main runs the tests of a package with one server, and calls use with it.
func Main(m *testing.M, use func(*Server)) int {
	if flag.Parse(); testing.Short() {
		fmt.Println("left out by -short: the tests need a Vault server")
		return 0
	}
	s, err := Launch()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vaulttest:", err)
		return 1
	}
	defer s.Close()
	use(s)
	return m.Run()
}

// Binary finds bin/vault, Vault's server and command line, in the folder of this module or of one around it.
func Binary() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "vault")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Vault server in bin/vault: run make setup")
}

// Launch starts a server that its caller closes.
func Launch() (*Server, error) {
	dir, err := os.MkdirTemp("", "vault-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, CAFile: filepath.Join(dir, "ca.pem")}
	if err := s.setUp(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) setUp() error {
	path, err := Binary()
	if err != nil {
		return err
	}
	address, err := freeport.Address()
	cluster, bad := freeport.Address()
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	s.Address = "https://" + address
	config := fmt.Sprintf(`
disable_mlock = true
ui            = false
log_level     = "error"
plugin_directory = "%[4]s"
api_addr      = "https://%[1]s"
cluster_addr  = "https://%[2]s"
storage "raft" {
  path    = "%[3]s/data"
  node_id = "test"
  performance_multiplier = 1
}
listener "tcp" {
  address         = "%[1]s"
  cluster_address = "%[2]s"
  tls_cert_file   = "%[3]s/server.pem"
  tls_key_file    = "%[3]s/server.key"
}
`, address, cluster, s.dir, filepath.Dir(path))
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "data"), 0o700), os.WriteFile(s.config(), []byte(config), 0o600),
		s.writeCertificates()); err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	init, err := c.Sys().Init(&api.InitRequest{SecretShares: 1, SecretThreshold: 1})
	if err != nil {
		return fmt.Errorf("initialise: %w", err)
	}
	s.Token, s.unseal = init.RootToken, init.KeysB64[0]
	return s.Unseal()
}

func (s *Server) config() string { return filepath.Join(s.dir, "vault.hcl") }

func (s *Server) log() string { return filepath.Join(s.dir, "vault.log") }

// EndOfLog returns the end of the server's log.
func (s *Server) EndOfLog() string {
	const most = 2 << 10
	log, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-most):])
}

// Start starts the server's process and waits until it answers. After a restart it is sealed.
func (s *Server) Start() error {
	path, err := Binary()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(path, "server", "-config="+s.config())
	s.cmd.Stderr = log
	s.cmd.Env = append(os.Environ(), "GOGC=400") // the processes under test share the CPU with it
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	// Root gives it the processor before others, as if it had a machine of its own.
	_ = syscall.Setpriority(syscall.PRIO_PGRP, s.cmd.Process.Pid, -10)
	return s.await(func(status int) bool { return status != 0 })
}

// Unseal unseals the server and waits until it is active.
func (s *Server) Unseal() error {
	c, err := s.client()
	if err != nil {
		return err
	}
	if _, err := c.Sys().Unseal(s.unseal); err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	return s.await(func(status int) bool { return status == http.StatusOK })
}

// Seal seals the server.
func (s *Server) Seal() error {
	c, err := s.client()
	if err != nil {
		return err
	}
	return c.Sys().Seal()
}

// await asks for the server's health until it is well; the status is 0 without an answer.
func (s *Server) await(well func(status int) bool) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		status := 0
		if resp, err := c.Logical().ReadRawWithContext(ctx, "sys/health"); resp != nil {
			status = resp.StatusCode
			resp.Body.Close()
		} else if err != nil && ctx.Err() != nil {
			return fmt.Errorf("the Vault server does not get well: %w\n%s", err, s.EndOfLog())
		}
		if well(status) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Vault server does not get well: status %d\n%s", status, s.EndOfLog())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the server at once, with its plugins, which are processes of its group.
func (s *Server) Kill() error {
	err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
	return err
}

// Freeze stops the server's process where it is; Thaw lets it go on.
func (s *Server) Freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (s *Server) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Close ends the server and removes what it stored.
func (s *Server) Close() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.Thaw()
		_ = s.Kill()
	}
	_ = os.RemoveAll(s.dir)
}

// Client is a client with the root token.
func (s *Server) Client(t testing.TB) *api.Client {
	t.Helper()
	c, err := s.client()
	check.Must(t, err)
	return c
}

func (s *Server) client() (*api.Client, error) {
	config := api.DefaultConfig()
	config.Address, config.MaxRetries, config.Timeout = s.Address, 0, patience
	if err := config.ConfigureTLS(&api.TLSConfig{CACert: s.CAFile}); err != nil {
		return nil, err
	}
	c, err := api.NewClient(config)
	if err == nil {
		c.SetToken(s.Token)
	}
	return c, err
}

// Write writes to a path as root.
func (s *Server) Write(t testing.TB, path string, data map[string]any) *api.Secret {
	t.Helper()
	secret, err := s.Client(t).Logical().WriteWithContext(t.Context(), path, data)
	check.Must(t, err)
	return secret
}

// Mount mounts a secrets engine.
func (s *Server) Mount(t testing.TB, path, kind string, options map[string]string) {
	t.Helper()
	check.Must(t, s.Client(t).Sys().MountWithContext(t.Context(), path, &api.MountInput{Type: kind, Options: options}))
}

// Reset makes the server empty again: no audit device, and no mount, auth method and policy that a test has made.
func (s *Server) Reset(t testing.TB) {
	t.Helper()
	sys := s.Client(t).Sys()
	audits, err := sys.ListAuditWithContext(t.Context())
	check.Must(t, err)
	for path := range audits {
		check.Must(t, sys.DisableAuditWithContext(t.Context(), path))
	}
	mounts, err := sys.ListMountsWithContext(t.Context())
	check.Must(t, err)
	for path, m := range mounts {
		if !slices.Contains([]string{"cubbyhole", "identity", "system"}, m.Type) {
			check.Must(t, sys.UnmountWithContext(t.Context(), path))
		}
	}
	methods, err := sys.ListAuthWithContext(t.Context())
	check.Must(t, err)
	for path, m := range methods {
		if m.Type != "token" {
			check.Must(t, sys.DisableAuthWithContext(t.Context(), path))
		}
	}
	policies, err := sys.ListPoliciesWithContext(t.Context())
	check.Must(t, err)
	for _, name := range policies {
		if name != "root" && name != "default" {
			check.Must(t, sys.DeletePolicyWithContext(t.Context(), name))
		}
	}
}

// Kubernetes registers the plugin of the Kubernetes auth method.
func (s *Server) Kubernetes(t testing.TB) {
	t.Helper()
	s.plugin(t, "auth/kubernetes", "vault-plugin-auth-kubernetes")
}

// Terraform registers the plugin of the Terraform engine, which makes API tokens with a lease.
func (s *Server) Terraform(t testing.TB) {
	t.Helper()
	s.plugin(t, "secret/terraform", "vault-plugin-secrets-terraform")
}

// Postgres registers the plugin by which the database engine makes users of PostgreSQL.
func (s *Server) Postgres(t testing.TB) {
	t.Helper()
	s.plugin(t, "database/postgresql-database-plugin", "vault-plugin-database-postgresql")
}

// AWS registers the plugin of the AWS engine, which makes access keys.
func (s *Server) AWS(t testing.TB) {
	t.Helper()
	s.plugin(t, "secret/aws", "vault-plugin-secrets-aws")
}

func (s *Server) plugin(t testing.TB, as, name string) {
	t.Helper()
	path, err := Binary()
	check.Must(t, err)
	plugin, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
	if err != nil {
		t.Fatalf("a plugin of Vault is not there: run make setup: %v", err)
	}
	s.Write(t, "sys/plugins/catalog/"+as,
		map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(plugin)), "command": name})
}

// TokenFor makes a token with a policy of its own.
func (s *Server) TokenFor(t testing.TB, name, policy string, ttl time.Duration) string {
	t.Helper()
	c := s.Client(t)
	check.Must(t, c.Sys().PutPolicyWithContext(t.Context(), name, policy))
	secret, err := c.Auth().Token().CreateOrphan(
		&api.TokenCreateRequest{Policies: []string{name}, TTL: ttl.String(), NoDefaultPolicy: true})
	check.Must(t, err)
	return secret.Auth.ClientToken
}
