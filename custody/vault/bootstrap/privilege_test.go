package bootstrap_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
)

// TestLeastPrivilege: each role signs with its key, and Vault denies everything else.
func TestLeastPrivilege(t *testing.T) {
	server.Reset(t)
	dir := t.TempDir()
	apply(t, appRoles(dir))
	server.Mount(t, "kv", "kv", map[string]string{"version": "2"})
	server.Write(t, "kv/data/credential", map[string]any{"data": map[string]any{"token": "not for signers"}})
	all := slices.Concat(bootstrap.Roles, bootstrap.Roots,
		[]bootstrap.Role{bootstrap.Log, bootstrap.BotAuth, bootstrap.Authority})
	for _, r := range all {
		t.Run(r.Purpose, func(t *testing.T) {
			c := login(t, dir, r)
			allowed(t, c, http.MethodGet, "transit/keys/"+r.Key, nil)
			allowed(t, c, http.MethodPut, "transit/sign/"+r.Key,
				map[string]any{"batch_input": []any{map[string]any{"input": "bWVzc2FnZQ=="}}, "key_version": 1})
			for _, other := range all {
				if other != r {
					denied(t, c, http.MethodPut, "transit/sign/"+other.Key, map[string]any{"input": "bWVzc2FnZQ=="})
					denied(t, c, http.MethodGet, "transit/keys/"+other.Key, nil)
				}
			}
			for _, want := range forbidden(r.Key) {
				method, path, _ := strings.Cut(want, " ")
				denied(t, c, method, path, anything)
			}
			allowed(t, c, http.MethodPut, "auth/token/renew-self", nil)
			allowed(t, c, http.MethodPut, "auth/token/revoke-self", nil)
		})
	}
}

// TestReader reads public keys, and does nothing else.
func TestReader(t *testing.T) {
	server.Reset(t)
	dir := t.TempDir()
	apply(t, appRoles(dir))
	c := login(t, dir, bootstrap.Reader)
	for _, r := range append(slices.Clone(bootstrap.Roles), bootstrap.BotAuth) {
		allowed(t, c, http.MethodGet, "transit/keys/"+r.Key, nil)
		denied(t, c, http.MethodPut, "transit/sign/"+r.Key, map[string]any{"input": "bWVzc2FnZQ=="})
		for _, want := range forbidden(r.Key) {
			method, path, _ := strings.Cut(want, " ")
			denied(t, c, method, path, anything)
		}
	}
}

// TestOwner rotates and retires, and cannot sign, export or grant.
func TestOwner(t *testing.T) {
	server.Reset(t)
	o := appRoles(t.TempDir())
	apply(t, o)
	secret, err := server.Client(t).Auth().Token().CreateOrphan(
		&api.TokenCreateRequest{Policies: []string{"mediator-owner"}, NoDefaultPolicy: true})
	check.Must(t, err)
	c := server.Client(t)
	c.SetToken(secret.Auth.ClientToken)
	allowed(t, c, http.MethodPut, "transit/keys/runtime-key/rotate", nil)
	allowed(t, c, http.MethodGet, "transit/keys/runtime-key", nil)
	allowed(t, c, http.MethodPut, "transit/keys/runtime-key/config",
		map[string]any{"min_decryption_version": 2, "min_encryption_version": 2})
	for _, flag := range []string{"exportable", "allow_plaintext_backup", "deletion_allowed"} {
		denied(t, c, http.MethodPut, "transit/keys/runtime-key/config", map[string]any{flag: true})
		denied(t, c, http.MethodPut, "transit/keys/runtime-key/config",
			map[string]any{flag: true, "min_decryption_version": 2})
	}
	for _, want := range forbidden("runtime-key") {
		method, path, _ := strings.Cut(want, " ")
		if path != "transit/keys/runtime-key/rotate" {
			denied(t, c, method, path, anything)
		}
	}
	denied(t, c, http.MethodPut, "transit/sign/runtime-key", map[string]any{"input": "bWVzc2FnZQ=="})
}

var anything = map[string]any{"name": "new", "policies": []string{"root"},
	"policy": `path "*" { capabilities = ["sudo"] }`, "exportable": true, "input": "bWVzc2FnZQ=="}

