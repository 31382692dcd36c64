package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type fromFiles struct {
	*api
	files   gate.Files
	changes chan error
}

func newFromFiles(t *testing.T) *fromFiles {
	t.Helper()
	a := &fromFiles{api: &api{kit: gatetest.New(t)}, changes: make(chan error, 100)}
	a.files = a.kit.Files(t, t.TempDir())
	a.files.Every, a.files.MaxStale = time.Millisecond, time.Minute
	a.files.Changed = func(err error) { a.changes <- err }
	s, err := gate.FromFiles(t.Context(), a.files, a.used.Consume)
	check.Must(t, err)
	mux := http.NewServeMux()
	mux.Handle("POST /challenge", s.Challenge())
	mux.Handle("POST /verify", s.Verify())
	mux.Handle("/posts", s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.posts.Add(1)
		w.WriteHeader(http.StatusCreated)
	}), gate.Protect{Bind: bind}))
	a.serve(t, mux)
	return a
}

func (a *fromFiles) admit(t *testing.T) error {
	t.Helper()
	b := bound("POST /posts", gatetest.Content)
	ch, err := a.client.Challenge(t.Context(), b)
	if err != nil {
		return err
	}
	r := a.kit.Over(t, gatetest.Plan{Binding: b}, ch)
	r.Binding = *ch.Binding
	_, err = a.client.Admit(t.Context(), r)
	return err
}

func (a *fromFiles) said(t *testing.T, text string) {
	t.Helper()
	select {
	case err := <-a.changes:
		if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Fatalf("it said %v, not %q", err, text)
		}
	case <-time.After(time.Minute):
		t.Fatalf("it did not say %q", text)
	}
}

func TestFromFiles(t *testing.T) {
	t.Parallel()
	a := newFromFiles(t)
	capability := a.earn(t, bound("POST /posts", gatetest.Content))
	if status, code := a.do(t, a.request(t, capability, "/posts", gatetest.Content)); status != http.StatusCreated {
		t.Fatalf("got %d %s", status, code)
	}

	// A new key version signs before the bundle certifies it, and after.
	a.kit.Rotate(t, evidence.PurposeAgentSession)
	gatetest.WantCode(t, a.admit(t), "trust_stale")
	old := a.kit.Certificates[evidence.PurposeAgentSession]
	a.kit.Certificates[evidence.PurposeAgentSession] = a.kit.Vouch(t, a.kit.Key(t, evidence.PurposeAgentSession),
		evidence.PurposeAgentSession, a.kit.Issuer(evidence.PurposeAgentSession))
	a.kit.WriteBundle(t, a.files.Bundle, old)
	a.said(t, "")
	check.Must(t, a.admit(t))

	// A weak manifest is refused; the revocation beside it counts.
	good, err := os.ReadFile(a.files.Manifest)
	check.Must(t, err)
	replace(t, a.files.Manifest, strings.Replace(string(good), `"consumeCapability":true`, `"consumeCapability":false`, 1))
	a.said(t, "consumeCapability")
	check.Must(t, a.admit(t))
	a.kit.Revoke(t, evidence.Revocation{Kind: evidence.RevokedKey, ID: a.kit.Key(t, evidence.PurposeAgentSession).KeyID()})
	a.kit.WriteBundle(t, a.files.Bundle, old)
	a.said(t, "consumeCapability")
	gatetest.WantCode(t, a.admit(t), "revoked")

	// An old bundle undoes no revocation.
	a.kit.Revocations = ""
	a.kit.WriteBundle(t, a.files.Bundle, old)
	a.said(t, "an older list than the current bundle's")
	gatetest.WantCode(t, a.admit(t), "revoked")
}

