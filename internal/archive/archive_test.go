package archive_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/gatetest"
)

var long = flag.Bool("long", false, "play the long forms, as make plays does")

// world is a deployment with its security team's folder, over as much time as a test wants.
type world struct {
	*gatetest.Kit
	t        testing.TB
	files    config.Trust
	manifest string // path
	registry *keyring.Registry
	versions map[string][]custody.Version // that the processes publish, by purpose
	said     keyring.Declaration
}

func newWorld(t testing.TB, postQuantum bool, edits ...func(*policy.Manifest)) *world {
	t.Helper()
	return newWorldAt(t, gatetest.Start, postQuantum, edits...)
}

func newWorldAt(t testing.TB, at time.Time, postQuantum bool, edits ...func(*policy.Manifest)) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{Kit: gatetest.NewAt(t, at, edits...), t: t, versions: make(map[string][]custody.Version),
		manifest: filepath.Join(dir, "manifest.yaml")}
	w.files = config.Trust{Registry: filepath.Join(dir, "registry.jwk"), Auditor: filepath.Join(dir, "auditor.jwk"),
		Bundle: filepath.Join(dir, "trust.json")}
	w.newRegistry(postQuantum)
	w.writeAuditor()
	for _, purpose := range gatetest.Roles {
		w.publish(purpose)
	}
	w.putDeployment()
	w.certify()
	return w
}

func (w *world) newRegistry(postQuantum bool) {
	w.t.Helper()
	key, _, err := keyring.GenerateRoot("registry", postQuantum)
	must(w.t, err)
	public, err := key.JWK()
	must(w.t, err)
	w.write(w.files.Registry, public)
	signers := w.Manifest.SignerCertificatePolicy
	w.registry = keyring.NewRegistry(key,
		signer.Options{Issuer: signers.AllowedIssuers[0], Audience: signers.AllowedAudiences[0],
			Lifetime: 90 * 24 * time.Hour, Now: w.Clock.Now}, w.files.Bundle)
}

func (w *world) writeAuditor() {
	w.t.Helper()
	public, err := json.Marshal(custody.JWK(w.Key(w.t, evidence.PurposeDeploymentCertificate)))
	must(w.t, err)
	w.write(w.files.Auditor, public)
}

func (w *world) write(path string, raw []byte) {
	w.t.Helper()
	must(w.t, os.WriteFile(path, raw, 0o600))
}

func (w *world) putDeployment() {
	w.t.Helper()
	text, err := w.Manifest.Canonical()
	must(w.t, err)
	w.write(w.manifest, []byte(text))
	w.Deployment = w.Certify(w.t, w.Manifest)
	must(w.t, keyring.PutDeployment(w.files.Bundle, w.Deployment, w.Manifest))
}

func (w *world) publish(purpose string) {
	w.versions[purpose] = append(w.versions[purpose], w.Key(w.t, purpose))
}

func (w *world) certify() keyring.Edited {
	w.t.Helper()
	done, err := w.registry.Certify(context.Background(), w.published(), w.said)
	must(w.t, err)
	w.trust()
	return done
}

func (w *world) published() (p keyring.Published) {
	for _, purpose := range append(slices.Clone(gatetest.Roles), evidence.PurposeInteraction, evidence.PurposeAppraiser) {
		if len(w.versions[purpose]) == 0 {
			continue
		}
		role := daemon.RoleDocument{Purpose: purpose, Issuer: w.Issuer(purpose), KeyCustody: evidence.CustodyExternalMediator}
		for _, v := range w.versions[purpose] {
			role.Keys = append(role.Keys, jose.JSONWebKey(custody.JWK(v)))
		}
		p.Roles = append(p.Roles, role)
	}
	return p
}

func (w *world) trust() {
	w.t.Helper()
	roots, err := deployed.ReadRoots(w.files.Registry, w.files.Auditor)
	must(w.t, err)
	b, _, err := deployed.ReadBundle(w.files.Bundle)
	must(w.t, err)
	trust, err := evidence.NewTrust(roots, b, w.Strict.Signers)
	must(w.t, err)
	w.Verifier.SetTrust(trust)
}

func (w *world) revoke(kind, id string, keep time.Duration) {
	w.t.Helper()
	_, err := w.registry.Revoke(context.Background(),
		[]evidence.Revocation{{Kind: kind, ID: id, Reason: "stolen", Expires: w.Clock.Now().Add(keep).Unix()}},
		func(string) {})
	must(w.t, err)
	w.trust()
}

