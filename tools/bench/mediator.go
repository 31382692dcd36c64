package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/vaulttest"
)

// rules are those of the measured sidecar. HOST is the upstream.
const rules = `
actions:
  - name: post
    match: {url: "https://HOST/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
egress:
  - name: read
    match: {url: "https://HOST/**", methods: [GET]}
upstreams:
  - {host: "HOST", address: 127.0.0.1, networks: [127.0.0.0/8], ca: ../ca.pem}
limits: {session: {perSecond: 1000000}, host: {perSecond: 1000000}}
`

// startMediator starts the processes as mediator dev does, with a custody in YAML, and opens a session for an event
// that pays for every post of the run. The sidecar delivers no receipts to the node, so only posts are measured.
func (b *stand) startMediator(ctx context.Context, name, custody string) (t target, err error) {
	d, err := trial.New(filepath.Join(b.dir, name))
	if err != nil {
		return t, err
	}
	edit := strings.NewReplacer("{type: memory}", custody, "\nreputation: ", "\n# reputation: ", "@every 1s", "@every 1h",
		"maxAge: "+trial.MaxAge.String(), "maxAge: 24h\nbudget: 1000000000", fmt.Sprintf("agent: {uid: %d}", trial.User()),
		"")
	files := d.Files(strings.ReplaceAll(rules, "HOST", b.upstream))
	for name, raw := range files {
		files[name] = []byte(edit.Replace(string(raw)))
	}
	if err := devstack.Prepare(d.Dir, files); err != nil {
		return t, err
	}
	cmd, err := b.run("bin/mediator", "dev", "--quiet", "--dir", d.Dir)
	if err != nil {
		return t, err
	}
	var s admin.Session
	err = wait(ctx, func() error {
		event, err := d.DeliverRelease(ctx)
		if err != nil {
			return err
		}
		return admin.Call(ctx, d.Stack.Admin(), http.MethodPost, "/v1/sessions", admin.SessionRequest{Event: event}, &s)
	})
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	proxy, err := url.Parse(s.ProxyURL)
	t = target{name: name, deployment: d, proxy: proxy, roots: pool(s.CAFile), pids: children(cmd.Process.Pid)}
	for _, pid := range t.pids {
		if raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(raw, []byte("\x00serve\x00")) {
			t.sidecar = append(t.sidecar, pid)
		}
	}
	return t, err
}

// startVault starts and prepares a Vault server, and returns the custody for the configurations.
func (b *stand) startVault() (string, error) {
	v, err := vaulttest.Launch()
	if err != nil {
		return "", err
	}
	b.vault = v
	token, secrets := filepath.Join(b.dir, "token"), filepath.Join(b.dir, "vault-secrets")
	if err := errors.Join(os.WriteFile(token, []byte(v.Token), 0o600), os.MkdirAll(secrets, 0o700)); err != nil {
		return "", err
	}
	cmd := exec.Command("bin/mediator", "vault", "bootstrap", "--apply", "--address", v.Address, "--ca", v.CAFile,
		"--token-file", token, "--out", secrets)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("vault bootstrap: %w: %s", err, out)
	}
	var keys []string
	for _, r := range bootstrap.Roles {
		keys = append(keys, r.Key)
	}
	return fmt.Sprintf(`{type: vault, vault: {address: "%s", ca: "%s", keys: [%s], auth: {appRole: {
    role: "mediator-{role}", roleIDFile: "%[4]s/{role}.role-id", secretIDFile: "%[4]s/{role}.secret-id"}}}}`,
		v.Address, v.CAFile, strings.Join(keys, ", "), secrets), nil
}
