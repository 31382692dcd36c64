// Package archive verifies and exports records of any age with pinned roots, the trust bundle, its history and all
// manifests.
package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// Trust is what one pair of roots vouches for: the registry for keys, the auditor for manifests. It is not safe for
// concurrent use.
type Trust struct {
	Roots   []evidence.Root // the registry's, then the auditor's
	Bundle  evidence.Bundle
	History evidence.History // without the certificates in files, which segments read

	segments  []evidence.Segment
	bases     map[bool]believed    // the certificates of all times, by whether post-quantum signatures are required
	files     roots                // the public files of the roots
	pins      *evidence.Trust      // the roots alone
	manifests map[string]*manifest // by hash
	today     string               // hash of the manifest for a record that names no known one
	last      string               // hash of the manifest added last, for a node's tokens, which name none
	foreign   bool                 // the roots came with the records, and are not pinned

	// AnswerKeys are the pinned keys with which APIs sign their answers, by host; those of no host are for all. If
	// there are any, an answer by another key is refused; without any, the owners of the keys in the records are
	// unknown.
	AnswerKeys map[string]httpsig.Keys
}

type manifest struct {
	text   string // canonical JSON
	strict *policy.Strict
	believed
}

// believed are verified revocation lists with certificates, or why they are refused; zero until they are needed.
type believed struct {
	past *evidence.PastTrust
	err  error
}

// ReadRoots reads two pinned roots alone: an export brings the rest.
func ReadRoots(registry, auditor string) (*Trust, error) {
	var raw roots
	var err error
	for path, to := range map[string]*json.RawMessage{registry: &raw.Registry, auditor: &raw.Auditor} {
		if *to, err = files.Read(path); err != nil {
			return nil, fmt.Errorf("pinned root key: %w", err)
		}
	}
	pair, err := deployed.ReadRoots(registry, auditor)
	if err != nil {
		return nil, err
	}
	t, err := newTrust(pair, evidence.Bundle{}, evidence.History{})
	if err == nil {
		t.files = raw
	}
	return t, err
}

// Read reads a trust from files. today is the path of a manifest that the history may lack; it may be empty.
func Read(from config.Trust, today string) (*Trust, error) {
	t, err := ReadRoots(from.Registry, from.Auditor)
	if err != nil {
		return nil, err
	}
	if t.Bundle, _, err = ReadAnyBundle(from.Bundle); err != nil {
		return nil, err
	}
	if t.History, t.segments, err = ReadHistory(from.Bundle, t.Bundle); err != nil {
		return nil, err
	}
	for _, text := range t.History.Manifests {
		_ = t.addManifest(text) // one that this program cannot read affects no other
	}
	if today == "" {
		return t, nil
	}
	m, strict, err := deployed.ReadAuditedManifest(today)
	if err != nil {
		return nil, err
	}
	text, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	t.today, t.last, t.manifests[strict.ManifestHash] = strict.ManifestHash, strict.ManifestHash,
		&manifest{text: text, strict: strict}
	return t, nil
}

// ReadEarlier reads the trusts of earlier roots, newest first: one from each folder in dir, whose files have today's
// names. dir may be missing.
func ReadEarlier(dir string, today config.Trust) (Archive, error) {
	folders, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(folders) >= maxTrusts {
		return nil, fmt.Errorf("%s has %d folders; fewer than %d are read", dir, len(folders), maxTrusts)
	}
	var a Archive
	for _, f := range slices.Backward(folders) { // newest first, as their names are
		if strings.HasPrefix(f.Name(), ".") {
			continue
		}
		in := func(path string) string { return filepath.Join(dir, f.Name(), filepath.Base(path)) }
		t, err := Read(config.Trust{Registry: in(today.Registry), Auditor: in(today.Auditor), Bundle: in(today.Bundle)},
			"")
		if err != nil {
			return nil, err
		}
		a = append(a, t)
	}
	return a, nil
}

func newTrust(roots []evidence.Root, b evidence.Bundle, h evidence.History) (*Trust, error) {
	pins, err := evidence.NewTrust(roots, evidence.Bundle{}, evidence.SignerPolicy{})
	t := &Trust{Roots: roots, Bundle: b, History: h, pins: pins, manifests: make(map[string]*manifest)}
	t.forget()
	return t, err
}

// RootFiles returns the public files of the roots.
func (t *Trust) RootFiles() (registry, auditor json.RawMessage) {
	return t.files.Registry, t.files.Auditor
}