func (w *world) read() *archive.Trust {
	w.t.Helper()
	trust, err := archive.Read(w.files, w.manifest)
	must(w.t, err)
	return trust
}

func (w *world) verify(trust *archive.Trust, r ledger.Record) string {
	w.t.Helper()
	v, err := trust.Verify(context.Background(), r, nil, w.Clock.Now())
	must(w.t, err)
	if v.Whole {
		return ""
	}
	return v.Refused().Code
}

func restsOn(r ledger.Record, kid string) bool {
	return slices.ContainsFunc(r.Artifacts, func(a ledger.Artifact) bool { return evidence.KeyIDOf(a.Token) == kid })
}

// With a rotation and a retirement every twelve days and one revocation.
func TestRecordsOfManyPosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	rounds, posts := 20, 3
	if *long {
		rounds, posts = 50, 20
	}
	var records []ledger.Record
	var revoked string
	for round := range rounds {
		purpose := gatetest.Roles[round%len(gatetest.Roles)]
		w.Rotate(t, purpose)
		w.publish(purpose)
		w.putDeployment()
		w.certify()
		w.Clock.Advance(3 * time.Second)
		for range posts {
			records = append(records, w.Post(t))
			w.Clock.Advance(time.Second)
		}
		if round == rounds/2 {
			revoked = w.Key(t, purpose).KeyID()
			w.revoke(evidence.RevokedKey, revoked, 30*24*time.Hour) // the entry ends long before the last day
			w.Rotate(t, purpose)
			w.publish(purpose)
			w.certify()
		}
		w.Clock.Advance(time.Minute)
		w.versions[purpose] = w.versions[purpose][len(w.versions[purpose])-1:] // the older ones are retired
		w.certify()
		w.Clock.Advance(12 * 24 * time.Hour)
	}
	trust, verified, refused := w.read(), 0, 0
	for i, r := range records {
		want := ""
		if restsOn(r, revoked) {
			want = "revoked"
		}
		switch code := w.verify(trust, r); {
		case code != want:
			t.Fatalf("post %d of %s: %q, want %q", i, r.Started, code, want)
		case want == "":
			verified++
		default:
			refused++
		}
	}
	if refused != posts || verified != rounds*posts-posts {
		t.Errorf("%d are verified, %d are refused", verified, refused)
	}
	outcomes, code := judge(export(t, archive.Archive{trust}, records...), w.pins(), w.Clock.Now())
	for i, r := range records {
		if want := map[bool]string{true: "refused revoked", false: "verified"}[restsOn(r, revoked)]; code != "" ||
			outcomes[i] != want {
			t.Fatalf("of the export: post %d of %s: %q %q, want %q", i, r.Started, outcomes, code, want)
		}
	}
	bundle, err := os.Stat(w.files.Bundle)
	must(t, err)
	history, err := os.Stat(deployed.HistoryFile(w.files.Bundle))
	must(t, err)
	t.Logf("the bundle has %d bytes, its history %d", bundle.Size(), history.Size())
	if n := len(trust.Bundle.Certificates); n != len(gatetest.Roles) {
		t.Errorf("the bundle has %d certificates: it must not grow", n)
	}
}

// A certificate stays byte for byte until its content changes.
func TestCertificateStays(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, tt := range []struct {
		name   string
		change func(w *world)
		fresh  int
	}{
		{"nothing", func(*world) {}, 0},
		{"a day", func(w *world) { w.Clock.Advance(day) }, 0},
		{"another key is rotated", func(w *world) { w.Rotate(w.t, gatetest.Roles[0]); w.publish(gatetest.Roles[0]) }, 1},
		{"half of the lifetime", func(w *world) { w.Clock.Advance(46 * day) }, 7},
		{"what is declared", func(w *world) { w.said.AccessibleToUsers = true }, 7},
		{"the audience", func(w *world) { w.registry.Options.Audience = "another" }, 7},
		{"the issuer", func(w *world) { w.registry.Options.Issuer = "another" }, 7},
		{"a shorter lifetime", func(w *world) { w.registry.Options.Lifetime = day }, 7},
		{"one certificate is revoked", func(w *world) {
			c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), w.read().Bundle.Certificates[3])
			must(w.t, err)
			w.revoke(evidence.RevokedArtifact, c.ID, day)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			before := w.read().Bundle.Certificates
			w.Clock.Advance(time.Minute)
			tt.change(w)
			done, kept := w.certify(), 0
			for _, token := range w.read().Bundle.Certificates {
				if slices.Contains(before, token) {
					kept++
				}
			}
			if done.Certified != tt.fresh || kept != done.Kept || kept+tt.fresh != len(w.read().Bundle.Certificates) {
				t.Errorf("%d are new, %d stay; the bundle has %d of before; want %d new", done.Certified, done.Kept,
					kept, tt.fresh)
			}
		})
	}
}

