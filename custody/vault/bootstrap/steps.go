package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/vault/api"
)

type enabled struct {
	in   string // secrets or auth
	path string
	kind string
}

func (e enabled) command() string { return "vault " + e.in + " enable -path=" + e.path + " " + e.kind }

func (e enabled) apply(ctx context.Context, c *api.Client) (Done, error) {
	table, name := "sys/mounts", e.path
	if e.in == "auth" {
		table, name = "sys/auth", "auth/"+e.path
	}
	all, err := c.Logical().ReadWithContext(ctx, table)
	if err == nil && all == nil {
		err = errors.New("the answer is empty")
	}
	if err != nil {
		return Done{}, failed("read "+table, err)
	}
	is, there := all.Data[e.path+"/"].(map[string]any)
	switch {
	case !there:
		_, err := c.Logical().WriteWithContext(ctx, table+"/"+e.path, map[string]any{"type": e.kind})
		return Done{name, "enabled"}, failed("enable "+name, err)
	case is["type"] != e.kind:
		return Done{}, fmt.Errorf("%s is of the type %v and not %s: choose another mount", name, is["type"], e.kind)
	}
	return Done{name, "is there"}, nil
}

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
		// Another process may have made another key meanwhile.
		if is, err = c.Logical().ReadWithContext(ctx, k.path()); err != nil || is == nil {
			return Done{}, failed("read "+k.path(), err)
		}
	}
	if is.Data["type"] != "ed25519" || is.Data["derived"] != false {
		return Done{}, fmt.Errorf("%s is not a plain ed25519 key: rename or remove it", k.path())
	}
	if is.Data["exportable"] != false || is.Data["allow_plaintext_backup"] != false {
		return Done{}, fmt.Errorf("%s can be exported or backed up in plaintext, which Vault never "+
			"takes back: rename or remove it, and sign nothing with it", k.path())
	}
	if is.Data["deletion_allowed"] != false {
		did += ", and can no longer be deleted"
		_, err := c.Logical().WriteWithContext(ctx, k.path()+"/config", map[string]any{"deletion_allowed": false})
		return Done{k.path(), did}, failed("configure "+k.path(), err)
	}
	return Done{k.path(), did}, nil
}

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