func (t *Trust) forget() {
	t.bases = make(map[bool]believed)
	for _, m := range t.manifests {
		m.believed = believed{}
	}
}

func (t *Trust) addManifest(text string) error {
	m, err := policy.ParseManifest([]byte(text))
	if err != nil {
		return err
	}
	strict, err := m.Strict()
	if err == nil {
		t.manifests[strict.ManifestHash], t.last = &manifest{text: text, strict: strict}, strict.ManifestHash
	}
	return err
}

// manifest returns the manifest with a hash. If it is missing, the error names the check in which today's differs.
func (t *Trust) manifest(hash, what string) (*manifest, error) {
	for _, hash := range []string{hash, t.today} {
		if m := t.manifests[hash]; m != nil {
			return m, nil
		}
	}
	return nil, refusal.New("manifest_unknown",
		"the %s was judged by manifest %q, which is missing: give it with --manifest", what, hash)
}

// believedBy returns the certificates of all times that a manifest believes. An export has as many manifests, records
// and lists as its author likes, so the lists are verified once.
func (t *Trust) believedBy(m *manifest) (*evidence.PastTrust, error) {
	if m.believed == (believed{}) {
		required := m.strict.Signers.RequirePostQuantum
		base, ok := t.bases[required]
		if !ok {
			base.past, base.err = evidence.ReadPastTrust(t.Roots, t.Bundle, t.History.Revocations,
				evidence.SignerPolicy{Expected: evidence.Expected{RequirePostQuantum: required}}, t.past()...)
			t.bases[required] = base
		}
		if m.believed = base; base.err == nil {
			m.past, m.err = base.past.Under(m.strict.Signers)
		}
	}
	return m.past, m.err
}

func (t *Trust) notPinned(what string) error {
	return refusal.New("roots_not_pinned", "the %s belongs to roots that are not pinned here: %s and %s", what,
		t.Roots[0].KeyID, t.Roots[1].KeyID)
}

// Verify verifies a record's chain, as of its last signature, and, unless receipts is nil, the interaction receipts
// that its session receipt names. now is today's time.
func (t *Trust) Verify(ctx context.Context, r ledger.Record, receipts Receipts, now time.Time) (Verdict, error) {
	s := newSessions(receipts, now)
	s.alone = true
	return t.verify(ctx, r, s)
}

func (t *Trust) verify(ctx context.Context, r ledger.Record, s *sessions) (v Verdict, err error) {
	if t.foreign {
		return v, t.notPinned("record")
	}
	if err := checkArtifacts(r, "the record"); err != nil { // of two with one name, each reader could take another
		return v, err
	}
	m, err := t.manifest(r.Manifest, "record")
	if err != nil {
		return v, err
	}
	past, err := t.believedBy(m)
	if err != nil {
		return v, err
	}
	for _, at := range []time.Time{lastSigned(r), lastSigned(r).Add(-time.Second)} {
		verifier, err := past.At(at, s.now)
		if err != nil {
			return v, err
		}
		v.Checks, v.Whole = gate.VerifyRecord(ctx, verifier, m.strict, r)
		if v.Refused().Code != "signature_invalid" { // by the key before a restart in this second
			break
		}
	}
	if v.Refused().Name == "" {
		v.add(recordCheck, checkRecord(r, m.strict.ManifestHash, s.now))
	}
	if v.Refused().Name == "" && r.Answer != nil && len(t.AnswerKeys) > 0 {
		v.add(answerCheck, t.checkAnswer(r))
	}
	if v.Refused().Name != "" {
		return v, nil
	}
	var post *madePost
	if head := named(r); head != nil {
		v.Interactions = &Interactions{InteractionHead: *head}
		if post, err = s.interactions(ctx, t, r, &v); err != nil {
			return v, err
		}
	}
	v.Unproven = unproven(v.Checks, post, r.State)
	return v, nil
}

// interactions returns the post's own receipt, or nil.
func (s *sessions) interactions(ctx context.Context, t *Trust, r ledger.Record, v *Verdict) (*madePost, error) {
	if s.from == nil {
		return nil, nil
	}
	chain, post, err := s.verify(ctx, t, r, v.Interactions.InteractionHead)
	if chain == nil {
		return nil, err
	}
	v.Interactions.First, v.Interactions.Verified = chain.First(), err == nil
	v.add(receiptsCheck, err)
	return post, nil
}