func TestRecordsOfThePast(t *testing.T) {
	t.Parallel()
	day, key := 24*time.Hour, evidence.PurposeTriggerReceipt
	rotate := func(w *world) {
		w.Rotate(w.t, key)
		w.publish(key)
		w.certify()
		w.Clock.Advance(time.Minute)
	}
	retire := func(w *world) {
		w.versions[key] = w.versions[key][1:]
		w.certify()
		w.Clock.Advance(time.Minute)
	}
	for _, tt := range []struct {
		name, code string
		happens    func(w *world, r *ledger.Record)
	}{
		{"nothing", "", func(*world, *ledger.Record) {}},
		{"a rotation", "", func(w *world, _ *ledger.Record) { rotate(w) }},
		{"a retirement", "", func(w *world, _ *ledger.Record) { rotate(w); retire(w) }},
		{"a retirement and a renewal", "", func(w *world, _ *ledger.Record) {
			rotate(w)
			retire(w)
			w.Clock.Advance(60 * day)
			w.certify()
		}},
		{"certificates that have expired", "",
			func(w *world, _ *ledger.Record) { w.Clock.Advance(200 * day); w.certify() }},
		{"a list that revokes nothing", "", func(w *world, _ *ledger.Record) {
			w.revoke(evidence.RevokedKey, "another-key:v1", day)
		}},
		{"a list that ended", "", func(w *world, _ *ledger.Record) {
			w.revoke(evidence.RevokedKey, "another-key:v1", day)
			w.Clock.Advance(400 * day)
		}},
		{"its key revoked", "revoked", func(w *world, _ *ledger.Record) {
			w.revoke(evidence.RevokedKey, w.Key(w.t, key).KeyID(), day)
		}},
		{"its retired key revoked by its name", "revoked", func(w *world, _ *ledger.Record) {
			rotate(w)
			retire(w)
			w.revoke(evidence.RevokedKey, evidence.KeyName(w.Key(w.t, key).KeyID()), day)
		}},
		{"its key revoked, and the entry ended", "revoked", func(w *world, _ *ledger.Record) {
			w.revoke(evidence.RevokedKey, w.Key(w.t, key).KeyID(), day)
			w.Clock.Advance(2 * day)
			w.revoke(evidence.RevokedKey, "another-key:v1", day)
		}},
		{"one of its artifacts revoked, and the entry ended", "revoked", func(w *world, r *ledger.Record) {
			c, err := evidence.UnverifiedClaims(evidence.ActionGrantKind(), r.Artifacts[4].Token)
			must(w.t, err)
			w.revoke(evidence.RevokedArtifact, c.ID, day)
			w.Clock.Advance(2 * day)
			w.certify()
		}},
		{"its certificate revoked after its key was retired", "revoked", func(w *world, _ *ledger.Record) {
			c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(),
				w.read().Bundle.Certificates[slices.Index(gatetest.Roles, key)])
			must(w.t, err)
			rotate(w)
			retire(w)
			w.revoke(evidence.RevokedArtifact, c.ID, day)
		}},
		{"its retired key is used on", "key_retired", func(w *world, r *ledger.Record) {
			old := w.Key(w.t, key)
			rotate(w)
			both := w.Post(w.t) // in the minute in which both are certified
			for i, a := range both.Artifacts {
				if a.Name == "triggerReceipt" {
					c, err := evidence.UnverifiedClaims(evidence.TriggerReceiptKind(), a.Token)
					must(w.t, err)
					both.Artifacts[i].Token, err = evidence.Sign(context.Background(), old,
						evidence.TriggerReceiptKind(), c)
					must(w.t, err)
				}
			}
			if code := w.verify(w.read(), both); code != "artifacts_mismatch" { // its signature counts, in that minute
				w.t.Errorf("before the retirement: %q", code)
			}
			w.Clock.Advance(-time.Minute)
			retire(w) // at the moment before: the post is of a minute later
			*r = both
		}},
		{"its key made anew under the same name", "", func(w *world, _ *ledger.Record) {
			again, err := custody.NewMemory(evidence.KeyName(w.Key(w.t, key).KeyID()))
			must(w.t, err)
			v, err := again.Current(context.Background())
			must(w.t, err)
			w.versions[key] = []custody.Version{v}
			w.certify()
		}},
		{"another manifest", "", func(w *world, _ *ledger.Record) {
			w.Manifest.SignerCertificatePolicy.MaxCertificateAgeMs /= 2
			w.putDeployment()
		}},
		{"it is of tomorrow", "clock_skew", func(w *world, _ *ledger.Record) { w.Clock.Advance(-day) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, postQuantum := range []bool{false, true} {
				w := newWorld(t, postQuantum)
				w.Clock.Advance(time.Minute)
				r := w.Post(t)
				w.Clock.Advance(time.Minute)
				tt.happens(w, &r)
				v, err := w.read().Verify(context.Background(), r, nil, w.Clock.Now())
				code := v.Refused().Code
				if err != nil {
					code = codeOf(err)
				}
				if code != tt.code || v.Whole != (tt.code == "") {
					t.Errorf("post-quantum %t: got %q, want %q", postQuantum, code, tt.code)
				}
			}
		})
	}
}

