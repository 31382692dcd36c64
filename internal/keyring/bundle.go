package keyring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/policy"
)

// Edit is one change of the trust bundle. Its methods read the bundle as it was before the change.
type Edit struct {
	*Registry
	b           *evidence.Bundle
	trust       *evidence.Trust               // the verified bundle before the change
	certified   map[string]evidence.Certified // of trust, by kid
	before      []string                      // the certificates before the change
	revocations []string                      // lists for the history
	stopped     error                         // why not everything was signed
	disputed    []string                      // versions that not all processes with their keys publish
	done        Edited
}

// Edited is the result of an [Edit].
type Edited struct {
	Certified int     `json:"certified"` // new certificates
	Kept      int     `json:"stay"`      // certificates that stay in the bundle
	Dropped   int     `json:"leftOut"`   // certificates that left the bundle for the history
	Left      int     `json:"notSigned"` // certificates that are not signed, because a signature failed
	Waiting   int     `json:"waiting"`   // versions that wait for earlier versions of their keys to leave the bundle
	Disputed  int     `json:"disputed"`  // versions that not all processes with their keys publish
	Full      float64 `json:"full"`      // see [evidence.Bundle.Full]
}

// Edit lets do change the bundle, and moves certificates that leave it to the history. It refuses a bundle of another
// registry, because the writer of a bundle vouches for its content. If a signature fails, or ctx ends, earlier
// signatures stay, and the error says why.
func (r *Registry) Edit(ctx context.Context, do func(*Edit) error) (Edited, error) {
	var e *Edit
	err := UpdateBundle(r.Bundle, func(b *evidence.Bundle) error {
		was := *b
		trust, err := r.trust(was)
		if err != nil {
			return fmt.Errorf(
				"not all of %s is signed by %s; move it away first (%s), and certify every process and the "+
					"deployment again: %w", r.Bundle, r.Key.KeyID(), whereTo, err)
		}
		e = &Edit{Registry: r, b: b, trust: trust, certified: make(map[string]evidence.Certified),
			before: b.Certificates}
		for _, c := range trust.Certified() {
			e.certified[c.Certificate.SubjectKeyID] = c
		}
		if err := do(e); err != nil {
			return err
		}
		e.fit()
		if err := e.remember(ctx); err != nil || reflect.DeepEqual(*b, was) {
			return err
		}
		_, err = r.trust(*b)
		return notWritten(r.Bundle, err)
	})
	if err != nil {
		return Edited{}, err
	}
	for _, token := range e.b.Certificates {
		if slices.Contains(e.before, token) {
			e.done.Kept++
		} else {
			e.done.Certified++
		}
	}
	e.done.Dropped, e.done.Full, e.done.Disputed = len(e.before)-e.done.Kept, e.b.Full(), len(e.disputed)
	return e.done, errors.Join(e.stopped, e.disagreement())
}

func notWritten(path string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s stays as it was, because no process would read the new one: %w", path, err)
	}
	return err
}

// whereTo says where a bundle that is moved away still verifies old records.
const whereTo = "into a folder below earlier, beside copies of its history and of the public files of both roots"

func (r *Registry) roots() []evidence.Root {
	return []evidence.Root{r.Key.Pinned(evidence.PurposeSignerCertificate)}
}

func (r *Registry) trust(b evidence.Bundle) (*evidence.Trust, error) {
	return evidence.NewTrust(r.roots(), b, evidence.SignerPolicy{})
}

