package archive_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/gatetest"
)

func (w *world) rotateAll() { w.rotate(gatetest.Roles...) }

func (w *world) rotate(purposes ...string) {
	for _, purpose := range purposes {
		w.Rotate(w.t, purpose)
		w.publish(purpose)
	}
}

// All keys rotate every minute, and no version is retired. The bundle stays small, keys can be revoked, and every
// record verifies.
func TestManyRotations(t *testing.T) {
	t.Parallel()
	rotations := 24
	if *long {
		rotations = 1000
	}
	w := newWorld(t, true)
	var records []ledger.Record
	refused := make(map[string]string) // by the id of a record
	for i := range rotations {
		w.rotateAll()
		if done := w.certify(); done.Certified != len(gatetest.Roles) || done.Full > 0.5 {
			t.Fatalf("rotation %d: %+v", i, done)
		}
		w.Clock.Advance(3 * time.Second)
		r := w.Post(t)
		r.ID = "post_" + strconv.Itoa(i)
		records = append(records, r)
		w.Clock.Advance(57 * time.Second)
		if i%8 == 3 && i < 80 { // versions that sign, and some that have left the bundle
			old := records[i/2]
			w.revoke(evidence.RevokedKey, evidence.KeyIDOf(old.Artifacts[1].Token), 30*24*time.Hour)
			refused[old.ID] = "revoked"
		}
	}
	files, err := archive.HistoryFiles(w.files.Bundle)
	must(t, err)
	if len(files) < 2 {
		t.Errorf("the history is in %v, and has to have several segments", files)
	}
	trust := w.read()
	for _, r := range records {
		if code := w.verify(trust, r); code != refused[r.ID] {
			t.Fatalf("%s: %q, want %q", r.ID, code, refused[r.ID])
		}
	}
	outcomes, code := judge(export(t, archive.Archive{trust}, records...), w.pins(), w.Clock.Now())
	for i, r := range records {
		want := "verified"
		if refused[r.ID] != "" {
			want = "refused " + refused[r.ID]
		}
		if code != "" || outcomes[i] != want {
			t.Fatalf("of the export: %s is %q %q, want %q", r.ID, outcomes, code, want)
		}
	}
	one := narrow(t, archive.Archive{trust}, records[0])
	if outcomes, code := judge(export(t, one, records[0]), w.pins(), w.Clock.Now()); code != "" ||
		len(outcomes) != 1 {
		t.Errorf("of the export of one record: %q %q", outcomes, code)
	}
}

func TestManyVersionsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	first := w.Post(t)
	for range 200 {
		w.rotateAll()
	}
	must(t, os.Remove(w.files.Bundle))
	w.putDeployment()
	if done := w.certify(); done.Certified != len(gatetest.Roles) {
		t.Errorf("%+v; the versions in between sign nothing", done)
	}
	w.revoke(evidence.RevokedKey, w.Key(t, gatetest.Roles[0]).KeyID(), time.Hour)
	if code := w.verify(w.read(), first); code != "clock_skew" && code != "key_unknown" && code != "key_retired" {
		t.Errorf("a record of the bundle that is gone: %q", code)
	}
}

// Two keys rotate every second. Versions wait instead of filling the bundle, and are certified later.
func TestFastRotation(t *testing.T) {
	t.Parallel()
	w, keys, waited := newWorld(t, false), gatetest.Roles[:2], 0
	for range 67 {
		w.rotate(keys...)
		waited = w.certify().Waiting
		w.Clock.Advance(time.Second)
	}
	if n := len(w.read().Bundle.Certificates); waited != len(keys) || n > 64*len(keys)+len(gatetest.Roles) {
		t.Errorf("%d versions wait, the bundle has %d certificates", waited, n)
	}
	w.revoke(evidence.RevokedKey, evidence.KeyName(w.Key(t, keys[0]).KeyID()), time.Hour)
	w.Clock.Advance(15 * time.Minute)
	if done := w.certify(); done.Certified < len(keys)-1 || done.Waiting > 0 {
		t.Errorf("after a quarter of an hour: %+v", done)
	}
}

