// Package archive verifies the records of posts of any age, and carries them: with the roots that are pinned, the trust bundle, the history
// beside it and the manifests of all times.
//
//	archive.go  Trust: what one pair of roots answers for; Archive: the trust of today, and of roots before
//	record.go   one record, as mediator posts show --json prints it
//	export.go   the format of an export, and its Writer
//	import.go   its Reader
package archive

import (
	"cmp"
	"context"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// Trust is what one pair of roots answers for: the registry for keys, the auditor for manifests. It is not safe for concurrent use.
type Trust struct {
	Roots   []evidence.Root // the registry's, then the auditor's
	Bundle  evidence.Bundle
	History evidence.History

	pins      *evidence.Trust      // the roots alone
	manifests map[string]*manifest // by hash
	today     string               // hash of the manifest for a record that names none that is known
}

// manifest is one deployment manifest with the certificates that it believes.
type manifest struct {
	strict  *policy.Strict
	archive *evidence.Archive // nil until it is needed
}

// Read reads the trust that lies in files. today is the path of a manifest beside those in the history; it may be empty.
func Read(files config.Trust, today string) (*Trust, error) {
	roots, err := config.ReadRoots(files.Registry, files.Auditor)
	if err != nil {
		return nil, err
	}
	b, _, err := config.ReadBundle(files.Bundle)
	if err != nil {
		return nil, err
	}
	h, err := config.ReadHistory(files.Bundle)
	if err != nil {
		return nil, err
	}
	t, err := newTrust(roots, b, h)
	if err != nil || today == "" {
		return t, err
	}
	_, strict, err := config.ReadAuditedManifest(today)
	if err != nil {
		return nil, err
	}
	t.today = strict.ManifestHash
	t.manifests[t.today] = &manifest{strict: strict}
	return t, nil
}

// newTrust makes a trust with the manifests of its history. One that this program does not read any more is left out: it refuses no other.
func newTrust(roots []evidence.Root, b evidence.Bundle, h evidence.History) (*Trust, error) {
	pins, err := evidence.NewTrust(roots, evidence.Bundle{}, evidence.SignerPolicy{})
	if err != nil {
		return nil, err
	}
	t := &Trust{Roots: roots, Bundle: b, History: h, pins: pins, manifests: make(map[string]*manifest)}
	for _, text := range h.Manifests {
		_ = t.addManifest(text)
	}
	return t, nil
}

// addManifest adds a manifest, as canonical JSON.
func (t *Trust) addManifest(text string) error {
	m, err := policy.ParseManifest([]byte(text))
	if err != nil {
		return err
	}
	strict, err := m.Strict()
	if err == nil {
		t.manifests[strict.ManifestHash] = &manifest{strict: strict}
	}
	return err
}

// manifest returns the manifest that a record names, or else today's.
func (t *Trust) manifest(r ledger.Record) (*manifest, error) {
	if m := t.manifests[r.Manifest]; m != nil {
		return m, nil
	}
	if m := t.manifests[t.today]; m != nil {
		return m, nil
	}
	return nil, refusal.New("manifest_unknown", "the record was judged by manifest %q, which is not there: give it with --manifest", r.Manifest)
}

// verifier returns what judges a record: as of the moment when its last artifact was signed.
func (t *Trust) verifier(m *manifest, r ledger.Record, now time.Time) (v *evidence.Verifier, err error) {
	if m.archive == nil {
		if m.archive, err = evidence.NewArchive(t.Roots, t.Bundle, t.History, m.strict.Signers); err != nil {
			return nil, err
		}
	}
	return m.archive.At(LastSigned(r), now)
}

// Verify verifies the chain of a record with public keys alone. now is the time of today: a record is not of the future.
func (t *Trust) Verify(ctx context.Context, r ledger.Record, now time.Time) (Verdict, error) {
	m, err := t.manifest(r)
	if err != nil {
		return Verdict{}, err
	}
	v, err := t.verifier(m, r, now)
	if err != nil {
		return Verdict{}, err
	}
	checks, whole := gate.VerifyRecord(ctx, v, m.strict, r)
	return Verdict{Checks: checks, Whole: whole}, nil
}

// Verdict is the result of verifying a record.
type Verdict struct {
	Checks []ledger.Check
	Whole  bool // every artifact of the chain is there and valid
}

// Refused returns the first check that did not hold; its code is empty if all did.
func (v Verdict) Refused() ledger.Check {
	for _, k := range v.Checks {
		if !k.OK {
			return k
		}
	}
	return ledger.Check{}
}

// Revocations returns when the list was signed that the trust has of what is revoked, and false where it has none.
func (t *Trust) Revocations() (signed time.Time, ok bool) {
	c, err := evidence.UnverifiedClaims(evidence.RevocationListKind, t.Bundle.Revocations)
	return time.Unix(c.IssuedAt, 0).UTC(), err == nil
}

// Archive is the trust of several pairs of roots, today's first.
type Archive []*Trust

// Of returns the trust that a record belongs to: the one whose auditor signed its deployment certificate, or else today's.
func (a Archive) Of(r ledger.Record) *Trust {
	if len(a) > 1 {
		for _, t := range a {
			if t.pins.Signed(evidence.DeploymentCertificateKind.Typ, artifact(r, "deploymentCertificate")) {
				return t
			}
		}
	}
	return a[0]
}

// LastSigned returns when the last artifact of a record was signed, by its own word. This is the request proof, or the start of a post
// that did not get as far.
func LastSigned(r ledger.Record) time.Time {
	c, err := evidence.UnverifiedClaims(evidence.RequestProofKind, artifact(r, "requestProof"))
	if err != nil {
		return r.Started
	}
	return time.Unix(c.IssuedAt, 0)
}

func artifact(r ledger.Record, name string) (token string) {
	for _, a := range r.Artifacts {
		if a.Name == name {
			token = cmp.Or(token, a.Token)
		}
	}
	return token
}
