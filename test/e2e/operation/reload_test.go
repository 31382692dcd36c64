package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const reloadRules = `
ca: {certificateFile: ca.pem, unconstrained: true}
actions:
  - name: note
    match: {url: "https://PLAIN/notes", methods: [POST]}
    subject: agent:worker-1
    action: create_note
    credential: {prefix: "Bearer ", file: secrets/api-token}
egress:
  - name: reads
    match: {url: "https://PLAIN/notes", methods: [GET]}
` + kit.Upstream

type reloadRig struct {
	*kit.Rig
	arrived atomic.Int64 // posts at the upstream
	token   atomic.Pointer[string]
}

func newReloadRig(t *testing.T, change ...func(string) string) *reloadRig {
	t.Helper()
	r := &reloadRig{}
	r.Rig = kit.NewRig(t, kit.Plain, kit.Serve(r, reloadRules), append(change, kit.ManyPosts, ownCA)...)
	return r
}

func ownCA(file string) string {
	return strings.Replace(file, "ca: {certificateFile: ca.pem}   # made at the first start; its key stays in ca\n", "", 1)
}

func (r *reloadRig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	if req.Method == http.MethodPost {
		token := req.Header.Get("Authorization")
		r.arrived.Add(1)
		r.token.Store(&token)
	}
	w.WriteHeader(http.StatusCreated)
}

func (r *reloadRig) edit(t *testing.T, name, old, new string) (undo func()) {
	t.Helper()
	raw := kit.Read(t, r.In(name))
	if !bytes.Contains(raw, []byte(old)) {
		t.Fatalf("%s does not hold %q:\n%s", name, old, raw)
	}
	r.replace(t, name, bytes.Replace(raw, []byte(old), []byte(new), 1))
	return func() { r.replace(t, name, raw) }
}

func (r *reloadRig) replace(t *testing.T, name string, raw []byte) {
	t.Helper()
	check.Must(t, files.Replace(r.In(name), raw, 0o600))
}

func (r *reloadRig) certify(t *testing.T) {
	t.Helper()
	m, err := r.Stack.PinHashes()
	check.Must(t, err)
	check.Must(t, r.Stack.CertifyManifest(t.Context(), m, r.In(devstack.BundleFile)))
}

func (r *reloadRig) bundle(t *testing.T, deployment string) {
	t.Helper()
	check.Must(t, keyring.UpdateBundle(r.In(devstack.BundleFile), func(b *evidence.Bundle) error {
		b.DeploymentCertificate = deployment
		return nil
	}))
}

func (r *reloadRig) reload(t *testing.T, names ...string) kit.Ended {
	t.Helper()
	args := []string{"reload"}
	for _, name := range names {
		args = append(args, "unix:"+r.Stack.Socket(name))
	}
	return kit.Mediator(t, args...)
}

func (r *reloadRig) mustReload(t *testing.T, names ...string) {
	t.Helper()
	if e := r.reload(t, names...).Done(); strings.Count(e.Out, "reloaded: configuration ") != len(names) {
		t.Fatal(e.Out)
	}
}

func (r *reloadRig) readiness(t *testing.T, name string) (c daemon.ConfigStatus) {
	t.Helper()
	check.Must(t, admin.Get(t.Context(), "unix:"+r.Stack.Socket(name), "/readyz", &c))
	return c
}

func (r *reloadRig) metric(t *testing.T, name, line string) bool {
	t.Helper()
	return strings.Contains(kit.Metrics(t, r.Stack.Socket(name)), "\n"+line+"\n")
}

func (r *reloadRig) newest(t *testing.T, flow string) ledger.Record {
	t.Helper()
	posts := r.Records(t, "limit=1&flow="+flow)
	if len(posts) == 0 {
		t.Fatalf("there is no record of flow %s", flow)
	}
	return posts[0]
}

func note(a kit.Agent) kit.Outcome { return a.Call(http.MethodPost, "/notes", `{"note":1}`) }

