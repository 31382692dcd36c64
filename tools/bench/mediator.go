package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/vaulttest"
)

// layer is a deployment of the mediator.
type layer struct {
	name            string
	egress          bool // its posts need no evidence
	memory          bool // its state is in memory, where a sync costs nothing
	without         bool // receipts and the node
	log             bool
	telemetry       bool     // an open console, traces of one call in a hundred, and the audit export to a file
	custody         string   // in YAML
	rules, sessions int      // more than one
	under           []string // the program that starts it
}

// layers returns the deployments. Each of the first five switches something on over the one before, and receipts is
// what mediator dev comes with. The others change one thing of receipts.
func layers(o options, custody string) []layer {
	return []layer{
		{name: "rules", egress: true, memory: true, without: true},
		{name: "signing", memory: true, without: true},
		{name: "durable", without: true},
		{name: "receipts"},
		{name: "vault", custody: custody},
		{name: "log", log: true},
		{name: "telemetry", telemetry: true},
		{name: "many rules", rules: o.size.rules},
		{name: "many sessions", sessions: o.size.sessions},
	}
}

// rules configure the measured sidecar. HOST is the upstream.
const rules = `
actions:
  - name: post
    match: {url: "https://HOST/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
upstreams:
  - {host: "HOST", address: 127.0.0.1, networks: [127.0.0.0/8], ca: "CA"}
limits: {session: {perSecond: 1000000}, host: {perSecond: 1000000}}
egress:
  - name: read
    match: {url: "https://HOST/**", methods: [GET]}
  - name: note
    match: {url: "https://HOST/notes", methods: [POST]}
`

// ownConsole is the line for the console, which has the same address in all deployments.
var ownConsole = regexp.MustCompile(`(?m)^console: .*$`)

var receipts = regexp.MustCompile(`(?m)^( *interactionReceipt|receipts|reputation): .*\n`)

// startMediator starts the processes as mediator dev does, and opens a session for an event that pays for every post of
// the run.
func (b *stand) startMediator(ctx context.Context, l layer) (t target, err error) {
	dir := b.dir
	if l.memory {
		dir = b.memory
	}
	d, err := trial.New(filepath.Join(dir, l.name))
	if err != nil {
		return t, err
	}
	edit := strings.NewReplacer("{type: memory}", cmp.Or(l.custody, "{type: memory}"), "@every 1s", "@every 1h",
		"maxAge: "+trial.MaxAge.String(), "maxAge: 24h\nbudget: 1000000000", fmt.Sprintf("agent: {uid: %d}", trial.User()),
		"")
	files := d.Files(strings.NewReplacer("HOST", b.upstream, "CA", filepath.Join(b.dir, "api-ca.pem")).Replace(rules))
	for name, raw := range files {
		files[name] = []byte(edit.Replace(string(raw)))
	}
	sidecar := string(files[devstack.SidecarFile])
	for i := range l.rules {
		sidecar += fmt.Sprintf("  - {name: r%d, match: {url: \"https://%s/r%[1]d/{id}\", methods: [PUT]}}\n", i, b.upstream)
	}
	if l.log {
		sidecar += "transparencyLog: {origin: bench.example/log, key: transparency-log-key, interval: 1s}\n"
	}
	if l.telemetry {
		collector, err := startCollector()
		if err != nil {
			return t, err
		}
		console, err := freeport.Address()
		if err != nil {
			return t, err
		}
		tracing := fmt.Sprintf("\ntracing: {endpoint: %q, sample: 0.01}\n", collector)
		sidecar = ownConsole.ReplaceAllString(sidecar, "console: "+console)
		sidecar += tracing + "auditExport: {file: state/audit.jsonl}\n"
		for _, name := range []string{devstack.TriggerFile, devstack.ControlFile} {
			files[name] = append(files[name], tracing...)
		}
	}
	if l.without {
		sidecar = receipts.ReplaceAllString(sidecar, "")
		delete(files, devstack.ReputationFile)
	} else { // the node takes all receipts at once, so that none cost another cell anything
		files[devstack.ReputationFile] = append(files[devstack.ReputationFile], "\nlimits: {receiptsPerSecond: 1000000}\n"...)
	}
	files[devstack.SidecarFile] = []byte(sidecar)
	if err := devstack.Prepare(d.Dir, files); err != nil {
		return t, err
	}
	pid, err := b.dev(ctx, l.under, "--dir", d.Dir)
	if err != nil {
		return t, err
	}
	var s admin.Session
	for range 1 + l.sessions {
		event, err := d.DeliverRelease(ctx)
		if err != nil {
			return t, err
		}
		ask := admin.SessionRequest{Event: event}
		if err := admin.Call(ctx, d.Stack.Admin(), http.MethodPost, "/v1/sessions", ask, &s); err != nil {
			return t, err
		}
	}
	proxy, err := url.Parse(s.ProxyURL)
	t = target{name: l.name, base: "https://" + b.upstream, proxy: proxy, roots: pool(s.CAFile), post: post,
		pids: tree(pid), later: !l.without}
	if l.egress {
		t.post.path = "/notes"
	}
	if l.telemetry && err == nil {
		err = watch(ctx, "unix:"+d.Stack.Socket("console"))
	}
	return t, err
}

// startVault starts and prepares a Vault server. It returns the custody for the configurations, and Vault itself as a
// target whose post is a signature.
func (b *stand) startVault() (custody string, t target, err error) {
	v, err := vaulttest.Launch()
	if err != nil {
		return "", t, err
	}
	b.vault = v
	token, secrets := filepath.Join(b.dir, "token"), filepath.Join(b.dir, "vault-secrets")
	if err := errors.Join(os.WriteFile(token, []byte(v.Token), 0o600), os.MkdirAll(secrets, 0o700)); err != nil {
		return "", t, err
	}
	cmd := exec.Command("bin/mediator", "vault", "bootstrap", "--apply", "--address", v.Address, "--ca", v.CAFile,
		"--token-file", token, "--out", secrets)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", t, fmt.Errorf("vault bootstrap: %w: %s", err, out)
	}
	var keys []string
	for _, r := range bootstrap.Roles {
		keys = append(keys, r.Key)
	}
	t = target{name: "transit", base: v.Address, roots: pool(v.CAFile), post: signature(v.Token, 1)}
	return fmt.Sprintf(`{type: vault, vault: {address: "%s", ca: "%s", keys: [%s], auth: {appRole: {
    role: "mediator-{role}", roleIDFile: "%[4]s/{role}.role-id", secretIDFile: "%[4]s/{role}.secret-id"}}}}`,
		v.Address, v.CAFile, strings.Join(keys, ", "), secrets), t, nil
}

// batch is the number of signatures in one request to Vault, where batches are measured.
const batch = 32

// signature asks Vault for so many signatures.
func signature(token string, n int) call {
	inputs := make([]map[string]string, n)
	for i := range inputs {
		inputs[i] = map[string]string{"input": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 800)))}
	}
	body, _ := json.Marshal(map[string]any{"batch_input": inputs}) // never fails
	return call{method: http.MethodPost, path: "/v1/transit/sign/runtime-key", body: string(body), token: token, want: 200}
}
