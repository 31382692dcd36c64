package archive

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog"
)

// Reader reads an export, one record at a time.
type Reader struct {
	in      *bufio.Reader
	number  int // of the line that was read last
	shared  int // bytes before the records
	next    part
	archive Archive
	session string              // of the last record
	proofs  Proofs              // of the last record
	failed  error               // of a receipt after that record
	held    map[string][]string // receipts by session that were not asked for after their record
	bytes   int                 // of held
	most    int                 // bound of bytes
	records int                 // bound of the records
	drop    bool                // receipts that were not asked for
}

// cost is the memory of a text: even an empty one takes some.
func cost(text string) int { return 64 + len(text) }

type part struct {
	name  string
	value json.RawMessage
	line  int // bytes of the line without its end, as the writer counts them
}

// Drop has the reader keep no receipts, for a caller who asks for none.
func (r *Reader) Drop() { r.drop = true }

// IsExport reports whether in begins like an export, plain or compressed. It consumes nothing of in.
func IsExport(in *bufio.Reader) bool {
	start, _ := in.Peek(len(begins))
	return string(start) == begins || compressed(in)
}

func compressed(in *bufio.Reader) bool {
	start, _ := in.Peek(2)
	return string(start) == "\x1f\x8b" // RFC 1952 section 2.3.1
}

// NewReader reads an export up to its records.
func NewReader(in *bufio.Reader) (*Reader, error) {
	var from io.Reader = in
	if compressed(in) {
		plain, err := gzip.NewReader(in)
		if err != nil {
			return nil, refusal.New("evidence_malformed", "the export begins like a compressed file but is not one: %v",
				err)
		}
		from = plain
	}
	r := &Reader{in: bufio.NewReaderSize(from, maxLine), held: make(map[string][]string), most: maxShared,
		records: maxRecords}
	var h header
	if err := r.read(); err != nil {
		return nil, err
	}
	if err := r.parse(lineHeader, &h); err != nil {
		return nil, err
	}
	if h.Version != version {
		return nil, r.malformed("it has version %d, but this program reads version %d", h.Version, version)
	}
	for {
		err := r.read()
		if err != nil {
			return nil, err
		}
		if slices.Contains([]string{lineReceipt, lineRecord, lineEnd}, r.next.name) {
			return r, r.checkShared()
		}
		if r.shared += r.next.line; r.shared > maxShared {
			return nil, r.malformed("more than %d bytes come before the records", maxShared)
		}
		if err := r.share(); err != nil {
			return nil, err
		}
	}
}

func (r *Reader) read() error {
	r.number++
	raw, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return r.malformed("the line has more than %d bytes", maxLine)
	case errors.Is(err, io.EOF):
		return r.malformed("the export breaks off before its end")
	case err != nil:
		return r.malformed("%v", err)
	}
	var members map[string]json.RawMessage
	if err := strictjson.ParseMembers(raw, &members); err != nil {
		return r.malformed("%v", err)
	}
	if len(members) != 1 {
		return r.malformed("it has %d members; each line has one", len(members))
	}
	for name, value := range members {
		r.next = part{name, value, len(raw) - 1}
	}
	return nil
}

func (r *Reader) parse(name string, v any) error {
	if r.next.name != name {
		return r.malformed("a %.40q stands where a %q is expected", r.next.name, name)
	}
	if err := strictjson.ParseMembers(r.next.value, v); err != nil {
		return r.malformed("%s: %v", name, err)
	}
	return nil
}

func (r *Reader) malformed(format string, args ...any) error {
	return refusal.New("evidence_malformed", "line %d of the export: %s", r.number, fmt.Sprintf(format, args...))
}

func (r *Reader) share() error {
	if r.next.name == lineRoots {
		return r.roots()
	}
	var text string
	if err := r.parse(r.next.name, &text); err != nil {
		return err
	}
	if len(r.archive) == 0 {
		return r.malformed("a %.40q comes before the first roots", r.next.name)
	}
	t := r.archive[len(r.archive)-1]
	switch r.next.name {
	case lineCertificate:
		t.Bundle.Certificates = append(t.Bundle.Certificates, text)
	case lineEarlierCertificate:
		t.History.Certificates = append(t.History.Certificates, text)
	case lineRevocations:
		if t.Bundle.Revocations != "" {
			return r.malformed("the roots have two revocation lists")
		}
		t.Bundle.Revocations = text
	case lineEarlierRevocations:
		t.History.Revocations = append(t.History.Revocations, text)
	case lineManifest:
		if err := t.addManifest(text); err != nil {
			return r.malformed("the manifest cannot be read: %v", err)
		}
	default:
		return r.malformed("%.40q does not belong in an export", r.next.name)
	}
	return nil
}

