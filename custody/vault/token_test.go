package vault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	s := newSigning(t, 5*time.Second, time.Hour)
	k := s.mustKey(t)
	stop := signMany(t, k)
	for lasted := false; !lasted; { // a busy machine may log in again
		s.await(t, "token renewed", 1)
		for _, token := range s.tokens(t) {
			lasted = lasted || token.Renewed > token.Created+token.TTL // longer than without renewal
		}
	}
	if stop() == 0 {
		t.Error("nothing was signed")
	}
}

func TestTokenThatEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ttl    time.Duration
		revoke bool
	}{
		"at the time that it can be renewed no more": {ttl: 3 * time.Second},
		"revoked": {ttl: time.Hour, revoke: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigning(t, tt.ttl, tt.ttl)
			stop := signMany(t, s.mustKey(t))
			const noOther = "Vault's token ends and there is no other one yet"
			for range 5 {
				if s.await(t, "logged in to Vault", 1)[noOther] > 0 {
					t.Errorf("it says %q, and has one", noOther)
				}
				if tt.revoke {
					s.revoke(t)
				}
			}
			if n := stop(); n < 4 {
				t.Errorf("%d signatures", n)
			}
		})
	}
}

func TestTokenFile(t *testing.T) {
	s := newSigning(t, time.Hour, time.Hour)
	fresh := func() string { return server.TokenFor(t, s.mount, signPolicy(s.mount, "k"), time.Hour) }
	revoke := func(token string) { server.Write(t, "auth/token/revoke", map[string]any{"token": token}) }
	token := fresh()
	path := write(t, token)
	k, err := open(t, vault.Options{Mount: s.mount}).Key(t.Context(), "k", &vault.TokenFile{Path: path})
	check.Must(t, err)
	stop := signMany(t, k)
	for range 4 {
		old := token
		token = fresh()
		replace(t, path, token)
		revoke(old)
		if err := signOnce(t, k); err != nil {
			t.Error(err)
		}
	}
	if stop() == 0 {
		t.Error("nothing was signed")
	}
	revoke(token) // and there is no other one
	check.WantCode(t, signOnce(t, k), "custody_unavailable",
		"Vault does not know the token any more, and there is no other one yet")
	replace(t, path, fresh())
	s.signsAgain(t, k)
}

func TestVaultAgent(t *testing.T) {
	t.Parallel()
	s, dir := newSigning(t, 4*time.Second, 4*time.Second), t.TempDir()
	config, sink := filepath.Join(dir, "agent.hcl"), filepath.Join(dir, "token")
	replace(t, config, fmt.Sprintf(`
vault {
  address = %q
  ca_cert = %q
}
auto_auth {
  method "approle" {
    mount_path = "auth/%s"
    config = {
      role_id_file_path                   = %q
      secret_id_file_path                 = %q
      remove_secret_id_file_after_reading = false
    }
  }
  sink "file" {
    config = { path = %q }
  }
}
`, server.Address, server.CAFile, s.mount, s.auth.RoleIDFile, write(t, s.secretID(t)), sink))
	binary, err := vaulttest.Binary()
	check.Must(t, err)
	agent := exec.CommandContext(t.Context(), binary, "agent", "-config="+config, "-log-level=error")
	agent.Env, agent.SysProcAttr = []string{"HOME=" + dir}, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check.Must(t, agent.Start())
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })

	v := open(t, s.Options)
	var k *vault.Key
	for deadline := time.Now().Add(time.Minute); k == nil; { // until the agent has written its first token
		if k, err = v.Key(t.Context(), "k", &vault.TokenFile{Path: sink}); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	// The agent takes a second to get a token, too long for these.
	s.await(t, "logged in to Vault", 3)
	s.signsAgain(t, k)
}

func (s *signing) signsAgain(t *testing.T, k custody.Key) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := signOnce(t, k)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func (s *signing) tokens(t *testing.T) []tokenInfo {
	t.Helper()
	c := server.Client(t)
	list, err := c.Logical().ListWithContext(t.Context(), "auth/token/accessors")
	check.Must(t, err)
	var out []tokenInfo
	for _, accessor := range list.Data["keys"].([]any) {
		secret, err := c.Auth().Token().LookupAccessorWithContext(t.Context(), accessor.(string))
		if err != nil {
			continue // ended meanwhile
		}
		var info tokenInfo
		raw, err := json.Marshal(secret.Data)
		check.Must(t, errors.Join(err, json.Unmarshal(raw, &info)))
		if info.Path == "auth/"+s.mount+"/login" {
			out = append(out, info)
		}
	}
	return out
}

type tokenInfo struct {
	Path    string `json:"path"`
	Created int64  `json:"creation_time"`
	TTL     int64  `json:"creation_ttl"`
	Renewed int64  `json:"last_renewal_time"`
}

func TestEnvironment(t *testing.T) {
	s := newSigning(t, time.Hour, time.Hour)
	for name, value := range map[string]string{"VAULT_CACERT": filepath.Join(t.TempDir(), "none"),
		"VAULT_ADDR": "https://127.0.0.1:1", "VAULT_TOKEN": "another", "VAULT_NAMESPACE": "another",
		"VAULT_CLIENT_TIMEOUT": "none"} {
		t.Setenv(name, value)
	}
	s.Refresh = time.Hour
	k := s.mustKey(t)
	s.revoke(t)
	check.Must(t, signOnce(t, k))
}
