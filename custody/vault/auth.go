package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/vault/api"
)

// Auth gets a Vault token for one role.
type Auth interface {
	// login returns a secret whose Auth has the token. c has no token.
	login(ctx context.Context, c *api.Client) (*api.Secret, error)
}

// AppRole logs in with AppRole.
type AppRole struct {
	Mount      string // of the auth method; approle if empty
	RoleIDFile string
	// SecretIDFile holds the secret id or, with Wrapped, a response-wrapping token for it, which is unwrapped once. The file is read again
	// at each login: whoever delivers a new one replaces the file. One that Vault has refused is not tried again, since five failures lock
	// the role out for a quarter of an hour.
	SecretIDFile string
	Wrapped      bool
	// Role is the name of the AppRole, for which a wrapping token must have been made; only with Wrapped.
	Role string

	mu       sync.Mutex // guards all below
	wrapping string     // the wrapping token that was unwrapped last
	secretID string     // what was in it
	refused  pair       // what Vault has refused last
}

// pair is what a role logs in with.
type pair struct{ roleID, secretID string }

func (a *AppRole) login(ctx context.Context, c *api.Client) (*api.Secret, error) {
	roleID, err := readFile(a.RoleIDFile)
	if err != nil {
		return nil, err
	}
	secretID, err := a.secret(ctx, c)
	if err != nil {
		return nil, err
	}
	with := pair{roleID, secretID}
	if a.hasRefused(with) {
		return nil, loginError{fmt.Sprintf("Vault has refused the role id or the secret id of %s, and they are not tried again: deliver a new secret id", a.SecretIDFile)}
	}
	secret, err := c.Logical().WriteWithContext(ctx, "auth/"+cmp.Or(a.Mount, "approle")+"/login", map[string]any{"role_id": roleID, "secret_id": secretID})
	if answer := (*api.ResponseError)(nil); errors.As(err, &answer) && answer.StatusCode == http.StatusBadRequest {
		a.refuse(with)
	}
	return secret, err
}

func (a *AppRole) hasRefused(p pair) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused == p
}

func (a *AppRole) refuse(p pair) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = p
}

func (a *AppRole) secret(ctx context.Context, c *api.Client) (string, error) {
	content, err := readFile(a.SecretIDFile)
	if err != nil || !a.Wrapped {
		return content, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if content == a.wrapping {
		return a.secretID, nil
	}
	secretID, err := a.unwrap(ctx, c, content)
	if err != nil {
		return "", err
	}
	a.wrapping, a.secretID = content, secretID
	return secretID, nil
}

// unwrap takes the secret id out of its wrapping. A token that was made for something else would give whoever made it the choice of the
// role, so where it was made is looked at first.
func (a *AppRole) unwrap(ctx context.Context, c *api.Client, wrapping string) (string, error) {
	info, err := c.Logical().WriteWithContext(ctx, "sys/wrapping/lookup", map[string]any{"token": wrapping})
	if err != nil {
		if answer := (*api.ResponseError)(nil); errors.As(err, &answer) && refuses(answer) {
			return "", loginError{fmt.Sprintf("the wrapped secret id in %s has expired or was unwrapped before: deliver another one, and unless this process did that at an earlier start, find out who did", a.SecretIDFile)}
		}
		return "", err
	}
	want := "auth/" + cmp.Or(a.Mount, "approle") + "/role/" + a.Role + "/secret-id"
	if info == nil || info.Data["creation_path"] != want {
		return "", loginError{fmt.Sprintf("the wrapped secret id in %s was not made for this role: somebody has exchanged it", a.SecretIDFile)}
	}
	secret, err := c.Logical().UnwrapWithContext(ctx, wrapping)
	if err != nil {
		return "", err
	}
	if secret != nil {
		if id, ok := secret.Data["secret_id"].(string); ok && id != "" {
			return id, nil
		}
	}
	return "", loginError{"the wrapping holds no secret id"}
}

// Kubernetes logs in with the pod's service account.
type Kubernetes struct {
	Mount   string // of the auth method; kubernetes if empty
	Role    string // Vault's role
	JWTFile string // the service account's token, read at each login
}

func (k *Kubernetes) login(ctx context.Context, c *api.Client) (*api.Secret, error) {
	jwt, err := readFile(k.JWTFile)
	if err != nil {
		return nil, err
	}
	return c.Logical().WriteWithContext(ctx, "auth/"+cmp.Or(k.Mount, "kubernetes")+"/login", map[string]any{"role": k.Role, "jwt": jwt})
}

// TokenFile is a token that somebody else gets and renews, such as Vault Agent. The file is read again when Vault does not know the
// token any more.
type TokenFile struct{ Path string }

func (t *TokenFile) login(context.Context, *api.Client) (*api.Secret, error) {
	token, err := readFile(t.Path)
	if err != nil {
		return nil, err
	}
	return &api.Secret{Auth: &api.SecretAuth{ClientToken: token}}, nil
}

// maxFile bounds a file with a secret in it, in bytes.
const maxFile = 64 << 10

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", loginError{err.Error()}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(raw))
	if s == "" || len(raw) > maxFile {
		return "", loginError{fmt.Sprintf("%s is empty, or longer than %d bytes", path, maxFile)}
	}
	return s, nil
}
