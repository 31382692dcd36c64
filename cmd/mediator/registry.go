package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// registry is the key registry: its root key, how it signs, and the trust bundle that it keeps.
type registry struct {
	key    rootKey
	o      signer.Options
	bundle string // path
}

// desk is the registry at work on its bundle, whose earlier content it has verified to be its own.
type desk struct {
	*registry
	b     *evidence.Bundle
	trust *evidence.Trust
}

// work has do change the bundle. A bundle with certificates of another registry is refused: to sign them, or to leave some of them out,
// would be to answer for what nobody has checked.
func (r *registry) work(do func(*desk) error) error {
	return updateBundle(r.bundle, func(b *evidence.Bundle) error {
		trust, err := evidence.NewTrust([]evidence.Root{r.key.pinned(evidence.PurposeSignerCertificate)}, *b, evidence.SignerPolicy{})
		if err != nil {
			return fmt.Errorf("%s is not all signed by %s; move it away first, and certify every process and the deployment again: %w", r.bundle, r.key.version.KeyID(), err)
		}
		return do(&desk{r, b, trust})
	})
}

// updateBundle changes the trust bundle, one process at a time, so that none undoes what another has done.
func updateBundle(path string, change func(*evidence.Bundle) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	b, before, err := readBundle(path)
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
	return replaceFile(path, raw, 0o644)
}

// publication is what a process says of its keys, and what it has seen.
type publication struct {
	Roles []roleDocument `json:"roles"`
	Looks []observe.Look `json:"looks"`
}

// published is what several processes say.
type published struct {
	publication
	as map[string][]string // of each process, by where it was read from: see signsAs
}

// readPublished asks processes for the roles whose keys they hold, and what they have seen; or reads what mediator keys publish has printed
// of them.
func readPublished(ctx context.Context, from []string) (published, error) {
	p := published{publication{[]roleDocument{}, []observe.Look{}}, make(map[string][]string)}
	for _, at := range from {
		one, err := readPublication(ctx, at)
		if err != nil {
			return published{}, err
		}
		p.Roles, p.Looks, p.as[at] = append(p.Roles, one.Roles...), append(p.Looks, one.Looks...), signsAs(one.Roles)
	}
	return p, nil
}

func readPublication(ctx context.Context, at string) (p publication, err error) {
	if path, ok := publishedFile(at); ok {
		return readPublishedFile(path)
	}
	if p.Roles, err = rolesAt(ctx, at); err != nil {
		return p, err
	}
	err = getJSON(ctx, at, "/v1/looks", &p.Looks)
	return p, err
}

func rolesAt(ctx context.Context, at string) (roles []roleDocument, err error) {
	if path, ok := publishedFile(at); ok {
		p, err := readPublishedFile(path)
		return p.Roles, err
	}
	err = getJSON(ctx, at, "/v1/roles", &roles)
	return roles, err
}

func readPublishedFile(path string) (p publication, err error) {
	raw, err := readFile(path)
	if err != nil {
		return p, err
	}
	if err = evidence.ParseStrict(raw, &p); err == nil && (len(p.Roles) == 0 || p.Looks == nil) {
		err = errors.New("it has no roles, or does not say what was seen")
	}
	if err != nil {
		return p, fmt.Errorf("%s is not what mediator keys publish prints: %w", path, err)
	}
	return p, nil
}

// publishedFile returns the path in file:PATH.
func publishedFile(at string) (string, bool) { return strings.CutPrefix(at, "file:") }

// signsAs lists what a process signs, as whom, and with which keys, whatever their versions.
func signsAs(roles []roleDocument) []string {
	var as []string
	for _, r := range roles {
		for _, k := range r.Keys {
			as = append(as, fmt.Sprintf("%s as %s with %s", r.Purpose, r.Issuer, evidence.KeyName(k.KeyID)))
		}
	}
	slices.Sort(as)
	return slices.Compact(as)
}

// declared is what the security team declares of the keys that it certifies.
type declared struct{ accessibleToAgent, accessibleToUsers bool }