func wantTunnel(t *testing.T, a kit.Agent, method, path, code string) {
	t.Helper()
	req, err := http.NewRequest(method, a.Base+path, strings.NewReader(`{"note":1}`))
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
	resp, err := a.Do(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
	check.Must(t, err)
	defer resp.Body.Close()
	var d problem.Details
	if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 && json.Unmarshal(raw, &d) != nil ||
		d.Code != code || !reused {
		t.Errorf("%s %s: %d %s (%v), want %q; by the open tunnel: %t", method, path, resp.StatusCode, raw, err, code, reused)
	}
}

// After a reload, rules, credentials, limits and policy apply inside tunnels that were open before.
func TestReload(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t)
	a := r.OpenAgent(t)
	if got := note(a); got.Code != "" {
		t.Fatalf("%+v", got)
	}
	before := r.newest(t, "post").Manifest
	if got := r.readiness(t, "serve"); got.Manifest != before || got.Manifest != r.readiness(t, "control").Manifest {
		t.Errorf("the record names the manifest %s; %+v", before, got)
	}

	// A rule for another call, and a new credential.
	wantTunnel(t, a, http.MethodPost, "/drafts", "action_unmatched")
	r.edit(t, devstack.SidecarFile, "egress:\n", `  - name: draft
    match: {url: "https://`+r.Plain()+`/drafts", methods: [POST]}
    subject: agent:worker-1
    action: create_draft
egress:
`)
	kit.Write(t, r.In("secrets/api-token"), "another-token")
	r.certify(t)
	const followed, warning = "trust bundle taken over", "the deployment certificate is not taken over"
	kit.Until(t, "the bundle to be seen", func() bool { return strings.Contains(r.Log(t, "serve"), warning) })
	wantTunnel(t, a, http.MethodPost, "/drafts", "action_unmatched") // not before the reload
	wantTunnel(t, a, http.MethodPost, "/notes", "")
	if p := r.newest(t, "post"); p.Manifest != before || p.State != ledger.StateForwarded {
		t.Errorf("with another certificate in the bundle: %+v", p)
	}
	r.mustReload(t, "control", "serve")
	wantTunnel(t, a, http.MethodPost, "/drafts", "")
	wantTunnel(t, a, http.MethodPost, "/notes", "")
	if got := *r.token.Load(); got != "Bearer another-token" {
		t.Errorf("the upstream got %q", got)
	}
	now := r.newest(t, "post")
	if c := r.readiness(t, "serve"); now.Manifest == before || c.Manifest != now.Manifest || c.Refused != nil ||
		!r.metric(t, "serve", `mediator_reloads_total{result="taken"} 1`) {
		t.Errorf("the record names %s; %+v", now.Manifest, c)
	}

	// Another certificate of the same manifest is no reason for a warning, although the earlier trust follows the
	// bundle too. Repeated reloads, which every caller over TCP can make, leave no further trusts.
	for range 5 {
		r.mustReload(t, "control")
	}
	trust := followed + `","path":"` + r.In(devstack.BundleFile) + `","manifest":"` + now.Manifest
	trusts := strings.Count(r.Log(t, "control"), trust)
	taken, warned := strings.Count(r.Log(t, "control"), followed), strings.Count(r.Log(t, "control"), warning)
	r.certify(t)
	kit.Until(t, "both trusts to follow the bundle", func() bool {
		return strings.Count(r.Log(t, "control"), followed) >= taken+2
	})
	if n := strings.Count(r.Log(t, "control"), warning); n != warned {
		t.Errorf("%d warnings after the reload", n-warned)
	}

	// A policy that denies what was allowed.
	r.edit(t, devstack.PolicyFile, "rules:\n",
		"rules:\n  - name: no-drafts\n    effect: deny\n    when: binding.action == \"create_draft\"\n")
	r.certify(t)
	r.mustReload(t, "control")
	// the sidecar's manifest is still the one before, which is honoured for some minutes
	wantTunnel(t, a, http.MethodPost, "/drafts", "")
	r.mustReload(t, "serve")
	wantTunnel(t, a, http.MethodPost, "/drafts", "policy_denied")
	wantTunnel(t, a, http.MethodPost, "/notes", "")
	if n := strings.Count(r.Log(t, "control"), trust) - trusts; n == 0 || n > 2 {
		t.Errorf("after two changes of the bundle and five reloads, trusts of the manifest were taken over %d times", n)
	}

	// A limit, by SIGHUP.
	r.edit(t, devstack.SidecarFile, "egress:\n", "limits: {session: {perSecond: 0.001, burst: 1}}\negress:\n")
	r.certify(t)
	for _, name := range []string{"control", "serve"} {
		since := r.readiness(t, name).Since
		check.Must(t, r.Process(name).Cmd.Process.Signal(syscall.SIGHUP))
		kit.Until(t, "the reload of "+name, func() bool { return r.readiness(t, name).Since.After(since) })
	}
	wantTunnel(t, a, http.MethodGet, "/notes", "")
	wantTunnel(t, a, http.MethodGet, "/notes", "rate_limited")

	// A new source of events, beside the others.
	r.edit(t, devstack.TriggerFile, "  - name: tick\n    schedule: {cron: \"@every 1s\"}\n",
		"  - name: tick\n    schedule: {cron: \"@every 1s\"}\n  - name: extra\n    standardWebhooks: {secretFiles: "+
			"[secrets/extra]}\n")
	kit.Write(t, r.In("secrets/extra"), secret("extra"))
	wantHook(t, r, "extra", "not_found")
	r.mustReload(t, "trigger")
	wantHook(t, r, "extra", "webhook_signature")
	wantHook(t, r, "github", "webhook_signature")
}