// If the manifest demands a fresh list, a list that was too old for a record's time does not count.
func TestListOfBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(m *policy.Manifest) {
		m.SignerCertificatePolicy.MaxRevocationListAgeMs = 24 * 60 * 60 * 1000
	})
	w.revoke(evidence.RevokedKey, "another-key:v1", 24*time.Hour)
	before := w.read().Bundle.Revocations
	w.Clock.Advance(time.Minute)
	first := w.Post(t)
	w.Clock.Advance(48 * time.Hour)
	w.revoke(evidence.RevokedKey, "a-third-key:v1", 24*time.Hour)
	w.putDeployment()
	w.Clock.Advance(time.Minute)
	second := w.Post(t)
	today := w.read()
	if a, b := w.verify(today, first), w.verify(today, second); a != "" || b != "" {
		t.Errorf("with today's list: %q, %q", a, b)
	}
	rolledBack := w.read()
	rolledBack.Bundle.Revocations, rolledBack.History.Revocations = before, nil
	if a, b := w.verify(rolledBack, first), w.verify(rolledBack, second); a != "" || b != "revocations_stale" {
		t.Errorf("with the list of before: %q, %q", a, b)
	}
	none := w.read()
	none.Bundle.Revocations, none.History.Revocations = "", nil
	if code := w.verify(none, first); code != "revocations_stale" {
		t.Errorf("without a list: %q", code)
	}
}

func TestHistoryIsNotLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	key := evidence.PurposeTriggerReceipt
	r := w.Chain(t)
	w.Rotate(t, key)
	w.publish(key)
	w.versions[key] = w.versions[key][1:]
	w.certify()
	var used gatetest.Used
	_, err := gatetest.Admit(context.Background(), w.Gate, r, used.Consume)
	gatetest.WantCode(t, err, "key_retired")
}

// A foreign text in the history blocks its writer and its verifiers.
func TestHistoryOfAnotherRegistry(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t, false), newWorld(t, false)
	r := w.Post(t)
	raw, err := json.Marshal(evidence.History{Certificates: other.read().Bundle.Certificates})
	must(t, err)
	w.write(deployed.HistoryFile(w.files.Bundle), raw)
	if code := w.verify(w.read(), r); code != "signature_invalid" {
		t.Errorf("got %q", code)
	}
	before, err := os.ReadFile(w.files.Bundle)
	must(t, err)
	w.Rotate(t, gatetest.Roles[0])
	w.versions[gatetest.Roles[0]] = []custody.Version{w.Key(t, gatetest.Roles[0])}
	if _, err := w.registry.Certify(context.Background(), w.published(), w.said); err == nil ||
		!strings.Contains(err.Error(), "move it away first") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(w.files.Bundle); err != nil || string(after) != string(before) {
		t.Errorf("the bundle has changed, %v", err)
	}
}

func codeOf(err error) string {
	if c, ok := err.(interface{ Code() string }); ok {
		return c.Code()
	}
	return fmt.Sprint(err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
