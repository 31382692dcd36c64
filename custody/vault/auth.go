package vault

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/internal/files"
)

// Auth gets a Vault token for one role.
type Auth interface {
	// login returns a secret with the token in Auth. c has no token.
	login(ctx context.Context, c *api.Client) (*api.Secret, error)
	// roles are the paths of the known roles in its auth method, and of what makes a login with them.
	roles() []string
}

// AppRole logs in with an AppRole.
type AppRole struct {
	Mount      string // of the auth method; approle if empty
	RoleIDFile string
	// SecretIDFile holds the secret id or, with Wrapped, a wrapping token for it. It is read at each login. A secret id
	// that Vault calls invalid is not tried again: five failures lock the role for fifteen minutes.
	SecretIDFile string
	Wrapped      bool
	Role         string // the AppRole's name, for which a wrapping token must be made; only with Wrapped
	// Roles are names of AppRoles, this one included, whose logins the token must not make ([Key.Observe]).
	Roles []string

	mu       sync.Mutex // guards all below; held during a login
	wrapping string     // the last unwrapped wrapping token
	secretID string     // its content
	refused  pair       // the last refused pair
}

type pair struct{ roleID, secretID string }

func (a *AppRole) roles() (paths []string) {
	for _, role := range rolesAt(cmp.Or(a.Mount, "approle"), a.Roles) {
		paths = append(paths, role, role+"/secret-id", role+"/custom-secret-id")
	}
	return paths
}

// rolesAt returns the paths of the roles, and of one that only a wildcard policy allows.
func rolesAt(mount string, names []string) (paths []string) {
	for _, name := range append([]string{rand.Text()}, names...) {
		paths = append(paths, "auth/"+mount+"/role/"+name)
	}
	return paths
}

func (a *AppRole) login(ctx context.Context, c *api.Client) (*api.Secret, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	roleID, err := readFile(a.RoleIDFile)
	if err != nil {
		return nil, err
	}
	secretID, err := a.secret(ctx, c)
	if err != nil {
		return nil, err
	}
	with := pair{roleID, secretID}
	if a.refused == with {
		return nil, loginFailed("Vault has refused the role id or the secret id of %s, and they are not tried again: "+
			"deliver a new secret id", a.SecretIDFile)
	}
	secret, err := c.Logical().WriteWithContext(ctx, "auth/"+cmp.Or(a.Mount, "approle")+"/login",
		map[string]any{"role_id": roleID, "secret_id": secretID})
	answer := (*api.ResponseError)(nil)
	if errors.As(err, &answer) && answer.StatusCode == http.StatusBadRequest && said(answer, "invalid") {
		a.refused = with
	}
	return secret, err
}

// The caller holds mu.
func (a *AppRole) secret(ctx context.Context, c *api.Client) (string, error) {
	content, err := readFile(a.SecretIDFile)
	if err != nil || !a.Wrapped {
		return content, err
	}
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

// ready refuses a wrapped secret id that login would refuse, without using it up.
func (a *AppRole) ready(ctx context.Context, c *api.Client) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	content, err := readFile(a.SecretIDFile)
	if err != nil || !a.Wrapped || content == a.wrapping {
		return err
	}
	return a.lookUp(ctx, c, content)
}

// lookUp checks the path that made the wrapping token: a thief who exchanged it could otherwise choose the role.
func (a *AppRole) lookUp(ctx context.Context, c *api.Client, wrapping string) error {
	info, err := c.Logical().WriteWithContext(ctx, "sys/wrapping/lookup", map[string]any{"token": wrapping})
	if err != nil {
		if answer := (*api.ResponseError)(nil); errors.As(err, &answer) && refuses(answer) {
			return loginFailed("the wrapped secret id in %s has expired or was unwrapped before: "+
				"deliver another one, and unless this process did that at an earlier start, find out who did",
				a.SecretIDFile)
		}
		return err
	}
	want := "auth/" + cmp.Or(a.Mount, "approle") + "/role/" + a.Role + "/secret-id"
	if info == nil || info.Data["creation_path"] != want {
		return loginFailed("the wrapped secret id in %s was not made for this role: somebody has exchanged it",
			a.SecretIDFile)
	}
	return nil
}

func (a *AppRole) unwrap(ctx context.Context, c *api.Client, wrapping string) (string, error) {
	if err := a.lookUp(ctx, c, wrapping); err != nil {
		return "", err
	}
	patient, err := c.Clone()
	if err != nil {
		return "", err
	}
	patient.SetClientTimeout(unwrapTimeout)
	secret, err := patient.Logical().UnwrapWithContext(ctx, wrapping)
	if err != nil {
		return "", err
	}
	if secret != nil {
		if id, ok := secret.Data["secret_id"].(string); ok && id != "" {
			return id, nil
		}
	}
	return "", loginFailed("the wrapping holds no secret id")
}

// Kubernetes logs in with the pod's service account.
type Kubernetes struct {
	Mount   string   // of the auth method; kubernetes if empty
	Role    string   // Vault's role
	JWTFile string   // the token's file, read at each login
	Roles   []string // like [AppRole.Roles]
}

func (k *Kubernetes) roles() []string { return rolesAt(cmp.Or(k.Mount, "kubernetes"), k.Roles) }

func (k *Kubernetes) login(ctx context.Context, c *api.Client) (*api.Secret, error) {
	jwt, err := readFile(k.JWTFile)
	if err != nil {
		return nil, err
	}
	return c.Logical().WriteWithContext(ctx, "auth/"+cmp.Or(k.Mount, "kubernetes")+"/login",
		map[string]any{"role": k.Role, "jwt": jwt})
}

// TokenFile is a token that another program renews, such as Vault Agent. The file is read again when Vault no longer
// knows the token.
type TokenFile struct{ Path string }

func (t *TokenFile) roles() []string {
	return append(new(AppRole).roles(), new(Kubernetes).roles()...)
}

func (t *TokenFile) login(context.Context, *api.Client) (*api.Secret, error) {
	token, err := readFile(t.Path)
	if err != nil {
		return nil, err
	}
	return &api.Secret{Auth: &api.SecretAuth{ClientToken: token}}, nil
}

const maxFile = 64 << 10

func readFile(path string) (string, error) {
	raw, err := files.ReadUpTo(path, maxFile)
	if err != nil {
		return "", loginFailed("%v", err)
	}
	s := strings.TrimSpace(string(raw))
	if s == "" {
		return "", loginFailed("%s is empty", path)
	}
	return s, nil
}