func TestTimeZones(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t)
	r.edit(t, devstack.PolicyFile, "rules:\n",
		"rules:\n  - name: closed\n    effect: deny\n    when: now.getHours(\"Europe/Berlin\") == 24\n")
	r.edit(t, devstack.TriggerFile, `{cron: "@every 1s"}`, `{cron: "@every 1s", payload: {task: report}}`)
	r.certify(t)
	r.mustReload(t, "control", "trigger", "serve")
	if got := note(r.OpenAgent(t)); got.Code != "" {
		t.Errorf("%+v", got)
	}
}

func TestCertifiedUntil(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t)
	for range 2 {
		b, _, err := deployed.ReadBundle(r.In(devstack.BundleFile))
		check.Must(t, err)
		c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), b.DeploymentCertificate)
		check.Must(t, err)
		line := "mediator_deployment_certificate_until_seconds " + strconv.FormatFloat(float64(c.Expires), 'g', -1, 64)
		kit.Until(t, line, func() bool { return r.metric(t, "serve", line) })
		m, err := deployed.ReadManifest(r.In(devstack.ManifestFile))
		check.Must(t, err)
		token, err := policy.Certify(t.Context(), r.Stack.Auditor, m,
			signer.Options{Issuer: c.Issuer, Audience: c.Audience, Lifetime: time.Hour, Now: time.Now})
		check.Must(t, err)
		r.bundle(t, token)
	}
}

func wantHook(t *testing.T, r *reloadRig, source, code string) {
	t.Helper()
	resp, err := http.Post("http://"+r.Hooks+"/hooks/"+source, "application/json", strings.NewReader(`{}`))
	check.Must(t, err)
	defer resp.Body.Close()
	check.WantCode(t, problem.Read(resp), code)
}

