package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

const maxPastBundle = 64 << 20

// ReadAnyBundle reads a trust bundle that may exceed the bounds of live verifiers, and also returns the file's bytes.
func ReadAnyBundle(path string) (b evidence.Bundle, raw []byte, err error) {
	if raw, err = files.ReadUpTo(path, maxPastBundle); err != nil {
		return b, nil, fmt.Errorf("trust bundle: %w", err)
	}
	if b, err = evidence.ParseAnyBundle(raw); err != nil {
		return b, nil, fmt.Errorf("trust bundle %s: %w", path, err)
	}
	return b, raw, nil
}

// SegmentFile returns the path of a segment of the history: trust-history.json is number 1, trust-history-2.json
// number 2. Text is only ever added, to the last segment or to a new one.
func SegmentFile(bundle string, number int) string {
	first := deployed.HistoryFile(bundle)
	if number == 1 {
		return first
	}
	ext := filepath.Ext(first)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(first, ext), number, ext)
}

// HistorySegments returns the numbers of the existing segments, in order, also after a missing one.
func HistorySegments(bundle string) ([]int, error) {
	first := filepath.Base(deployed.HistoryFile(bundle))
	ext := filepath.Ext(first)
	entries, err := os.ReadDir(filepath.Dir(bundle))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var numbers []int
	for _, e := range entries {
		number, found := strings.CutPrefix(e.Name(), strings.TrimSuffix(first, ext)+"-")
		n, bad := strconv.Atoi(strings.TrimSuffix(number, ext))
		switch {
		case e.Name() == first:
			numbers = append(numbers, 1)
		case found && bad == nil && n > 1 && e.Name() == filepath.Base(SegmentFile(bundle, n)):
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// HistoryFiles returns the paths of the existing segments, in order.
func HistoryFiles(bundle string) ([]string, error) {
	numbers, err := HistorySegments(bundle)
	paths := make([]string, len(numbers))
	for i, n := range numbers {
		paths[i] = SegmentFile(bundle, n)
	}
	return paths, err
}

// ReadSegment reads one segment.
func ReadSegment(path string) (evidence.History, error) {
	raw, err := files.Read(path)
	if err != nil {
		return evidence.History{}, fmt.Errorf("history of the trust bundle: %w", err)
	}
	h, err := evidence.ParseHistory(raw)
	if err != nil {
		return h, fmt.Errorf("history %s: %w", path, err)
	}
	return h, nil
}

// ReadHistory leaves the certificates in the files. It refuses a history that lacks a segment, or ends before the end
// that the bundle names: a revocation could be missing.
func ReadHistory(bundle string, b evidence.Bundle) (h evidence.History, segments []evidence.Segment, err error) {
	paths, err := HistoryFiles(bundle)
	if err != nil {
		return h, nil, err
	}
	var end evidence.HistoryEnd
	if b.History != nil {
		end = *b.History
	}
	if len(paths) < end.Segment {
		return h, nil, refusal.New("trust_malformed",
			"the history lacks the file %s, which belongs to the trust bundle: copy or restore the whole history",
			SegmentFile(bundle, end.Segment))
	}
	for i, path := range paths {
		if want := SegmentFile(bundle, i+1); path != want {
			return h, nil, refusal.New("trust_malformed", "the history lacks the file %s, which precedes %s", want,
				path)
		}
		one, err := ReadSegment(path)
		if err != nil {
			return h, nil, err
		}
		if i+1 == end.Segment && one.Texts() < end.Texts {
			return h, nil, refusal.New("trust_malformed",
				"%s has %d entries, but the trust bundle counts %d: this file is an older copy; restore the newest one",
				path, one.Texts(), end.Texts)
		}
		h.Revocations, h.Manifests = append(h.Revocations, one.Revocations...), append(h.Manifests, one.Manifests...)
		if len(one.Certificates) > 0 {
			segments = append(segments, func() ([]string, error) {
				again, err := ReadSegment(path)
				return again.Certificates, err
			})
		}
	}
	return h, segments, nil
}

func (t *Trust) past() []evidence.Segment {
	return append(slices.Clone(t.segments), evidence.Certificates(t.History.Certificates))
}

// knew reports whether the trust has a manifest, and one of the tokens' keys was certified by a moment, or is revoked.
func (t *Trust) knew(manifest string, moment time.Time, tokens ...string) bool {
	m := t.manifests[manifest]
	if m == nil {
		return false
	}
	past, err := t.believedBy(m)
	return err == nil && slices.ContainsFunc(tokens, func(token string) bool {
		return past.Knew(evidence.KeyIDOf(token), moment)
	})
}

// ofOwner returns the trust of a receipt's registry: of two with one, that which knew the receipt's key by then.
func (a Archive) ofOwner(token string, c interaction.Receipt) (found *Trust, err error) {
	for _, t := range a {
		switch {
		case t.owner() != c.Owner:
		case t.knew(c.PolicyID, time.Unix(c.IssuedAt, 0), token):
			return t, nil
		default:
			found = cmp.Or(found, t)
		}
	}
	if found == nil {
		err = refusal.New("roots_not_pinned", "the receipt names the owner %q, whose key registry is not pinned",
			c.Owner)
	}
	return found, err
}

// Join returns today's trust and the earlier ones. It merges an earlier trust with the same roots into today's: its
// bundle was moved away, and the roots stayed.
func Join(today *Trust, earlier Archive) Archive {
	a := Archive{today}
	for _, e := range earlier {
		if i := slices.IndexFunc(a, func(t *Trust) bool { return sameRoots(t, e) }); i >= 0 {
			a[i].precede(e)
		} else {
			a = append(a, e)
		}
	}
	for i, t := range a { // a registry that stayed when the auditor was replaced may have revoked a key since
		for _, later := range a[:i] {
			if reflect.DeepEqual(later.Roots[0], t.Roots[0]) {
				t.revoke(slices.Concat(later.History.Revocations, []string{later.Bundle.Revocations}))
			}
		}
	}
	return a
}

// revoke adds revocation lists, the newest last.
func (t *Trust) revoke(lists []string) {
	lists = slices.DeleteFunc(lists, func(list string) bool { return list == "" })
	if n := len(lists); n > 0 && t.Bundle.Revocations == "" {
		t.Bundle.Revocations, lists = lists[n-1], lists[:n-1]
	}
	t.History.Revocations = append(slices.Clone(t.History.Revocations), lists...)
	t.forget()
}

// precede adds an earlier trust of the same roots. Of two certificates from one second, t's counts.
func (t *Trust) precede(e *Trust) {
	both := *e
	both.join(t)
	t.segments, t.History, t.Bundle = both.segments, both.History, both.Bundle
	for hash, m := range e.manifests {
		t.manifests[hash] = cmp.Or(t.manifests[hash], m)
	}
	t.forget()
}
