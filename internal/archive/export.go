package archive

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// An export is JSON Lines: each line is an object with one member, whose name is its kind. Order: the header; each pair
// of roots with its texts; the records, each before its proofs and its interaction receipts; the end. So a reader needs
// no receipts in memory, and notices a cut. An export may be compressed with gzip.
const (
	lineHeader             = "actionproof-evidence" // header: the first line
	lineRoots              = "roots"                // roots: begins a trust
	lineCertificate        = "certificate"          // text: a custody certificate of the bundle
	lineEarlierCertificate = "earlierCertificate"   // text: a custody certificate of the history
	lineRevocations        = "revocations"          // text: the bundle's revocation list
	lineEarlierRevocations = "earlierRevocations"   // text: a revocation list of the history
	lineManifest           = "manifest"             // text: the canonical JSON of a manifest
	lineRecord             = "record"               // a record
	// texts, each at most once after their record: the .tlog-proof of its intent, and of its outcome
	lineIntentProof, lineOutcomeProof = "intentProof", "outcomeProof"
	// text: an interaction receipt of the session of the record before it, up to the named one and the post's own
	lineReceipt = "receipt"
	lineEnd     = "end" // ending: the last line
	version     = 1
	maxLine     = 1 << 20  // bytes of one line
	maxShared   = 64 << 20 // bytes of all lines before the records
	maxTrusts   = 512
	begins      = `{"` + lineHeader + `":`
)

type header struct {
	Version int `json:"version"`
}

type roots struct {
	Registry json.RawMessage `json:"registry"` // a JWK, or a JWK Set of two, as mediator keys root writes it
	Auditor  json.RawMessage `json:"auditor"`
}

func (r roots) parse() ([]evidence.Root, error) {
	registry, err := evidence.ParseRoot(r.Registry, evidence.PurposeSignerCertificate)
	if err != nil {
		return nil, err
	}
	auditor, err := evidence.ParseRoot(r.Auditor, evidence.PurposeDeploymentCertificate)
	return []evidence.Root{registry, auditor}, err
}

type ending struct {
	Records int `json:"records"`
}

type writer struct {
	to      *bufio.Writer
	archive Archive
	shared  int         // bytes of the lines before the records
	from    Receipts    // nil without receipts
	proofs  ProofSource // nil without proofs
	made    Exported
	written map[string]int64 // the number of written receipts of each session
	posts   map[string]bool  // ids of posts with written receipts, whose records were not yet written
}

func newWriter(to io.Writer, a Archive, receipts Receipts) (*writer, error) {
	w := &writer{to: bufio.NewWriter(to), archive: a, from: receipts, written: make(map[string]int64),
		posts: make(map[string]bool)}
	err := w.line(lineHeader, header{version})
	for _, t := range a {
		if err == nil {
			err = w.trust(t)
		}
	}
	return w, err
}

func (w *writer) trust(t *Trust) error {
	err := w.line(lineRoots, t.files)
	err = w.texts(err, lineCertificate, t.Bundle.Certificates)
	for _, segment := range t.past() {
		tokens, bad := segment()
		err = w.texts(cmp.Or(err, bad), lineEarlierCertificate, tokens)
	}
	if t.Bundle.Revocations != "" {
		err = w.texts(err, lineRevocations, []string{t.Bundle.Revocations})
	}
	err = w.texts(err, lineEarlierRevocations, t.History.Revocations)
	for _, hash := range slices.Sorted(maps.Keys(t.manifests)) {
		err = w.texts(err, lineManifest, []string{t.manifests[hash].text})
	}
	return err
}

// texts writes lines unless err is set.
func (w *writer) texts(err error, name string, texts []string) error {
	for _, text := range texts {
		if err == nil {
			err = w.line(name, text)
		}
	}
	return err
}

func (w *writer) line(name string, value any) error {
	raw, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return err
	}
	if w.shared += len(raw); w.made.Records == 0 && name != lineEnd && w.shared > maxShared {
		return refusal.New("evidence_malformed",
			"the certificates, lists and manifests have more than the %d bytes that a reader of an "+
				"export accepts: export fewer records, with --since and --until", maxShared)
	}
	if len(raw) >= maxLine {
		return refusal.New("evidence_malformed", "the %s has %d bytes; a line of an export must have fewer than %d",
			name, len(raw), maxLine)
	}
	_, err = w.to.Write(append(raw, '\n'))
	return err
}

// record refuses a record whose manifest the archive lacks: it could not be verified.
func (w *writer) record(ctx context.Context, r ledger.Record) error {
	t := w.archive.Of(r)
	if t.manifests[cmp.Or(r.Manifest, t.today)] == nil {
		return refusal.New("manifest_unknown",
			"%s was judged by manifest %q, which is missing: give it with --manifest", r.ID, r.Manifest)
	}
	if err := checkArtifacts(r, r.ID); err != nil {
		return err
	}
	w.made.Records++
	if err := cmp.Or(checkRecords(w.made.Records, maxRecords), w.line(lineRecord, r)); err != nil {
		return err
	}
	if err := w.prove(ctx, r); err != nil {
		return err
	}
	if head := named(r); head != nil && w.from != nil {
		return w.receipts(ctx, r, head.Number)
	}
	return nil
}