// A refused reload is told to operators, and posts go out as before.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t)
	a := r.OpenAgent(t)
	if got := note(a); got.Code != "" {
		t.Fatalf("%+v", got)
	}
	before := r.newest(t, "post").Manifest
	const (
		refused, restart = "reload_refused", "restart_required"
		sidecar, events  = devstack.SidecarFile, devstack.TriggerFile
		control, rules   = devstack.ControlFile, devstack.PolicyFile
		manifest, bundle = devstack.ManifestFile, devstack.BundleFile
	)
	keep := make(map[string][]byte)
	for _, name := range []string{
		sidecar, events, control, rules, manifest, bundle, devstack.RegistryFile, devstack.AuditorFile,
		"secrets/api-token", "secrets/webhook",
	} {
		keep[name] = kit.Read(t, r.In(name))
	}
	refuses := func(t *testing.T, process, code, reason string) {
		e := r.reload(t, process)
		if code == "" { // a change without effect
			e.Done()
			return
		}
		e.Refused("("+code+")\n", reason)
		c := r.readiness(t, process)
		if c.Refused == nil || c.Refused.Code != code || !strings.Contains(c.Refused.Detail, reason) ||
			process != "trigger" && c.Manifest != before {
			t.Errorf("readiness: %+v %+v", c, c.Refused)
		}
		if !r.metric(t, process, "mediator_reload_refused 1") {
			t.Error("the metric does not say that the reload was refused")
		}
		wantTunnel(t, a, http.MethodPost, "/notes", "")
		if p := r.newest(t, "post"); p.Manifest != before || p.State != ledger.StateForwarded {
			t.Errorf("the post: %+v", p)
		}
	}
	for process, rows := range map[string][]struct{ name, file, old, new, code, reason string }{
		"serve": {
			{"syntax", sidecar, "egress:\n", "egress: [\n", refused, "mediator.yaml"},
			{"an unknown key", sidecar, "egress:\n", "egres: []\negress:\n", refused, "egres"},
			{
				"a rule that leaves a way around", sidecar,
				"methods: [GET]", "methods: [GET, POST]", refused, "also matches spellings of an action's path",
			},
			{
				"a limit out of range", sidecar,
				"egress:\n", "limits: {host: {perSecond: -1}}\negress:\n", refused, "limits",
			},
			{"a credential that is not there", sidecar, "secrets/api-token", "secrets/none", refused, "secrets/none"},
			{
				"a configuration that the manifest does not pin", sidecar,
				"egress:\n", "# x\negress:\n", refused, "(pin_mismatch)",
			},
			{
				"a manifest that does not allow this runtime", manifest,
				"allowedRuntimeIds: [worker-1]", "allowedRuntimeIds: [worker-2]", refused, "(not_allowed)",
			},
			{"another listener", sidecar, "listen: ", "listen: 127.0.0.1:1 # ", restart, "listen"},
			{
				"another custody", sidecar,
				"custody: {type: memory}", "custody: {type: pkcs11, pkcs11: {module: /m, token: t, pinFile: p}}",
				restart, "custody.pkcs11, custody.type",
			},
			{"another key", sidecar, "key: runtime-key", "key: other-key", restart, "keys.runtime.key"},
			{"another state", sidecar, "state: state", "state: other", restart, "state"},
			{"other users of a socket", sidecar, "run/serve.sock}", "run/serve.sock, uids: [7]}", restart, "admin.uids"},
			{"a root that cannot be read", devstack.AuditorFile, "Ed25519", "Ed448", refused, "auditor.jwk"},
			{"another root", devstack.RegistryFile, "registry:v1", "registry:v2", restart, "trust.registry"},
			{
				"a flipped control", manifest,
				"bearerTokenAloneCanPost: false", "bearerTokenAloneCanPost: true", refused, "(deployment_unsafe)",
			},
			{"a manifest without its certificate", manifest, "deploymentId:", "# same\ndeploymentId:", "", ""},
			{
				"another manifest without its certificate", manifest,
				"maxAttestationAgeMs: 60000", "maxAttestationAgeMs: 14000", refused, "(deployment_mismatch)",
			},
			{
				"a manifest that the control plane has not", sidecar,
				"egress:\n", "# x\negress:\n", refused, "(deployment_mismatch)",
			},
			{
				"an address beyond what the process confined itself to", sidecar,
				"address: 127.0.0.1,", "address: '127.0.0.1:9',", restart, "port 9",
			},
			{
				"a bundle without a certificate", bundle,
				`"deploymentCertificate": "`, `"deploymentCertificate": "x`, refused, "trust",
			},
		},
		"control": {
			{"policy syntax", rules, "rules:", "rules: [", refused, "policy.yaml"},
			{"a policy with an unknown key", rules, "effect: deny", "efect: deny", refused, "efect"},
			{"a condition of the wrong type", rules, "request.size > 4", "request.scheme > 4", refused, "no-huge-posts"},
			{
				"a policy that the manifest does not pin", rules,
				"request.size > 4", "request.size > 5", refused, "(pin_mismatch)",
			},
			{"another audience", control, "audience: posting-api", "audience: other", restart, "audience"},
			{"another socket", control, "run/control.sock", "run/other.sock", restart, "internal.unix"},
			{
				"a flipped control, in the control plane", manifest,
				"bearerTokenAloneCanPost: false", "bearerTokenAloneCanPost: true", refused, "(deployment_unsafe)",
			},
		},
		"trigger": {
			{"a schedule that never comes", events, "@every 1s", "0 0 31 2 *", refused, "tick"},
			{"two sources of one name", events, "name: github", "name: tick", refused, "tick"},
			{
				"a queue beyond what the process confined itself to", events,
				"sources:\n", "sources:\n  - {name: files, queue: {dir: files}}\n", restart, "/files",
			},
			{"another budget", events, "budget: 100000", "budget: 2", restart, "budget"},
			{"a secret that is too short", "secrets/webhook", "whsec_", "\n", "", ""},
		},
	} {
		for _, tt := range rows {
			t.Run(tt.name, func(t *testing.T) {
				defer func() {
					for name, raw := range keep {
						r.replace(t, name, raw)
					}
				}()
				r.edit(t, tt.file, tt.old, tt.new)
				if tt.name == "a manifest that the control plane has not" {
					r.certify(t)
				}
				refuses(t, process, tt.code, tt.reason)
			})
		}
	}
	for _, name := range []string{"serve", "control", "trigger"} {
		r.mustReload(t, name)
		if c := r.readiness(t, name); c.Refused != nil || !r.metric(t, name, "mediator_reload_refused 0") {
			t.Errorf("%s after a reload that was taken: %+v", name, c.Refused)
		}
		if !strings.Contains(r.Log(t, name), "not reloaded: the previous configuration stays") {
			t.Errorf("%s did not say in its log what was refused", name)
		}
	}
}