func TestFromFilesTakesAManifest(t *testing.T) {
	t.Parallel()
	a := newFromFiles(t)
	b := bound("POST /posts", gatetest.Content)
	ch, err := a.client.Challenge(t.Context(), b)
	check.Must(t, err)
	next, err := policy.ParseManifest(contentOf(t, a.files.Manifest))
	check.Must(t, err)
	next.MaxChallengeAgeMs--
	text, err := next.Canonical()
	check.Must(t, err)
	replace(t, a.files.Manifest, text)
	a.said(t, "")
	gatetest.WantCode(t, a.admit(t), "deployment_mismatch")
	a.kit.Deployment = a.kit.Certify(t, next)
	r := a.kit.Over(t, gatetest.Plan{Binding: b}, ch)
	r.Binding = *ch.Binding
	_, err = a.client.Admit(t.Context(), r)
	check.Must(t, err)
}

func TestFromFilesFailsClosed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path func(gate.Files) string
		says string
	}{
		"bundle":   {func(f gate.Files) string { return f.Bundle }, "the trust bundle is malformed"},
		"manifest": {func(f gate.Files) string { return f.Manifest }, "the manifest is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newFromFiles(t)
			capability := a.earn(t, bound("POST /posts", gatetest.Content))
			path := tt.path(a.files)
			good := string(contentOf(t, path))
			replace(t, path, "{")
			a.said(t, tt.says)
			a.kit.Clock.Advance(59 * time.Second)
			check.Must(t, a.admit(t))
			a.kit.Clock.Advance(2 * time.Second)
			gatetest.WantCode(t, a.admit(t), "trust_stale")
			if status, code := a.do(t, a.request(t, capability, "/posts", gatetest.Content)); status !=
				http.StatusServiceUnavailable || code != "trust_stale" || a.posts.Load() != 0 {
				t.Errorf("got %d %s", status, code)
			}
			replace(t, path, good)
			await(t, "what was before", func() bool { return a.admit(t) == nil }) // nothing has changed
		})
	}
}

func TestFromFilesRefuses(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	dir := t.TempDir()
	good := k.Files(t, dir)
	big := filepath.Join(dir, "big")
	replace(t, big, strings.Repeat(" ", evidence.MaxBundle+1))
	short := filepath.Join(dir, "short")
	replace(t, short, "too short")
	for name, tt := range map[string]struct {
		change func(*gate.Files)
		want   string
	}{
		"no name":             {func(f *gate.Files) { f.Name = "" }, "needs a name"},
		"stale before a look": {func(f *gate.Files) { f.Every, f.MaxStale = time.Hour, time.Minute }, "MaxStale"},
		"no registry":         {func(f *gate.Files) { f.Registry = "" }, "no such file"},
		"a missing file":      {func(f *gate.Files) { f.Auditor += "x" }, "auditor.jwkx"},
		"the roots exchanged": {func(f *gate.Files) { f.Auditor, f.Registry = f.Registry, f.Auditor }, "bundle.json"},
		"no manifest":         {func(f *gate.Files) { f.Manifest = f.Bundle }, "manifest"},
		"a large bundle":      {func(f *gate.Files) { f.Bundle = big }, "larger than"},
		"a short secret":      {func(f *gate.Files) { f.Secret = short }, "fewer than 32 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			tt.change(&f)
			_, err := gate.FromFiles(t.Context(), f, new(gatetest.Used).Consume)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := gate.FromFiles(t.Context(), good, nil); err == nil {
		t.Error("nothing consumes")
	}
}

func TestFromFilesEnds(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	f := k.Files(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	s, err := gate.FromFiles(ctx, f, new(gatetest.Used).Consume)
	check.Must(t, err)
	cancel()
	k.Clock.Advance(time.Hour)
	w := httptest.NewRecorder()
	s.Challenge().ServeHTTP(w,
		httptest.NewRequest(http.MethodPost, "/",
			strings.NewReader(
				`{"action":"create_post","contentHash":"`+strings.Repeat("a", 64)+
					`","resource":"POST /posts","subject":"agent:worker-1"}`)))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	return raw
}

func replace(t *testing.T, path, content string) {
	t.Helper()
	check.Must(t, os.WriteFile(path+".new", []byte(content), 0o600))
	check.Must(t, os.Rename(path+".new", path))
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
