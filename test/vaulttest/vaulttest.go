// Package vaulttest starts a real Vault server for tests: TLS, raft storage, initialised and unsealed, not in
// development mode.
package vaulttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/test/full"
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

// patience bounds what a test asks of the server: a machine that does much else takes long to start and to initialise
// one.
const patience = 3 * time.Minute

// Main runs the tests of a package with a server that use is given.
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

// New starts a server for one test, which may do to it what it likes.
func New(t testing.TB) *Server {
	t.Helper()
	full.Only(t, "a Vault server")
	s, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the Vault server's log:\n%s", s.endOfLog())
		}
		s.Close()
	})
	return s
}

// Binary finds bin/vault, Vault's server and command line, in the module's folder.
func Binary() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			path := filepath.Join(dir, "bin", "vault")
			if _, err := os.Stat(path); err != nil {
				return "", errors.New("there is no Vault server in bin/vault: run make setup")
			}
			return path, nil
		}
	}
	return "", errors.New("the module's folder was not found")
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
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	s.Address = "https://" + ports[0]
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
`, ports[0], ports[1], s.dir, filepath.Dir(path))
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

// log names the file with the server's log. Faults that a test makes fill it, so a test shows its end, and only if it
// fails.
func (s *Server) log() string { return filepath.Join(s.dir, "vault.log") }

func (s *Server) endOfLog() string {
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
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
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

// await asks for the server's health until it is well; the status is 0 while nobody answers.
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
			return fmt.Errorf("the Vault server does not get well: %w\n%s", err, s.endOfLog())
		}
		if well(status) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Vault server does not get well: status %d\n%s", status, s.endOfLog())
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// Mount mounts a secrets engine.
func (s *Server) Mount(t testing.TB, path, kind string, options map[string]string) {
	t.Helper()
	if err := s.Client(t).Sys().MountWithContext(t.Context(), path, &api.MountInput{Type: kind, Options: options}); err !=
		nil {
		t.Fatal(err)
	}
}

// Kubernetes registers the Kubernetes auth method, which the server has as a plugin.
func (s *Server) Kubernetes(t testing.TB) {
	t.Helper()
	s.plugin(t, "auth/kubernetes", "vault-plugin-auth-kubernetes")
}

// Terraform registers the Terraform engine, which makes API tokens for a time and which the server has as a plugin.
func (s *Server) Terraform(t testing.TB) {
	t.Helper()
	s.plugin(t, "secret/terraform", "vault-plugin-secrets-terraform")
}

func (s *Server) plugin(t testing.TB, as, name string) {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := c.Sys().PutPolicyWithContext(t.Context(), name, policy); err != nil {
		t.Fatal(err)
	}
	secret, err := c.Auth().Token().CreateOrphan(
		&api.TokenCreateRequest{Policies: []string{name}, TTL: ttl.String(), NoDefaultPolicy: true})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Auth.ClientToken
}

// freePorts finds loopback addresses that nobody listens on.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}