func forbidden(key string) []string {
	var out []string
	for _, path := range []string{"rotate", "config", "trim", "import", "import_version", "soft-delete"} {
		out = append(out, "PUT transit/keys/"+key+"/"+path)
	}
	for _, path := range []string{"encrypt", "decrypt", "rewrap", "hmac", "datakey/plaintext", "verify"} {
		out = append(out, "PUT transit/"+path+"/"+key)
	}
	return append(out,
		"DELETE transit/keys/"+key, "LIST transit/keys", "PUT transit/keys/another", "PUT transit/keys/"+key,
		"GET transit/export/signing-key/"+key, "GET transit/export/signing-key/"+key+"/1", "GET transit/backup/"+key,
		"PUT transit/restore/"+key,
		"PUT transit/sign/"+key+"/sha2-256", "PUT transit/config/keys", "PUT transit/cache-config",
		"GET transit/byok-export/"+key+"/"+key,
		"GET kv/data/credential", "PUT kv/data/credential", "LIST kv/metadata", "GET cubbyhole/x", "PUT cubbyhole/x",
		"PUT sys/policies/acl/mediator-runtime_attestation", "GET sys/policies/acl/root", "PUT sys/policy/x",
		"LIST sys/policies/acl",
		"PUT sys/mounts/mine", "GET sys/mounts", "PUT sys/auth/mine", "GET sys/auth", "PUT sys/seal",
		"PUT sys/audit/mine", "GET sys/raw/core",
		"PUT sys/wrapping/wrap", "PUT sys/leases/revoke-prefix/x", "GET sys/storage/raft/snapshot",
		"PUT auth/token/create", "PUT auth/token/create-orphan", "PUT auth/token/roles/mine", "PUT auth/token/lookup",
		"PUT auth/token/revoke", "LIST auth/token/accessors",
		"PUT auth/approle/role/mediator-runtime_attestation",
		"GET auth/approle/role/mediator-runtime_attestation/role-id",
		"PUT auth/approle/role/mediator-runtime_attestation/secret-id", "PUT identity/entity",
	)
}

func login(t *testing.T, dir string, r bootstrap.Role) *api.Client {
	t.Helper()
	content := func(suffix string) string {
		raw, err := os.ReadFile(filepath.Join(dir, r.Purpose+suffix))
		check.Must(t, err)
		return strings.TrimSpace(string(raw))
	}
	c := server.Client(t)
	c.ClearToken()
	unwrapped, err := c.Logical().UnwrapWithContext(t.Context(), content(".secret-id"))
	check.Must(t, err)
	secret, err := c.Logical().WriteWithContext(t.Context(), "auth/approle/login",
		map[string]any{"role_id": content(".role-id"), "secret_id": unwrapped.Data["secret_id"]})
	check.Must(t, err)
	if !slices.Equal(secret.Auth.Policies, []string{"mediator-" + r.Purpose}) {
		t.Errorf("the token has the policies %v", secret.Auth.Policies)
	}
	c.SetToken(secret.Auth.ClientToken)
	return c
}

func ask(t *testing.T, c *api.Client, method, path string, body map[string]any) error {
	t.Helper()
	var err error
	switch method {
	case http.MethodGet:
		_, err = c.Logical().ReadWithContext(t.Context(), path)
	case "LIST":
		_, err = c.Logical().ListWithContext(t.Context(), path)
	case http.MethodDelete:
		_, err = c.Logical().DeleteWithContext(t.Context(), path)
	default:
		_, err = c.Logical().WriteWithContext(t.Context(), path, body)
	}
	return err
}

func allowed(t *testing.T, c *api.Client, method, path string, body map[string]any) {
	t.Helper()
	if err := ask(t, c, method, path, body); err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
}

func denied(t *testing.T, c *api.Client, method, path string, body map[string]any) {
	t.Helper()
	var answer *api.ResponseError
	err := ask(t, c, method, path, body)
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusForbidden ||
		!slices.ContainsFunc(answer.Errors, func(s string) bool {
			return strings.Contains(s, "permission denied")
		}) {
		t.Errorf("%s %s: %v", method, path, err)
	}
}