// UpdateBundle changes the trust bundle under a lock, so that no process undoes the change of another. It can read a
// bundle over the bounds of verifiers, but writes none.
func UpdateBundle(path string, change func(*evidence.Bundle) error) error {
	held, err := files.WaitLock(path)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer held.Close()
	b, before, err := archive.ReadAnyBundle(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := change(&b); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(b, "", "  ")
	if raw = append(raw, '\n'); err != nil || bytes.Equal(raw, before) {
		return err
	}
	if _, err := evidence.ParseBundle(raw); err != nil {
		return notWritten(path, err)
	}
	return files.Replace(path, raw, 0o644)
}

// PutDeployment puts a deployment certificate into the trust bundle, and its manifest into the history: the manifest is
// needed to verify old records.
func PutDeployment(bundle, certificate string, m *policy.Manifest) error {
	return UpdateBundle(bundle, func(b *evidence.Bundle) error {
		b.DeploymentCertificate = certificate
		text, err := m.Canonical()
		if err != nil {
			return err
		}
		return appendHistory(bundle, b, evidence.History{Manifests: []string{text}}, nil)
	})
}

// fit moves the oldest versions of each key to the history if a bundle has more certificates than verifiers read.
func (e *Edit) fit() {
	if len(e.b.Certificates) <= evidence.MaxCertificates {
		return
	}
	versions := make(map[string][]int) // by key name
	for _, token := range e.b.Certificates {
		kid := subject(token)
		versions[evidence.KeyName(kid)] = append(versions[evidence.KeyName(kid)], evidence.KeyVersion(kid))
	}
	oldest := make(map[string]int)
	for name, of := range versions {
		slices.Sort(of)
		of = slices.Compact(of)
		oldest[name] = of[max(0, len(of)-shareOf(len(versions)))]
	}
	seen := make(map[string]bool)
	var stay []string
	for _, token := range slices.Backward(e.b.Certificates) { // of two certificates of one version the last one counts
		kid := subject(token)
		if !seen[kid] && evidence.KeyVersion(kid) >= oldest[evidence.KeyName(kid)] {
			stay = append(stay, token)
		}
		seen[kid] = true
	}
	slices.Reverse(stay)
	e.b.Certificates = stay
}

// remember adds to the history the certificates that left the bundle, and the lists of new revocations.
//
// It signs the certificate of a retired version again with its retirement as its end, and the same id. Otherwise a
// thief of the key could make records until the certificate's own end. If that signature fails, the certificate stays
// in the bundle until the next change.
func (e *Edit) remember(ctx context.Context) error {
	certified, stays := make(map[string]bool), make(map[string]bool)
	for _, token := range e.b.Certificates {
		certified[subject(token)], stays[token] = true, true
	}
	gone := evidence.History{Certificates: []string{}, Revocations: e.revocations}
	for _, token := range e.before {
		ended := token
		if stays[token] {
			continue
		}
		if !certified[subject(token)] {
			var err error
			if ended, err = e.end(ctx, token); err != nil {
				e.b.Certificates = append(e.b.Certificates, token)
				e.done.Left, e.stopped = e.done.Left+1, errors.Join(e.stopped, err)
				continue
			}
		}
		gone.Certificates = append(gone.Certificates, ended)
	}
	return appendHistory(e.Bundle, e.b, gone, func(h evidence.History) error {
		// The bundle has no list after an interrupted first revocation.
		list := append(slices.Clone(h.Revocations), e.b.Revocations)[0]
		past, err := evidence.NewPastTrust(e.roots(), evidence.Bundle{Revocations: list}, h, evidence.SignerPolicy{})
		if err == nil {
			err = past.VerifyAll(nil)
		}
		if err != nil {
			return fmt.Errorf("not all of the last history of %s is signed by %s; move it away first: %w", e.Bundle,
				e.Key.KeyID(),
				err)
		}
		return nil
	})
}

func (e *Edit) end(ctx context.Context, token string) (string, error) {
	c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
	now := max(e.Options.Now().Unix(), c.IssuedAt+1)
	if err != nil || c.Expires <= now {
		return token, err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	c.Expires = now
	key, err := e.Key.Current(ctx)
	if err != nil {
		return "", err
	}
	ended, err := evidence.Sign(ctx, key, evidence.SignerCertificateKind(), c)
	if err == nil && e.Options.Second != nil {
		ended, err = evidence.Countersign(ctx, e.Options.Second, evidence.SignerCertificateKind(), ended)
	}
	return ended, err
}

func claimsOf(token string) evidence.SignerCertificate {
	c, _ := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
	return c
}

func subject(token string) string { return claimsOf(token).SubjectKeyID }

// segmentBytes bounds a segment of the history. Readers accept far more.
const segmentBytes = 256 << 10

// appendHistory adds to the last segment of the history, or to a new one if that is full, and puts the new end into b.
// verify, unless nil, may refuse the last segment. A text that is already the last one is not added again: it comes
// from an interrupted change.
func appendHistory(bundle string, b *evidence.Bundle, add evidence.History, verify func(evidence.History) error) error {
	if add.Texts() == 0 {
		return nil
	}
	numbers, err := archive.HistorySegments(bundle)
	if err != nil {
		return err
	}
	var end evidence.HistoryEnd
	if b.History != nil {
		end = *b.History
	}
	// A key can be revoked even if files of the history were lost. Verifiers of records notice the loss by the gap or
	// by the number of texts.
	s := segment{number: end.Segment + 1, bundle: bundle}
	if last := len(numbers) - 1; last >= 0 && numbers[last] >= end.Segment {
		s.number = numbers[last]
		if s.h, err = archive.ReadSegment(s.path()); err != nil {
			return err
		}
		if s.number == end.Segment {
			s.lost = max(0, end.Texts-s.h.Texts())
		}
		if verify != nil {
			if err := verify(s.h); err != nil {
				return err
			}
		}
	}
	for _, kind := range []struct {
		texts []string
		to    *[]string
	}{
		{add.Revocations, &s.h.Revocations}, {add.Manifests, &s.h.Manifests}, {add.Certificates, &s.h.Certificates},
	} {
		for _, text := range kind.texts {
			if err := s.begin(len(text)); err != nil {
				return err
			}
			if n := len(*kind.to); n == 0 || (*kind.to)[n-1] != text {
				*kind.to = append(*kind.to, text)
			}
		}
	}
	b.History = &evidence.HistoryEnd{Segment: s.number, Texts: s.h.Texts() + s.lost}
	return s.write()
}

type segment struct {
	h      evidence.History
	number int
	bundle string
	size   int // bytes; zero until it is known
	lost   int // texts that the bundle knows of and the file lacks
}

func (s *segment) path() string { return archive.SegmentFile(s.bundle, s.number) }

// begin starts the next segment if a text does not fit into this one.
func (s *segment) begin(text int) error {
	if s.size == 0 {
		for _, t := range slices.Concat(s.h.Certificates, s.h.Revocations, s.h.Manifests) {
			s.size += len(t)
		}
	}
	if s.size > 0 && s.size+text > segmentBytes {
		if err := s.write(); err != nil {
			return err
		}
		s.h, s.number, s.size, s.lost = evidence.History{}, s.number+1, 0, 0
	}
	s.size += text
	return nil
}

func (s *segment) write() error {
	if s.h.Certificates == nil {
		s.h.Certificates = []string{}
	}
	raw, err := json.MarshalIndent(s.h, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if _, err := evidence.ParseHistory(raw); err != nil {
		return notWritten(s.path(), err)
	}
	return files.Replace(s.path(), raw, 0o644)
}