func (v *Verdict) add(name string, err error) {
	if err != nil {
		v.Checks, v.Whole = append(v.Checks, failed(name, err)), false
		return
	}
	v.Checks = append(v.Checks, ledger.Check{Name: name, OK: true})
}

// Verdict is the result of verifying a record.
type Verdict struct {
	Checks []ledger.Check
	Whole  bool // every artifact of the chain is there and valid
	// Unproven names the record's members, as in JSON, that no signature proves; nil if it is refused.
	Unproven []string
	// Interactions describes the interaction receipts that the verified session receipt names; nil if it names none.
	Interactions *Interactions
}

// Refused returns the check that refused the record, or zero if at most artifacts were missing.
func (v Verdict) Refused() (k ledger.Check) {
	for _, k := range v.Checks {
		if !k.OK && k.Code != missing {
			return k
		}
	}
	return ledger.Check{}
}

const missing = "artifact_missing"

// RevocationsSigned returns the unverified time of the revocation list, or zero if there is none.
func (t *Trust) RevocationsSigned() time.Time {
	c, err := evidence.UnverifiedClaims(evidence.RevocationListKind(), t.Bundle.Revocations)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(c.IssuedAt, 0).UTC()
}

// Archive is the trust of several pairs of roots, today's first.
type Archive []*Trust

// Of returns the trust whose auditor signed the record's deployment certificate, or that has the manifest of a post
// that was refused before it had one. Several can, as after one of two roots was replaced: then it is the first that
// knew the record's keys by then. Without any it is today's.
func (a Archive) Of(r ledger.Record) (found *Trust) {
	k, certificate := evidence.DeploymentCertificateKind(), artifact(r, "deploymentCertificate")
	tokens := make([]string, len(r.Artifacts))
	for i, a := range r.Artifacts {
		tokens[i] = a.Token
	}
	for _, t := range a {
		switch {
		case len(a) == 1 || certificate == "" && t.manifests[r.Manifest] == nil,
			certificate != "" && !t.pins.Signed(k.Purpose, k.Typ, certificate):
		case t.knew(r.Manifest, lastSigned(r), tokens...):
			return t
		default:
			found = cmp.Or(found, t)
		}
	}
	return cmp.Or(found, a[0])
}

// Pinned returns an export's trusts as the holder of own believes them: own certificates and revocations count too,
// and roots that own lacks are not believed.
func (a Archive) Pinned(own Archive) Archive {
	out := make(Archive, len(a))
	for i, t := range a {
		pinned := *t
		pinned.foreign, pinned.manifests = true, make(map[string]*manifest)
		for hash, m := range t.manifests {
			pinned.manifests[hash] = &manifest{text: m.text, strict: m.strict}
		}
		pinned.forget()
		for _, o := range own {
			if sameRoots(o, t) {
				pinned.foreign, pinned.AnswerKeys = false, o.AnswerKeys
				pinned.join(o)
			}
		}
		out[i] = &pinned
	}
	return out
}

func sameRoots(t, o *Trust) bool { return reflect.DeepEqual(t.Roots, o.Roots) }

// join adds the content of o. Of two certificates from one second the later in the list counts, so those of o come
// last: they may know of a retirement that t does not.
func (t *Trust) join(o *Trust) {
	t.segments = append(append(t.past(), evidence.Certificates(t.Bundle.Certificates)), o.past()...)
	t.History.Certificates, t.Bundle.Certificates = nil, o.Bundle.Certificates
	lists := slices.Concat(t.History.Revocations, o.History.Revocations)
	newer, older := o, t
	if o.RevocationsSigned().Before(t.RevocationsSigned()) {
		newer, older = t, o
	}
	if older.Bundle.Revocations != "" {
		lists = append(lists, older.Bundle.Revocations)
	}
	t.Bundle.Revocations, t.History.Revocations = newer.Bundle.Revocations, lists
}

// lastSigned returns the unverified time of the request proof, or of the last artifact before it, or the record's
// start.
func lastSigned(r ledger.Record) time.Time {
	if c, err := evidence.UnverifiedClaims(evidence.RequestProofKind(), artifact(r, "requestProof")); err == nil {
		return time.Unix(c.IssuedAt, 0)
	}
	if _, last := signedTimes(r); !last.IsZero() {
		return last
	}
	return r.Started
}

func artifact(r ledger.Record, name string) (token string) {
	for _, a := range r.Artifacts {
		if a.Name == name {
			token = cmp.Or(token, a.Token)
		}
	}
	return token
}
