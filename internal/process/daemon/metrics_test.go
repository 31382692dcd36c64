package daemon_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestMetricsOfTrust(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	k := gatetest.NewAt(t, now)
	k.Revoke(t, evidence.Revocation{Kind: evidence.RevokedArtifact, ID: "artifact"})
	f := k.Files(t, t.TempDir())
	c := config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}
	p, err := daemon.New(t.Context(), zap.NewNop(), config.Process{})
	check.Must(t, err)
	values := func() map[string]float64 {
		t.Helper()
		families, err := p.Metrics.Gather()
		check.Must(t, err)
		out := make(map[string]float64)
		for _, family := range families {
			for _, m := range family.Metric {
				name := family.GetName()
				for _, l := range m.Label {
					if l.GetName() != "sha256" {
						name += " " + l.GetValue()
					}
				}
				out[name] = m.Gauge.GetValue()
			}
		}
		return out
	}
	want := func(name string, at time.Time) {
		t.Helper()
		if got, ok := values()[name]; !ok || int64(got) != at.Unix() {
			t.Errorf("%s is %d, %t; want %d", name, int64(got), ok, at.Unix())
		}
	}
	if len(values()) < 5 || values()["mediator_last_certification_seconds"] != 0 {
		t.Errorf("before there is trust: %v", values())
	}
	deployment, err := p.WaitForDeployment(t.Context(), daemon.Plan{Process: config.Process{Trust: c},
		Manifest: f.Manifest, CheckManifest: func(*policy.Strict) error { return nil }})
	check.Must(t, err)
	p.Trust.Add(deployment.Trust)
	maxAge := min(30*24*time.Hour, k.Strict.Signers.MaxAge)
	for _, purpose := range gatetest.Roles {
		want("mediator_custody_certificate_until_seconds "+k.Key(t, purpose).KeyID()+" "+purpose, now.Add(maxAge))
	}
	want("mediator_last_certification_seconds", now)
	want("mediator_revocation_list_until_seconds", now.Add(30*24*time.Hour))
	want("mediator_deployment_certificate_until_seconds", now.Add(24*time.Hour))
	for _, use := range []string{"sign", "verify"} {
		want("mediator_trust_bundle_info "+use, time.Unix(1, 0))
	}
	if full := values()["mediator_trust_bundle_full_ratio"]; full <= 0 || full > 0.1 {
		t.Errorf("the bundle is full to %v", full)
	}
}

func readyz(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return w
}

func TestReadyzSaysWhatItWaitsFor(t *testing.T) {
	p, err := daemon.New(t.Context(), zap.NewNop(), config.Process{})
	check.Must(t, err)
	mux := p.Mux()
	await := func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			w := readyz(mux)
			switch {
			case w.Code != http.StatusServiceUnavailable:
				t.Fatalf("got %d", w.Code)
			case strings.Contains(w.Body.String(), text):
				return
			case time.Now().After(end):
				t.Fatalf("it says %s, and not %q", w.Body, text)
			}
		}
	}
	await("it is starting or ending")
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	plan := func(path string) daemon.Plan {
		return daemon.Plan{Manifest: path, CheckManifest: func(*policy.Strict) error { return nil }}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.WaitForDeployment(ctx, plan(path))
		ended <- err
	}()
	await("it waits for the manifest (")
	await(path)
	raw, err := os.ReadFile("../../../configs/manifest.yaml")
	check.Must(t, err)
	check.Must(t, os.WriteFile(path+".new", raw, 0o600))
	check.Must(t, os.Rename(path+".new", path))
	await("it waits for the pinned root keys (")
	cancel()
	if err := <-ended; err == nil {
		t.Error("it found root keys that are not there")
	}
	await("it is starting or ending")
}

func TestReadyzSaysWhatCallersMeet(t *testing.T) {
	p, err := daemon.New(t.Context(), zap.NewNop(), config.Process{})
	check.Must(t, err)
	p.Reloader.Start(daemon.ConfigStatus{}, nil)
	p.Ready.Store(true)
	var asked atomic.Int32
	var meets atomic.Pointer[refusal.Refusal]
	meets.Store(refusal.New("deployment_contradicted", "a key can be exported"))
	mux := p.Mux(func(context.Context) error {
		asked.Add(1)
		if err := meets.Load(); err != nil {
			return err
		}
		return nil
	})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if w := readyz(mux); w.Code != http.StatusServiceUnavailable ||
				!strings.Contains(w.Body.String(), "a key can be exported (deployment_contradicted)") {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n == 100 {
		t.Errorf("100 callers made the process check %d times", n)
	}
	meets.Store(nil)
	for end := time.Now().Add(time.Minute); readyz(mux).Code != http.StatusOK; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is mended, and not ready")
		}
	}
}