// prove writes the proofs of a record. A log that cannot be read must not keep the records from being exported.
func (w *writer) prove(ctx context.Context, r ledger.Record) error {
	if w.proofs == nil || r.State == ledger.StateRefused {
		return nil
	}
	p, err := w.proofs(ctx, r.ID)
	if err != nil && w.made.Unproven == nil {
		w.made.Unproven = err
	}
	if p != (Proofs{}) {
		w.made.Proven++
	}
	for _, proof := range []struct{ name, text string }{{lineIntentProof, p.Intent}, {lineOutcomeProof, p.Outcome}} {
		if proof.text == "" {
			continue
		}
		if err := w.line(proof.name, proof.text); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) receipts(ctx context.Context, r ledger.Record, to int64) error {
	wants := func() bool { return w.written[r.Session] < to || r.State.Outcome() && !w.posts[r.ID] }
	for wants() {
		limit := int(min(readAtOnce, max(readAfter, to-w.written[r.Session])))
		tokens, err := w.from(ctx, r.Session, w.written[r.Session]+1, limit)
		if err != nil || len(tokens) == 0 {
			return err
		}
		for _, token := range tokens {
			if !wants() {
				break
			}
			if err := w.line(lineReceipt, token); err != nil {
				return err
			}
			w.written[r.Session]++
			if c, err := evidence.UnverifiedClaims(interaction.Kind, token); err == nil && c.Post != nil {
				w.posts[c.RequestID] = true
			}
		}
	}
	delete(w.posts, r.ID)
	return nil
}

func (w *writer) end() error {
	if err := w.line(lineEnd, ending{w.made.Records}); err != nil {
		return err
	}
	return w.to.Flush()
}

// For returns the roots, certificates and manifests that records need. If one rests on interaction receipts, all
// certificates for receipts and all manifests stay.
func (a Archive) For(records iter.Seq2[ledger.Record, error]) (out Archive, err error) {
	type need struct {
		kids, hashes map[string]bool
		receipts     bool
	}
	needs := make(map[*Trust]*need)
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		t := a.Of(r)
		n := needs[t]
		if n == nil {
			n = &need{kids: make(map[string]bool), hashes: make(map[string]bool)}
			needs[t] = n
		}
		for _, artifact := range r.Artifacts {
			n.kids[evidence.KeyIDOf(artifact.Token)] = true
		}
		n.receipts = n.receipts || named(r) != nil
		n.hashes[cmp.Or(r.Manifest, t.today)] = true
	}
	for _, t := range a {
		if n := needs[t]; n != nil && len(n.kids) > 0 {
			out = append(out, t.narrowed(n.kids, n.hashes, n.receipts))
		}
	}
	return out, nil
}

// Large reports whether an export of the whole archive would be mostly certificates, or too large for its reader.
func (a Archive) Large() bool {
	segments := 0
	for _, t := range a {
		segments += len(t.segments)
	}
	return segments > largeHistory
}

// largeHistory bounds the segments of a history that an export holds whole: some 8 MiB.
const largeHistory = 32

func (t *Trust) narrowed(kids, hashes map[string]bool, receipts bool) *Trust {
	n := *t
	other := func(token string) bool {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
		return err != nil || !kids[c.SubjectKeyID] && !(receipts && c.Purposes[0] == evidence.PurposeInteraction)
	}
	n.Bundle.Certificates = slices.DeleteFunc(slices.Clone(t.Bundle.Certificates), other)
	n.bases, n.segments, n.History.Certificates = make(map[bool]believed), nil, nil
	for _, segment := range t.past() {
		n.segments = append(n.segments, func() ([]string, error) {
			tokens, err := segment()
			return slices.DeleteFunc(slices.Clone(tokens), other), err
		})
	}
	n.manifests = maps.Clone(t.manifests)
	if !receipts { // which name manifests too
		maps.DeleteFunc(n.manifests, func(hash string, _ *manifest) bool { return !hashes[hash] })
	}
	return &n
}

// Exported is what an export has.
type Exported struct {
	Records  int   `json:"records"`
	LeftOut  int   `json:"leftOut"` // records without evidence
	Proven   int   `json:"proven"`  // records with a proof of the transparency log
	Unproven error `json:"-"`       // why one of the others has none, if the log could not be read
}

// Export writes the records with evidence, each before its proofs and the interaction receipts that it rests on, unless
// proofs or receipts is nil.
func Export(ctx context.Context, to io.Writer, a Archive, records iter.Seq2[ledger.Record, error], receipts Receipts,
	proofs ProofSource) (Exported, error) {
	w, err := newWriter(to, a, receipts)
	if err != nil {
		return Exported{}, err
	}
	w.proofs = proofs
	for r, err := range records {
		switch {
		case err != nil:
			return Exported{}, err
		case len(r.Artifacts) == 0:
			w.made.LeftOut++
			continue
		}
		if err := w.record(ctx, r); err != nil {
			return Exported{}, err
		}
	}
	return w.made, w.end()
}