func TestReloadTakesNewHosts(t *testing.T) {
	t.Parallel()
	const later = "api.later.example"
	r := &reloadRig{}
	permit := strings.NewReplacer("unconstrained: true}", "permit: [later.example]}\nconfine: {anyPort: true}")
	r.Rig = kit.NewRig(t, kit.With(kit.Plain, later), kit.Serve(r, permit.Replace(reloadRules)), ownCA)
	up := kit.ServeTLS(t, r.Dir, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "later")
	}))
	_, port, err := net.SplitHostPort(up)
	check.Must(t, err)
	add := func(host string) (undo func()) {
		return r.edit(t, devstack.SidecarFile, "egress:\n",
			"egress:\n  - {name: new, match: {url: \"https://"+host+":"+port+"/x\", methods: [GET]}}\n")
	}

	undo := add("api.other.example")
	r.reload(t, "serve").Refused("a rule names api.other.example, which the interception CA", "ca.permit",
		"(restart_required)")
	undo()
	add(later)
	r.edit(t, devstack.SidecarFile, "upstreams:\n",
		"upstreams:\n  - {host: \""+later+":"+port+"\", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}\n")
	r.certify(t)
	r.mustReload(t, "control", "serve")
	out, err := r.AsAgent(t, kit.Need(t, "curl"), "-sS", "--fail-with-body", "https://"+later+":"+port+"/x")
	if err != nil || out != "later" {
		t.Errorf("%s, %v", out, err)
	}
}

// TestReloadUnderLoad flips between two configurations while agents post. Both processes judge each post by the same.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t)
	sides := make(map[bool]map[string][]byte)
	for _, other := range []bool{false, true} {
		if other {
			r.edit(t, devstack.SidecarFile, "egress:\n", "# the other one\negress:\n")
			r.edit(t, devstack.PolicyFile, "request.size > 4", "request.size > 5")
		}
		sides[other] = map[string][]byte{devstack.SidecarFile: kit.Read(t, r.In(devstack.SidecarFile)),
			devstack.PolicyFile: kit.Read(t, r.In(devstack.PolicyFile))}
	}
	known := make(map[string]daemon.ConfigStatus) // by manifest
	flip := func(i int) {
		t.Helper()
		for name, raw := range sides[i%2 == 1] {
			r.replace(t, name, raw)
		}
		r.certify(t)
		r.mustReload(t, "control", "serve")
		c := r.readiness(t, "serve")
		c.Policy = r.readiness(t, "control").Policy
		known[c.Manifest] = c
	}
	flip(0)

	ctx, stop := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	var sent atomic.Int64
	for range 4 {
		a := r.OpenAgent(t)
		agents.Go(func() {
			for ctx.Err() == nil {
				if got := note(a); got.Code != "" {
					t.Errorf("a post was not made: %+v", got)
				}
				sent.Add(1)
			}
		})
	}
	began := time.Now()
	for i := range kit.Size(10, 50) {
		flip(i + 1)
	}
	took := time.Since(began)
	stop()
	agents.Wait()
	if r.arrived.Load() != sent.Load() {
		t.Errorf("%d posts were made, %d arrived", sent.Load(), r.arrived.Load())
	}
	if len(known) != 2 {
		t.Fatalf("there were %d configurations", len(known))
	}
	judged := r.judgedBy(t, known)
	for manifest, c := range known {
		if judged[manifest] == 0 {
			t.Errorf("no post was judged by %+v", c)
		}
	}
	t.Logf("reloads of two processes in %s, %d posts meanwhile: %v", took.Round(time.Millisecond), sent.Load(), judged)
}