func TestBundleThatNobodyReads(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(w *world){
		"certify": func(w *world) { w.certify() },
		"revoke":  func(w *world) { w.revoke(evidence.RevokedKey, "another-key:v1", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			first := w.Post(t)
			for range 160 {
				w.rotateAll()
			}
			b := w.read().Bundle
			issue, err := signer.New(evidence.SignerCertificateKind(), w.registry.Key, w.registry.Options)
			must(t, err)
			for _, token := range slices.Clone(b.Certificates) {
				c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
				must(t, err)
				for _, v := range w.versions[c.Purposes[0]][1:] {
					c.SubjectKeyID, c.SubjectPublicKey, c.SubjectPublicKeyHash = v.KeyID(),
						evidence.EncodePublicKey(v.Public()), evidence.HashBytes(v.Public())
					token, _, err := issue.Sign(context.Background(), c)
					must(t, err)
					b.Certificates = append(b.Certificates, token)
				}
			}
			raw, err := json.Marshal(b)
			must(t, err)
			w.write(w.files.Bundle, raw)
			if _, _, err := deployed.ReadBundle(w.files.Bundle); codeOf(err) == "<nil>" {
				t.Fatalf("a bundle of %d certificates is read", len(b.Certificates))
			}
			if code := w.verify(w.read(), first); code != "" {
				t.Errorf("with the bundle as it was: %q", code)
			}
			w.Clock.Advance(time.Second)
			mend(w)
			w.Clock.Advance(3 * time.Second)
			last := w.Post(t)
			for _, r := range []ledger.Record{first, last} {
				if code := w.verify(w.read(), r); code != "" {
					t.Errorf("with the bundle that is mended: %q", code)
				}
			}
		})
	}
}

func TestBundleMovedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	first := w.Post(t)
	earlier := filepath.Join(filepath.Dir(w.files.Bundle), "earlier")
	in := filepath.Join(earlier, "1")
	must(t, os.MkdirAll(in, 0o700))
	history, err := archive.HistoryFiles(w.files.Bundle)
	must(t, err)
	for _, path := range append(history, w.files.Registry, w.files.Auditor) {
		raw, err := os.ReadFile(path)
		must(t, err)
		w.write(filepath.Join(in, filepath.Base(path)), raw)
	}
	must(t, os.Rename(w.files.Bundle, filepath.Join(in, filepath.Base(w.files.Bundle))))
	w.rotateAll()
	w.Clock.Advance(time.Hour)
	w.putDeployment()
	w.certify()
	w.Clock.Advance(3 * time.Second)
	last := w.Post(t)
	before, err := archive.ReadEarlier(earlier, w.files)
	must(t, err)
	a := archive.Join(w.read(), before)
	for name, r := range map[string]ledger.Record{"of before": first, "of now": last} {
		if code := w.verify(a.Of(r), r); code != "" {
			t.Errorf("the record %s: %q", name, code)
		}
	}
	outcomes, code := judge(export(t, a, first, last), w.pins(), w.Clock.Now())
	if code != "" || len(outcomes) != 2 || outcomes[0] != "verified" || outcomes[1] != "verified" {
		t.Errorf("of the export: %q %q", outcomes, code)
	}
}

// putManifests puts that many long manifests into the history, ten in a segment.
func (w *world) putManifests(n int) {
	w.t.Helper()
	runtimes := &w.Manifest.RuntimePolicy.AllowedRuntimeIDs
	for i := range n {
		*runtimes = []string{"worker-1", strings.Repeat("x", 20_000) + strconv.Itoa(i)}
		must(w.t, keyring.PutDeployment(w.files.Bundle, w.Deployment, w.Manifest))
	}
}

func TestHistoryIsNotLost(t *testing.T) {
	t.Parallel()
	w, manifests := newWorld(t, false), 25
	if *long {
		manifests = 100
	}
	w.putManifests(manifests)
	if n := len(w.read().History.Manifests); n != manifests+1 {
		t.Errorf("the history has %d manifests", n)
	}
	files, err := archive.HistoryFiles(w.files.Bundle)
	if err != nil || len(files) < 3 {
		t.Errorf("the history is in %v, %v", files, err)
	}
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.Size() > 300<<10 {
			t.Errorf("%s has %d bytes, %v", path, info.Size(), err)
		}
	}
}

