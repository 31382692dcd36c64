package keyring

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/policy"
)

// bundleEdit is a change of the registry's bundle. The earlier content of the bundle has been verified as signed by the
// registry.
type bundleEdit struct {
	*Registry
	b     *evidence.Bundle
	trust *evidence.Trust
	old   string // the revocation list of before
}

// editBundle lets do change the bundle. It refuses a bundle with certificates of another registry: to write the bundle is
// to answer for its content, which this registry has not checked.
func (r *Registry) editBundle(do func(*bundleEdit) error) error {
	return UpdateBundle(r.Bundle, func(b *evidence.Bundle) error {
		trust, err := evidence.NewTrust(r.roots(), *b, evidence.SignerPolicy{})
		if err != nil {
			return fmt.Errorf("%s is not all signed by %s; move it away first, and certify every process and the deployment again: %w", r.Bundle, r.Key.KeyID(), err)
		}
		return do(&bundleEdit{r, b, trust, b.Revocations})
	})
}

func (r *Registry) roots() []evidence.Root {
	return []evidence.Root{r.Key.Pinned(evidence.PurposeSignerCertificate)}
}

// UpdateBundle changes the trust bundle under a lock, so that no process undoes the change of another.
func UpdateBundle(path string, change func(*evidence.Bundle) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	b, before, err := config.ReadBundle(path)
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
	return files.Replace(path, raw, 0o644)
}

// PutDeployment puts a deployment certificate into the trust bundle, and its manifest into the history, so that the posts that are
// judged by it can be verified after the next one. It returns how many of the oldest manifests and certificates the history has lost for
// that.
func PutDeployment(bundle, certificate string, m *policy.Manifest) (forgotten int, err error) {
	err = UpdateBundle(bundle, func(b *evidence.Bundle) (err error) {
		forgotten, err = putDeployment(b, bundle, certificate, m)
		return err
	})
	return forgotten, err
}

// putDeployment is [PutDeployment] for b, the content of the bundle, whose lock its caller has.
func putDeployment(b *evidence.Bundle, bundle, certificate string, m *policy.Manifest) (forgotten int, err error) {
	h, err := config.ReadHistory(bundle)
	if err != nil {
		return 0, err
	}
	text, err := m.Canonical()
	if err == nil && (len(h.Manifests) == 0 || h.Manifests[len(h.Manifests)-1] != text) {
		h.Manifests = append(slices.DeleteFunc(h.Manifests, func(old string) bool { return old == text }), text)
		forgotten, err = writeHistory(bundle, h)
	}
	b.DeploymentCertificate = certificate
	return forgotten, err
}

// rememberCertificates adds to the history the certificates in before that the bundle has no more. It returns how many of the oldest the
// history has lost for that.
//
// The certificate of a version that was retired gets its retirement as its end, and is signed again: who has kept the key could otherwise
// sign on until the end that the certificate had, and make records of that time. Its id stays, by which it may be revoked.
func (e *bundleEdit) rememberCertificates(ctx context.Context, before []string) (forgotten int, err error) {
	certified := make(map[string]bool)
	for _, token := range e.b.Certificates {
		certified[subject(token)] = true
	}
	var gone []string
	for _, token := range before {
		switch {
		case slices.Contains(e.b.Certificates, token):
			continue
		case !certified[subject(token)]:
			if token, err = e.end(ctx, token); err != nil {
				return 0, err
			}
		}
		gone = append(gone, token)
	}
	if len(gone) == 0 {
		return 0, nil
	}
	h, err := e.history()
	if err != nil {
		return 0, err
	}
	for _, token := range gone { // one that is there has come from a change of the bundle that was not completed
		id := idOf(token)
		h.Certificates = slices.DeleteFunc(h.Certificates, func(old string) bool { return idOf(old) == id })
		h.Certificates = append(h.Certificates, token)
	}
	return writeHistory(e.Bundle, h)
}

// rememberRevocations adds the bundle's revocation list to the history.
func (e *bundleEdit) rememberRevocations() error {
	h, err := e.history()
	if err != nil || slices.Contains(h.Revocations, e.old) {
		return err
	}
	h.Revocations = append(h.Revocations, e.old)
	_, err = writeHistory(e.Bundle, h)
	return err
}

// history reads the history beside the bundle. It refuses one that is not all signed by the registry, as editBundle does.
func (e *bundleEdit) history() (evidence.History, error) {
	h, err := config.ReadHistory(e.Bundle)
	if err == nil {
		_, err = evidence.NewPastTrust(e.roots(), evidence.Bundle{Revocations: e.old}, h, evidence.SignerPolicy{})
	}
	if err != nil {
		return h, fmt.Errorf("%s is not all signed by %s; move it away first: %w", config.HistoryFile(e.Bundle), e.Key.KeyID(), err)
	}
	return h, nil
}

// end signs a certificate again, with this moment as its end.
func (e *bundleEdit) end(ctx context.Context, token string) (string, error) {
	c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token)
	now := max(e.Options.Now().Unix(), c.IssuedAt+1)
	if err != nil || c.Expires <= now {
		return token, err
	}
	c.Expires = now
	key, err := e.Key.Current(ctx)
	if err != nil {
		return "", err
	}
	ended, err := evidence.Sign(ctx, key, evidence.SignerCertificateKind, c)
	if err == nil && e.Options.Second != nil {
		ended, err = evidence.Countersign(ctx, e.Options.Second, evidence.SignerCertificateKind, ended)
	}
	return ended, err
}

// claimsOf returns what a certificate says that was verified before.
func claimsOf(token string) evidence.SignerCertificate {
	c, _ := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token)
	return c
}

func subject(token string) string { return claimsOf(token).SubjectKeyID }

func idOf(token string) string { return claimsOf(token).ID }

// writeHistory writes the history beside a bundle. Of a history that is full it leaves out the manifests that were certified first and the
// certificates that ended first, and returns how many.
func writeHistory(bundle string, h evidence.History) (forgotten int, err error) {
	drop := max(0, len(h.Manifests)-evidence.MaxManifests)
	h.Manifests, forgotten = h.Manifests[drop:], drop
	slices.SortStableFunc(h.Certificates, func(x, y string) int { return cmp.Compare(claimsOf(x).Expires, claimsOf(y).Expires) })
	for drop := max(0, len(h.Certificates)-evidence.MaxHistory); ; drop = min(16, len(h.Certificates)) {
		h.Certificates, forgotten = h.Certificates[drop:], forgotten+drop
		raw, err := json.MarshalIndent(h, "", "  ")
		if err != nil {
			return 0, err
		}
		if raw = append(raw, '\n'); len(raw) <= evidence.MaxBundle {
			return forgotten, files.Replace(config.HistoryFile(bundle), raw, 0o644)
		}
		if len(h.Certificates) == 0 {
			return 0, fmt.Errorf("the history of %s would have %d bytes; at most %d are read: move it away, and keep it for the records of its time", bundle, len(raw), evidence.MaxBundle)
		}
	}
}
