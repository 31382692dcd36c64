package archive

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy/decide"
)

// An export is JSON Lines: each line is an object with one member, whose name says what it is. The lines come in this order: the header; for
// each pair of roots the roots, and then what they answer for; the policies; the records; the end. So a reader has everything that a record
// rests on before the record, and notices a file that was cut off. An export may be compressed with gzip.
const (
	lineHeader             = "actionproof-evidence" // header: the first line
	lineRoots              = "roots"                // roots: begins a trust
	lineCertificate        = "certificate"          // text: a custody certificate in force
	lineEarlierCertificate = "earlierCertificate"   // text: one of the history
	lineRevocations        = "revocations"          // text: the revocation list
	lineEarlierRevocations = "earlierRevocations"   // text: one of the history
	lineManifest           = "manifest"             // text: the canonical JSON of a manifest
	linePolicy             = "policy"               // text: a policy file
	lineRecord             = "record"               // a record
	lineEnd                = "end"                  // ending: the last line
	version                = 1
	maxLine                = 1 << 20  // bytes of one line
	maxShared              = 64 << 20 // bytes of all lines before the records
	maxTrusts              = 512
	begins                 = `{"` + lineHeader + `":`
)

type header struct {
	Version int `json:"version"`
}

type roots struct {
	Registry json.RawMessage `json:"registry"` // a JWK, or a JWK Set of two, as mediator keys root writes it
	Auditor  json.RawMessage `json:"auditor"`
}

// parse reads the two roots.
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

// writer writes an export. It keeps nothing of what it has written.
type writer struct {
	to      *bufio.Writer
	archive Archive
	records int
}

// newWriter writes everything of an export that comes before the records: what the archive answers for, and the text of policies.
func newWriter(to io.Writer, a Archive, policies []string) (*writer, error) {
	w := &writer{to: bufio.NewWriter(to), archive: a}
	err := w.line(lineHeader, header{version})
	for _, t := range a {
		if err == nil {
			err = w.trust(t)
		}
	}
	if err == nil {
		err = a.checkPolicies(policies)
	}
	return w, w.texts(err, linePolicy, policies)
}

// checkPolicies refuses the text of a policy that none of the manifests demands: it says nothing about any record.
func (a Archive) checkPolicies(texts []string) error {
	demanded := make(map[string]bool)
	for _, t := range a {
		for _, m := range t.manifests {
			demanded[m.strict.Runtime.PolicyHash] = true
		}
	}
	for _, text := range texts {
		rules, err := decide.ParseRules([]byte(text))
		if err != nil {
			return refusal.New("evidence_malformed", "the policy cannot be read: %v", err)
		}
		if !demanded[rules.Hash()] {
			return refusal.New("evidence_malformed", "no manifest of the export demands the policy %s", rules.Hash())
		}
	}
	return nil
}

func (w *writer) trust(t *Trust) error {
	err := w.line(lineRoots, t.files)
	err = w.texts(err, lineCertificate, t.Bundle.Certificates)
	err = w.texts(err, lineEarlierCertificate, t.History.Certificates)
	if t.Bundle.Revocations != "" {
		err = w.texts(err, lineRevocations, []string{t.Bundle.Revocations})
	}
	err = w.texts(err, lineEarlierRevocations, t.History.Revocations)
	for _, hash := range slices.Sorted(maps.Keys(t.manifests)) {
		err = w.texts(err, lineManifest, []string{t.manifests[hash].text})
	}
	return err
}

// texts writes lines unless something has failed before.
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
	if len(raw) >= maxLine {
		return refusal.New("evidence_malformed", "a %s has %d bytes; a line of an export has less than %d", name, len(raw), maxLine)
	}
	_, err = w.to.Write(append(raw, '\n'))
	return err
}

// record writes one record. It refuses one whose manifest the archive does not have: what was exported could not be verified.
func (w *writer) record(r ledger.Record) error {
	t := w.archive.Of(r)
	if t.manifests[cmp.Or(r.Manifest, t.today)] == nil {
		return refusal.New("manifest_unknown", "%s was judged by manifest %q, which is not there: give it with --manifest", r.ID, r.Manifest)
	}
	w.records++
	return w.line(lineRecord, r)
}

// end writes the end. Without it, a reader refuses the export.
func (w *writer) end() error {
	if err := w.line(lineEnd, ending{w.records}); err != nil {
		return err
	}
	return w.to.Flush()
}

// For returns of an archive what these records need: the roots that they belong to, the certificates of the keys that signed them, and
// the manifests that they name.
func (a Archive) For(records []ledger.Record) Archive {
	var out Archive
	for _, t := range a {
		kids, hashes := make(map[string]bool), make(map[string]bool)
		for _, r := range records {
			if a.Of(r) != t {
				continue
			}
			for _, artifact := range r.Artifacts {
				kids[evidence.KeyIDOf(artifact.Token)] = true
			}
			hashes[cmp.Or(r.Manifest, t.today)] = true
		}
		if len(kids) > 0 {
			out = append(out, t.narrowed(kids, hashes))
		}
	}
	return out
}

func (t *Trust) narrowed(kids, hashes map[string]bool) *Trust {
	n := *t
	other := func(token string) bool {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token)
		return err != nil || !kids[c.SubjectKeyID]
	}
	n.Bundle.Certificates = slices.DeleteFunc(slices.Clone(t.Bundle.Certificates), other)
	n.History.Certificates = slices.DeleteFunc(slices.Clone(t.History.Certificates), other)
	n.manifests = maps.Clone(t.manifests)
	maps.DeleteFunc(n.manifests, func(hash string, _ *manifest) bool { return !hashes[hash] })
	return &n
}

// Export writes an export of the records that have evidence. It returns how many those are, and how many have none.
func Export(to io.Writer, a Archive, records iter.Seq2[ledger.Record, error], policies ...string) (written, without int, err error) {
	w, err := newWriter(to, a, policies)
	if err != nil {
		return 0, 0, err
	}
	for r, err := range records {
		switch {
		case err != nil:
			return 0, 0, err
		case len(r.Artifacts) == 0:
			without++
			continue
		}
		if err := w.record(r); err != nil {
			return 0, 0, err
		}
	}
	return w.records, without, w.end()
}