// A missing or outdated segment is refused, because only it has some revocation. A key can still be revoked.
func TestHistoryLacksASegment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	r := w.Post(t)
	w.revoke(evidence.RevokedKey, w.Key(t, gatetest.Roles[0]).KeyID(), time.Hour)
	w.putManifests(15)
	w.Clock.Advance(2 * time.Hour)
	w.revoke(evidence.RevokedKey, "another-key:v1", time.Hour)
	if code := w.verify(w.read(), r); code != "revoked" {
		t.Fatalf("with all segments: %q", code)
	}
	paths, err := archive.HistoryFiles(w.files.Bundle)
	must(t, err)
	last := paths[len(paths)-1]
	for name, path := range map[string]string{"no first segment": paths[0], "no last segment": last,
		"an older copy": last} {
		whole, err := os.ReadFile(path)
		must(t, err)
		bundle, err := os.ReadFile(w.files.Bundle)
		must(t, err)
		must(t, os.Remove(path))
		if name == "an older copy" {
			var h evidence.History
			must(t, json.Unmarshal(whole, &h))
			h.Revocations = nil
			raw, err := json.Marshal(h)
			must(t, err)
			must(t, os.WriteFile(path, raw, 0o600))
		}
		wantRefused := func() {
			t.Helper()
			b, _, err := archive.ReadAnyBundle(w.files.Bundle)
			must(t, err)
			if _, _, err := archive.ReadHistory(w.files.Bundle, b); codeOf(err) != "trust_malformed" {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantRefused()
		w.Clock.Advance(time.Second)
		w.revoke(evidence.RevokedKey, "a-third-key:v1", time.Hour)
		wantRefused()
		all, err := archive.HistoryFiles(w.files.Bundle)
		must(t, err)
		for _, more := range all {
			if !slices.Contains(paths, more) {
				must(t, os.Remove(more))
			}
		}
		must(t, os.WriteFile(path, whole, 0o600))
		must(t, os.WriteFile(w.files.Bundle, bundle, 0o600))
		w.read()
	}
}

func TestRevokeAtAnyTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var many []evidence.Revocation
	for i := range 400 {
		many = append(many,
			evidence.Revocation{Kind: evidence.RevokedArtifact, ID: "artifact-" + strconv.Itoa(i),
				Reason: "a drill of the security team that goes on for long", Expires: w.Clock.Now().Add(time.Hour).Unix()})
	}
	revoke := func(add []evidence.Revocation) error {
		_, err := w.registry.Revoke(context.Background(), add, func(string) {})
		w.Clock.Advance(time.Second)
		return err
	}
	var err error
	for i := 0; err == nil && i < 20; i++ {
		for j := range many {
			many[j].ID += "x"
		}
		err = revoke(many)
	}
	if codeOf(err) != "trust_malformed" {
		t.Fatalf("the list takes everything: %v", err)
	}
	w.trust()
	r := w.Post(t)
	w.revoke(evidence.RevokedKey, w.Key(t, gatetest.Roles[0]).KeyID(), time.Hour)
	if code := w.verify(w.read(), r); code != "revoked" {
		t.Errorf("got %q", code)
	}
}

func TestCertifyIsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	first := w.Post(t)
	w.rotateAll()
	ctx, stop := context.WithCancel(context.Background())
	second := w.registry.Options.Second
	w.registry.Options.Second = &interrupted{second, 3, stop}
	done, err := w.registry.Certify(ctx, w.published(), w.said)
	if err == nil || done.Certified != 3 || done.Left != len(gatetest.Roles)-3 {
		t.Fatalf("%+v, %v", done, err)
	}
	w.registry.Options.Second = second
	if n := len(w.read().Bundle.Certificates); n != len(gatetest.Roles)+done.Certified {
		t.Errorf("the bundle has %d certificates after %+v", n, done)
	}
	if again := w.certify(); again.Certified != done.Left || again.Left != 0 {
		t.Errorf("the next time: %+v", again)
	}
	w.Clock.Advance(3 * time.Second)
	for _, r := range []ledger.Record{first, w.Post(t)} {
		if code := w.verify(w.read(), r); code != "" {
			t.Error(code)
		}
	}
}

type interrupted struct {
	evidence.Key
	left int
	stop func()
}

func (k *interrupted) Sign(ctx context.Context, message []byte) ([]byte, error) {
	if k.left--; k.left == 0 {
		k.stop()
	}
	return k.Key.Sign(ctx, message)
}
