package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
)

// credentials are what one role logs in to AppRole with: a role id, and a secret id that nobody sees before the process that it is for.
type credentials struct {
	path    string // of the AppRole
	dir     string
	purpose string
	wrap    time.Duration
}

func (s credentials) roleIDFile() string   { return filepath.Join(s.dir, s.purpose+".role-id") }
func (s credentials) secretIDFile() string { return filepath.Join(s.dir, s.purpose+".secret-id") }

func (s credentials) command() string {
	return fmt.Sprintf("(umask 077; mkdir -p %[1]s\n vault read -field=role_id %[2]s/role-id >%[3]s\n vault write -force -wrap-ttl=%[4]s -field=wrapping_token %[2]s/secret-id >%[5]s)",
		quote(s.dir), s.path, quote(s.roleIDFile()), s.wrap, quote(s.secretIDFile()))
}

// apply writes what is not there. A secret id that is there is left: it may be in use, or on its way.
func (s credentials) apply(ctx context.Context, c *api.Client) (string, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	role, err := c.Logical().ReadWithContext(ctx, s.path+"/role-id")
	if err != nil {
		return "", failed("read "+s.path+"/role-id", err)
	}
	if _, err := writeSecret(s.roleIDFile(), func() (string, error) { return text(role, "role_id") }); err != nil {
		return "", err
	}
	wrote, err := writeSecret(s.secretIDFile(), func() (string, error) { return s.wrapped(ctx, c) })
	if err != nil {
		return "", err
	}
	if !wrote {
		return s.secretIDFile() + ": is there; remove it to have another one made", nil
	}
	return fmt.Sprintf("%s: written, to be unwrapped within %s", s.secretIDFile(), s.wrap), nil
}

// wrapped makes a secret id and returns the token that it is wrapped in.
func (s credentials) wrapped(ctx context.Context, c *api.Client) (string, error) {
	wrapping, err := c.CloneWithHeaders()
	if err != nil {
		return "", err
	}
	wrapping.SetToken(c.Token())
	wrapping.SetWrappingLookupFunc(func(string, string) string { return s.wrap.String() })
	secret, err := wrapping.Logical().WriteWithContext(ctx, s.path+"/secret-id", nil)
	if err != nil {
		return "", failed("make a secret id at "+s.path, err)
	}
	if secret == nil || secret.WrapInfo == nil || secret.WrapInfo.Token == "" {
		return "", fmt.Errorf("the secret id of %s came without a wrapping", s.path)
	}
	return secret.WrapInfo.Token, nil
}

func text(s *api.Secret, name string) (string, error) {
	if s != nil {
		if v, ok := s.Data[name].(string); ok && v != "" {
			return v, nil
		}
	}
	return "", fmt.Errorf("an answer of Vault has no %s", name)
}

// writeSecret writes a file that is not there, for its owner alone, and tells whether it did.
func writeSecret(path string, content func() (string, error)) (wrote bool, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	secret, err := content()
	if err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, errors.Join(err, os.Remove(path)) // so that the next time makes it
	}
	return true, nil
}

// quote makes a shell read s as one word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