func (r *reloadRig) judgedBy(t *testing.T, known map[string]daemon.ConfigStatus) map[string]int {
	t.Helper()
	count := make(map[string]int)
	for p, err := range admin.Records(t.Context(), r.Stack.Admin(), ledger.Query{Flow: "post"}) {
		check.Must(t, err)
		if err := belongs(p, known); err != nil {
			t.Errorf("post %s: %v", p.ID, err)
		}
		count[p.Manifest]++
	}
	return count
}

func belongs(p ledger.Record, known map[string]daemon.ConfigStatus) error {
	c, ok := known[p.Manifest]
	if !ok || p.State != ledger.StateForwarded {
		return fmt.Errorf("it is %s (%s), by manifest %s", p.State, p.Code, p.Manifest)
	}
	tokens := make(map[string]string)
	for _, a := range p.Artifacts {
		tokens[a.Name] = a.Token
	}
	decision, err1 := evidence.UnverifiedClaims(evidence.PolicyDecisionKind(), tokens["policyDecision"])
	grant, err2 := evidence.UnverifiedClaims(evidence.ActionGrantKind(), tokens["grant"])
	attested, err3 := evidence.UnverifiedClaims(evidence.RuntimeAttestationKind(), tokens["runtimeAttestation"])
	receipt, err4 := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), tokens["sessionReceipt"])
	deployed, err5 := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), tokens["deploymentCertificate"])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	for what, pair := range map[string][2]string{
		"certificate's manifest": {deployed.ManifestHash, c.Manifest}, "decision's policy": {decision.PolicyHash, c.Policy},
		"grant's policy": {grant.PolicyHash, c.Policy}, "attestation's policy": {attested.PolicyHash, c.Policy},
		"receipt's policy":          {receipt.PolicyHash, c.Policy},
		"decision's environment":    {decision.EnvironmentHash, c.Environment},
		"grant's environment":       {grant.EnvironmentHash, c.Environment},
		"attestation's environment": {attested.EnvironmentHash, c.Environment},
		"receipt's environment":     {receipt.EnvironmentHash, c.Environment},
	} {
		if pair[0] != pair[1] {
			return fmt.Errorf("the %s is %s, want %s", what, pair[0], pair[1])
		}
	}
	return nil
}

func TestWhoMayReload(t *testing.T) {
	t.Parallel()
	const other = 60001
	r := newReloadRig(t, func(file string) string {
		return strings.Replace(file, "internal: {unix: run/control.sock}",
			fmt.Sprintf("internal: {unix: run/control.sock, uids: [%d]}", other), 1)
	})
	kit.OpenTo(t, r.In("run"))
	before := r.readiness(t, "control")
	ask := func(path string) string {
		cmd := exec.CommandContext(t.Context(), kit.Need(t, "curl"), "--silent", "--show-error", "--max-time", "120",
			"--unix-socket", r.Stack.Socket("control"), "--data", "{}", "http://mediator"+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := ask("/v1/manifests"); !strings.Contains(got, before.Manifest) {
		t.Errorf("the user is not admitted: %s", got)
	}
	if got := ask("/v1/reload"); !strings.Contains(got, "reload_refused") {
		t.Errorf("got %s", got)
	}
	if after := r.readiness(t, "control"); !after.Since.Equal(before.Since) {
		t.Error("it was reloaded all the same")
	}
}