func (r *Reader) roots() error {
	var files roots
	if err := r.parse(lineRoots, &files); err != nil {
		return err
	}
	if len(r.archive) == maxTrusts {
		return r.malformed("it has more than %d pairs of roots", maxTrusts)
	}
	pair, err := files.parse()
	if err != nil {
		return r.malformed("the roots cannot be read: %v", err)
	}
	t, err := newTrust(pair, evidence.Bundle{}, evidence.History{})
	if err != nil {
		return r.malformed("the roots cannot be read: %v", err)
	}
	t.files = files
	r.archive = append(r.archive, t)
	return nil
}

func (r *Reader) checkShared() error {
	if len(r.archive) == 0 {
		return r.malformed("the export has no roots")
	}
	for _, t := range r.archive {
		if len(t.manifests) == 1 {
			for hash := range t.manifests {
				t.today = hash
			}
		}
	}
	return nil
}

// Archive returns the trusts in the export. Its roots are the file's own, and not pinned.
func (r *Reader) Archive() Archive { return r.archive }

// Records yields the records. An error comes last; without one the export is whole.
func (r *Reader) Records() iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for n := 0; ; n++ {
			record, err := r.record(n)
			if err == io.EOF || !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// Proofs returns the proofs of the last record.
func (r *Reader) Proofs(context.Context, string) (Proofs, error) { return r.proofs, nil }

// Receipts returns the next interaction receipts of a session, in the order of the file and each once.
func (r *Reader) Receipts(_ context.Context, session string, _ int64, limit int) (tokens []string, err error) {
	kept := r.held[session]
	tokens = slices.Clone(kept[:min(limit, len(kept))])
	for _, token := range tokens {
		r.bytes -= cost(token)
	}
	if r.held[session] = kept[len(tokens):]; len(r.held[session]) == 0 {
		delete(r.held, session)
		if len(tokens) > 0 {
			r.bytes -= cost(session)
		}
	}
	for len(tokens) < limit && session == r.session && r.next.name == lineReceipt && r.failed == nil {
		var token string
		if token, r.failed = r.receipt(); r.failed == nil {
			tokens = append(tokens, token)
		}
	}
	return tokens, r.failed
}

// Unasked counts the receipts that were never asked for. In a proper export a record rests on each receipt.
func (r *Reader) Unasked() (n int) {
	for _, tokens := range r.held {
		n += len(tokens)
	}
	return n
}

// readProofs reads the proofs after a record, and the line after them.
func (r *Reader) readProofs() error {
	r.proofs = Proofs{}
	err := r.read()
	for _, p := range []struct {
		name string
		to   *string
	}{{lineIntentProof, &r.proofs.Intent}, {lineOutcomeProof, &r.proofs.Outcome}} {
		if err != nil || r.next.name != p.name {
			continue
		}
		if err := r.parse(p.name, p.to); err != nil {
			return err
		}
		if _, err := translog.ParseProof([]byte(*p.to)); err != nil {
			return r.malformed("%s: %v", p.name, err)
		}
		err = r.read()
	}
	return err
}

func (r *Reader) receipt() (token string, err error) {
	if err := r.parse(lineReceipt, &token); err != nil {
		return "", err
	}
	return token, r.read()
}

// skip holds the receipts of the last record that were not asked for.
func (r *Reader) skip() error {
	for r.next.name == lineReceipt && r.failed == nil {
		var token string
		if token, r.failed = r.receipt(); r.failed != nil {
			break
		}
		if r.drop {
			continue
		}
		if len(r.held[r.session]) == 0 {
			if err := r.hold(r.session); err != nil {
				return err
			}
		}
		if err := r.hold(token); err != nil {
			return err
		}
		r.held[r.session] = append(r.held[r.session], token)
	}
	return r.failed
}

func (r *Reader) hold(text string) error {
	if r.bytes += cost(text); r.bytes > r.most {
		return r.malformed("more than %d bytes of receipts belong to records that are not verified", r.most)
	}
	return nil
}

// record reads the line as a record, and the next line, or as the end after n records, which is io.EOF.
func (r *Reader) record(n int) (record ledger.Record, err error) {
	if n == 0 && r.next.name == lineReceipt {
		return record, r.malformed("a receipt comes before the first record")
	}
	if err := r.skip(); err != nil {
		return record, err
	}
	if r.next.name != lineEnd {
		if err := checkRecords(n+1, r.records); err != nil {
			return record, err
		}
		if err := r.parse(lineRecord, &record); err != nil {
			return record, err
		}
		if len(record.Artifacts) == 0 {
			return record, r.malformed("the record has no artifacts")
		}
		if err := checkArtifacts(record, fmt.Sprintf("line %d of the export", r.number)); err != nil {
			return record, err
		}
		r.session = record.Session
		return record, r.readProofs()
	}
	var e ending
	if err := r.parse(lineEnd, &e); err != nil {
		return record, err
	}
	if e.Records != n {
		return record, r.malformed("the export has %d records, but its end counts %d", n, e.Records)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return record, r.malformed("something comes after the end")
	}
	return record, io.EOF
}