// certify signs a custody certificate for each accepted version of each role's key, in place of those that the bundle has of these keys. A
// revocation list is signed anew with them. It returns how many certificates are new and how many stay.
func (d *desk) certify(ctx context.Context, p published, say declared) (fresh, kept int, err error) {
	if p.Roles, err = d.unretired(p.Roles); err != nil {
		return 0, 0, err
	}
	tokens, err := d.certificates(ctx, p, say)
	if err != nil {
		return 0, 0, err
	}
	others, err := d.keep(p.Roles)
	if err != nil {
		return 0, 0, err
	}
	if d.b.Revocations != "" {
		if d.b.Revocations, _, err = d.revoke(ctx, nil); err != nil {
			return 0, 0, err
		}
	}
	d.b.Certificates = append(tokens, others...)
	return len(tokens), len(others), nil
}

// unretired leaves out the versions that the bundle has later ones of and not them: they were retired, whoever publishes them again, and a
// process that has seen that takes no bundle which certifies one.
func (d *desk) unretired(roles []roleDocument) ([]roleDocument, error) {
	out := slices.Clone(roles)
	for i, r := range out {
		newest := 0
		out[i].Keys = slices.DeleteFunc(slices.Clone(r.Keys), func(k jose.JSONWebKey) (retired bool) {
			newest, retired = d.trust.Retired(k.KeyID)
			return retired
		})
		if len(out[i].Keys) == 0 && newest > 0 {
			return nil, refusal.New("key_retired", "what %s is signed with, %s, was retired: version %d is in force. Rotate the key past that; or, where it is another key of that name, "+
				"move %s away, certify every process and the deployment again, and restart the processes", r.Purpose, r.Keys[len(r.Keys)-1].KeyID, newest, d.bundle)
		}
	}
	return out, nil
}

