package bootstrap

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/vault/api"
)

// engine is the Transit engine.
type engine struct{ path string }

func (e engine) command() string { return "vault secrets enable -path=" + e.path + " transit" }

func (e engine) apply(ctx context.Context, c *api.Client) (Done, error) {
	mounts, err := c.Sys().ListMountsWithContext(ctx)
	if err != nil {
		return Done{}, failed("read the mounts", err)
	}
	switch m := mounts[e.path+"/"]; {
	case m == nil:
		return Done{e.path, "enabled"},
			failed("enable "+e.path, c.Sys().MountWithContext(ctx, e.path, &api.MountInput{Type: "transit"}))
	case m.Type != "transit":
		return Done{}, fmt.Errorf("what is mounted at %s is of the type %s: choose another mount", e.path, m.Type)
	}
	return Done{e.path, "is there"}, nil
}

// method is an auth method.
type method struct{ path, kind string }

func (m method) command() string { return "vault auth enable -path=" + m.path + " " + m.kind }

func (m method) apply(ctx context.Context, c *api.Client) (Done, error) {
	methods, err := c.Sys().ListAuthWithContext(ctx)
	if err != nil {
		return Done{}, failed("read the auth methods", err)
	}
	switch is := methods[m.path+"/"]; {
	case is == nil:
		return Done{"auth/" + m.path, "enabled"},
			failed("enable auth/"+m.path,
				c.Sys().EnableAuthWithOptionsWithContext(ctx, m.path, &api.EnableAuthOptions{Type: m.kind}))
	case is.Type != m.kind:
		return Done{}, fmt.Errorf("auth/%s is of the type %s and not %s: choose another mount", m.path, is.Type, m.kind)
	}
	return Done{"auth/" + m.path, "is there"}, nil
}

// key is a signing key that never leaves the Transit engine.
type key struct{ transit, name string }

func (k key) path() string { return k.transit + "/keys/" + k.name }

func (k key) command() string {
	return "vault write " + k.path() + " type=ed25519 exportable=false allow_plaintext_backup=false\n" +
		"vault write " + k.path() + "/config deletion_allowed=false"
}

func (k key) apply(ctx context.Context, c *api.Client) (Done, error) {
	is, err := c.Logical().ReadWithContext(ctx, k.path())
	if err != nil {
		return Done{}, failed("read "+k.path(), err)
	}
	did := "is there"
	if is == nil {
		did = "made"
		if _, err := c.Logical().WriteWithContext(ctx, k.path(),
			map[string]any{"type": "ed25519", "exportable": false, "allow_plaintext_backup": false}); err != nil {
			return Done{}, failed("make "+k.path(), err)
		}
		// Making an existing key returns that one: only reading it shows what it is.
		if is, err = c.Logical().ReadWithContext(ctx, k.path()); err != nil || is == nil {
			return Done{}, failed("read "+k.path(), err)
		}
	}
	if is.Data["type"] != "ed25519" || is.Data["derived"] != false {
		return Done{}, fmt.Errorf("%s is not a plain ed25519 key: rename or remove it", k.path())
	}
	if is.Data["exportable"] != false || is.Data["allow_plaintext_backup"] != false {
		return Done{},
			fmt.Errorf(
				"%s can be exported or backed up in plaintext, which Vault never takes back: rename or remove it, and sign "+
					"nothing with it", k.path())
	}
	if is.Data["deletion_allowed"] != false {
		did += ", and can no longer be deleted"
		if _, err := c.Logical().WriteWithContext(ctx, k.path()+"/config", map[string]any{"deletion_allowed": false}); err !=
			nil {
			return Done{}, failed("configure "+k.path(), err)
		}
	}
	return Done{k.path(), did}, nil
}

// policy is a role's Vault policy.
type policy struct{ name, text string }

func (p policy) command() string {
	return "vault policy write " + p.name + " - <<'EOF'\n" + p.text + "EOF"
}

func (p policy) apply(ctx context.Context, c *api.Client) (Done, error) {
	is, err := c.Sys().GetPolicyWithContext(ctx, p.name)
	if err != nil {
		return Done{}, failed("read the policy "+p.name, err)
	}
	did := "written"
	if is == p.text {
		return Done{"policy " + p.name, "is there"}, nil
	}
	if is != "" {
		did = "replaced, it was another one"
	}
	return Done{"policy " + p.name, did},
		failed("write the policy "+p.name, c.Sys().PutPolicyWithContext(ctx, p.name, p.text))
}

// login is a role's login.
type login struct {
	path   string
	fields []string // name=value
}

func (l login) command() string { return "vault write " + l.path + " " + strings.Join(l.fields, " ") }

func (l login) apply(ctx context.Context, c *api.Client) (Done, error) {
	is, err := c.Logical().ReadWithContext(ctx, l.path)
	if err != nil {
		return Done{}, failed("read "+l.path, err)
	}
	did := "made"
	if is != nil {
		did = "is there, and set again"
	}
	data := make(map[string]any)
	for _, f := range l.fields {
		name, value, _ := strings.Cut(f, "=")
		data[name] = value
	}
	_, err = c.Logical().WriteWithContext(ctx, l.path, data)
	return Done{l.path, did}, failed("write "+l.path, err)
}

// failed describes err for operators; nil for nil. Vault's errors hold no tokens.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}
