package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/vaulttest"
)

// rules replace those of the development configuration. HOST is the upstream.
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
// that pays for every post of the run.
func (b *stand) startMediator(ctx context.Context, name, custody string) (target, error) {
	listen, err := freeport.Address()
	if err != nil {
		return target{}, err
	}
	hooks, err := freeport.Address()
	if err != nil {
		return target{}, err
	}
	dir := filepath.Join(b.dir, name)
	if err := b.configure(dir, listen, hooks, custody); err != nil {
		return target{}, err
	}
	cmd, err := b.run("bin/mediator", "dev", "--quiet", "--dir", dir)
	if err != nil {
		return target{}, err
	}
	t := target{name: name}
	if err := t.open(ctx, dir, hooks); err != nil {
		return target{}, fmt.Errorf("%s: %w", name, err)
	}
	t.pids = children(cmd.Process.Pid)
	for _, pid := range t.pids {
		if is(pid, "serve") {
			t.sidecar = append(t.sidecar, pid)
		}
	}
	return b.ahead(t), nil
}

// configure writes the configuration files. The sidecar delivers no receipts to the node, so only posts are measured.
func (b *stand) configure(dir, listen, hooks, custody string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for file, raw := range configs.Dev {
		text := strings.NewReplacer(
			"127.0.0.1:8181", listen, "127.0.0.1:8182", hooks, "{type: memory}", custody, "dir: ca, ", "",
			"sources:\n", "maxAge: 24h\nbudget: 1000000000\nsources:\n",
			"\nreputation: ", "\n# reputation: ",
		).Replace(string(raw))
		if before, _, ok := strings.Cut(text, "session: {standing"); ok {
			text = before + strings.ReplaceAll(rules, "HOST", b.upstream)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// open opens a session for a new event of the deployment in dir.
func (t *target) open(ctx context.Context, dir, hooks string) error {
	var opened struct{ ProxyURL, CAFile string }
	err := wait(ctx, func() error {
		event, err := deliver(ctx, filepath.Join(dir, "secrets", "webhook"), hooks)
		if err != nil {
			return err
		}
		return ask(ctx, filepath.Join(dir, "run", "serve.sock"), http.MethodPost, "/v1/sessions",
			map[string]string{"event": event}, &opened)
	})
	if err != nil {
		return err
	}
	proxy, err := url.Parse(opened.ProxyURL)
	if err != nil {
		return err
	}
	if t.roots == nil {
		t.roots = x509.NewCertPool()
	}
	ca, err := os.ReadFile(opened.CAFile)
	t.proxies = append(t.proxies, proxy)
	t.roots.AppendCertsFromPEM(ca)
	return err
}

// deliver sends a signed Standard Webhook and returns the ID of its event.
func deliver(ctx context.Context, secretFile, hooks string) (string, error) {
	text, err := os.ReadFile(secretFile)
	if err != nil {
		return "", err
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(text)), "whsec_"))
	if err != nil {
		return "", err
	}
	id, at, body := evidence.NewID(), strconv.FormatInt(time.Now().Unix(), 10), `{"type":"bench"}`
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + at + "." + body))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+hooks+"/hooks/hooks", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ EventID string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.EventID == "" {
		return "", fmt.Errorf("the webhook was answered %d", resp.StatusCode)
	}
	return answer.EventID, nil
}

// is reports whether a process runs this command of the mediator.
func is(pid int, command string) bool {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.Contains(raw, []byte("\x00"+command+"\x00"))
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
	return fmt.Sprintf(`{type: vault, vault: {address: "%s", ca: "%s", keys: [runtime-key, session-key, request-proof-key,
    interaction-receipt-key, origin-proof-key, trigger-receipt-key, policy-decision-key, action-grant-key,
    agent-statement-key, appraiser-key], auth: {appRole: {
    role: "mediator-{role}", roleIDFile: "%[3]s/{role}.role-id", secretIDFile: "%[3]s/{role}.secret-id"}}}}`,
		v.Address, v.CAFile, secrets), nil
}

// ask asks an internal endpoint.
func ask(ctx context.Context, socket, method, path string, body, answer any) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}, Timeout: time.Minute}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://mediator"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %d", path, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
