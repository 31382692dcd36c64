package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/internal/files"
)

// credentials are an AppRole login: a role id, and a secret id that only its process sees.
type credentials struct {
	path    string // of the AppRole
	dir     string
	purpose string
	process string
	wrap    time.Duration
	again   bool // make another secret id in any case
}

func (s credentials) roleIDFile() string   { return filepath.Join(s.dir, s.purpose+".role-id") }
func (s credentials) secretIDFile() string { return filepath.Join(s.dir, s.purpose+".secret-id") }

func (s credentials) command() string {
	unless := ""
	if !s.again {
		unless = fmt.Sprintf("vault list %s/secret-id >/dev/null 2>&1 || ", s.path)
	}
	return fmt.Sprintf("(umask 077; mkdir -p %s\n vault read -field=role_id %s/role-id >%s\n "+
		"%svault write -force -wrap-ttl=%s -field=wrapping_token %[2]s/secret-id >%[6]s)",
		quote(s.dir), s.path, quote(s.roleIDFile()), unless, s.wrap, quote(s.secretIDFile()))
}

// apply leaves an existing secret id, in the file or in Vault: it may be in use.
func (s credentials) apply(ctx context.Context, c *api.Client) (Done, error) {
	done := Done{What: s.secretIDFile(), Did: fmt.Sprintf("written, to be unwrapped within %s", s.wrap)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return Done{}, err
	}
	role, err := c.Logical().ReadWithContext(ctx, s.path+"/role-id")
	if err != nil {
		return Done{}, failed("read "+s.path+"/role-id", err)
	}
	id, err := text(role, "role_id")
	if err != nil {
		return Done{}, err
	}
	if err := files.WriteAbsent(s.roleIDFile(), []byte(id+"\n")); err != nil {
		return Done{}, err
	}
	if !s.again {
		left, err := s.left(ctx, c)
		if err != nil || left != "" {
			return Done{s.secretIDFile(), left}, err
		}
	}
	wrapping, err := s.wrapped(ctx, c)
	if err != nil {
		return Done{}, err
	}
	return done, files.Replace(s.secretIDFile(), []byte(wrapping+"\n"), 0o600)
}

// left says why apply makes no secret id; it is empty if apply makes one.
func (s credentials) left(ctx context.Context, c *api.Client) (string, error) {
	if _, err := os.Lstat(s.secretIDFile()); !errors.Is(err, fs.ErrNotExist) {
		return "is there", err
	}
	accessors, err := accessors(ctx, c, s.path)
	if err != nil || len(accessors) == 0 {
		return "", err
	}
	return fmt.Sprintf("not written, because the role has %d secret id(s) already; "+
		"mediator vault bootstrap --deliver %s makes another", len(accessors), s.process), nil
}

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
		return "", fmt.Errorf("the secret id of %s was not wrapped by Vault", s.path)
	}
	return secret.WrapInfo.Token, nil
}

func accessors(ctx context.Context, c *api.Client, path string) ([]string, error) {
	secret, err := c.Logical().ListWithContext(ctx, path+"/secret-id")
	if err != nil || secret == nil {
		return nil, failed("list "+path+"/secret-id", err)
	}
	var data struct{ Keys []string }
	raw, err := json.Marshal(secret.Data)
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	return data.Keys, failed("read the list of "+path+"/secret-id", err)
}

func text(s *api.Secret, name string) (string, error) {
	if s != nil {
		if v, ok := s.Data[name].(string); ok && v != "" {
			return v, nil
		}
	}
	return "", fmt.Errorf("an answer of Vault has no %s", name)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