func (d *desk) certificates(ctx context.Context, p published, say declared) ([]string, error) {
	issuer, err := signer.New(evidence.SignerCertificateKind, d.key, d.key.options(d.o))
	if err != nil {
		return nil, err
	}
	var tokens []string
	for _, r := range p.Roles {
		claims, err := r.claims(p.Looks, say)
		if err != nil {
			return nil, err
		}
		for _, jwk := range r.Keys {
			raw, err := jwk.MarshalJSON()
			if err != nil {
				return nil, err
			}
			kid, public, err := evidence.ParseJWK(raw)
			if err != nil {
				return nil, err
			}
			c := claims
			c.SubjectKeyID, c.SubjectPublicKey, c.SubjectPublicKeyHash = kid, evidence.EncodePublicKey(public), evidence.HashBytes(public)
			token, _, err := issuer.Sign(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("certify key %s: %w", kid, err)
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// claims says of the role's key what its process knows, what was seen of it, and what is declared. What was seen to be false is not
// certified.
func (r roleDocument) claims(looks []observe.Look, say declared) (evidence.SignerCertificate, error) {
	c := evidence.SignerCertificate{
		AccessibleToAgent: say.accessibleToAgent, AccessibleToUsers: say.accessibleToUsers, KeyCustody: r.KeyCustody, KeyExportable: r.KeyExportable,
		Observed: slices.Clone(r.Observed), Purposes: []string{r.Purpose}, SubjectIssuer: r.Issuer,
	}
	if apart, against := policy.Apart(r.Purpose, looks); apart == observe.Contradicts {
		return c, refusal.New("deployment_contradicted", "no key of the role %s is certified for it alone: %s", r.Purpose, against)
	}
	reach, against := policy.OutOfReach(r.Purpose, looks)
	switch {
	case say.accessibleToAgent: // declared worse than it may be
	case reach == observe.Contradicts:
		return c, refusal.New("deployment_contradicted", "the key of the role %s is not certified to be out of the agent's reach: %s", r.Purpose, against)
	case reach == observe.Holds:
		c.Observed = append(c.Observed, "accessibleToAgent")
		slices.Sort(c.Observed)
	}
	return c, nil
}

// keep returns those of the bundle's certificates that still count beside new ones for the keys of roles: of other keys, and not
// expired. What a process no longer publishes of a key of its own is a retired version.
func (d *desk) keep(roles []roleDocument) ([]string, error) {
	asked := keyNames(roles)
	var kept []string
	for _, token := range d.b.Certificates {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token) // work has verified all of them
		if err != nil {
			return nil, err
		}
		if !asked[evidence.KeyName(c.SubjectKeyID)] && d.o.Now().Before(time.Unix(c.Expires, 0)) {
			kept = append(kept, token)
		}
	}
	return kept, nil
}

func keyNames(roles []roleDocument) map[string]bool {
	names := make(map[string]bool)
	for _, role := range roles {
		for _, k := range role.Keys {
			names[evidence.KeyName(k.KeyID)] = true
		}
	}
	return names
}

// due tells whether the bundle's certificates of the roles' keys have to be made anew: a version has come or gone, what its process says of
// it has changed, or half of a certificate's lifetime is over.
func (d *desk) due(roles []roleDocument) bool {
	half := d.o.Now().Add(d.o.Lifetime / 2)
	certified := make(map[string]evidence.Certified)
	asked := keyNames(roles)
	for _, c := range d.trust.Certified() {
		if asked[evidence.KeyName(c.Certificate.SubjectKeyID)] {
			certified[c.Certificate.SubjectKeyID] = c
		}
	}
	published := 0
	for _, r := range roles {
		for _, k := range r.Keys {
			published++
			c, ok := certified[k.KeyID]
			cert := c.Certificate
			public, _ := k.Key.(ed25519.PublicKey)
			if !ok || string(public) != string(c.Public) || cert.Purposes[0] != r.Purpose || cert.SubjectIssuer != r.Issuer ||
				cert.KeyCustody != r.KeyCustody || cert.KeyExportable != r.KeyExportable || time.Unix(cert.Expires, 0).Before(half) {
				return true
			}
		}
	}
	return published != len(certified)
}

// registryPoll is how often the registry looks at what a process publishes.
const registryPoll = 250 * time.Millisecond

// watch certifies what each process publishes whenever that is due, until ctx ends: new versions of the keys that somebody has had
// certified for it (as), and no others. Whoever took a process over could otherwise have itself certified for every role. A process that
// does not answer keeps its certificates. What goes wrong is said once.
func (r *registry) watch(ctx context.Context, endpoints []string, as map[string][]string, say declared, log *zap.Logger) {
	said := make(map[string]string)
	for range every.Tick(ctx, registryPoll) {
		for _, at := range endpoints {
			within, cancel := context.WithTimeout(ctx, lookTimeout)
			err := r.follow(within, at, as[at], say, log)
			cancel()
			before, failing := said[at]
			switch {
			case err == nil:
				delete(said, at)
			case ctx.Err() == nil && (!failing || before != codeOf(err)):
				said[at] = codeOf(err)
				log.Error("a process's keys are not certified anew", zap.String("from", at), zap.Error(err))
			}
		}
	}
}

// follow certifies what one process publishes, if that is due.
func (r *registry) follow(ctx context.Context, at string, as []string, say declared, log *zap.Logger) error {
	roles, err := readRoles(ctx, []string{at})
	if err == nil {
		err = sameRoles(at, as, signsAs(roles))
	}
	if err != nil {
		return err
	}
	due := false
	err = r.work(func(d *desk) error {
		left, err := d.unretired(roles)
		due = err == nil && d.due(left)
		return err
	})
	if err != nil || !due {
		return err
	}
	p, err := readPublished(ctx, []string{at})
	if err == nil {
		err = sameRoles(at, as, p.as[at]) // it may say something else each time
	}
	if err != nil {
		return err
	}
	return r.work(func(d *desk) error {
		fresh, _, err := d.certify(ctx, p, say)
		if err == nil {
			log.Info("keys certified", zap.String("from", at), zap.Int("versions", fresh))
		}
		return err
	})
}

// sameRoles refuses a process that publishes other roles, issuers or keys now than those that it was certified for.
func sameRoles(at string, as, now []string) error {
	if !slices.Equal(as, now) {
		return refusal.New("roles_changed", "the process at %s was certified to sign %s, and wants to sign %s: nothing more of it is certified",
			at, strings.Join(as, ", "), strings.Join(now, ", "))
	}
	return nil
}
