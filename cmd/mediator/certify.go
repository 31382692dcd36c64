package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

// registryFlags say who signs for the key registry, and where.
type registryFlags struct {
	keyFile, issuer, audience, bundle string
	lifetime                          time.Duration
}

func (r *registryFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.keyFile, "registry-key", "", "the registry's private JWK (required)")
	f.StringVar(&r.issuer, "issuer", "key-registry", "iss of what is signed")
	f.StringVar(&r.audience, "audience", "", "aud of what is signed: the APIs that verify (required)")
	f.StringVar(&r.bundle, "bundle", "trust.json", "the trust bundle to write")
	f.DurationVar(&r.lifetime, "lifetime", 90*24*time.Hour, "how long what is signed is good for")
	required(c, "registry-key")
	required(c, "audience")
}

// registry is the key registry at work on a bundle whose earlier content it has verified to be its own.
type registry struct {
	key    rootKey
	o      signer.Options
	bundle evidence.Bundle
	trust  *evidence.Trust
}

// open reads the registry's key and its earlier work. A bundle with certificates of another registry is refused: to sign them, or to
// leave some of them out, would be to answer for what nobody has checked.
func (r *registryFlags) open() (*registry, error) {
	key, err := readRootKey(r.keyFile)
	if err != nil {
		return nil, err
	}
	b, _, err := readBundle(r.bundle)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	trust, err := evidence.NewTrust([]evidence.Root{key.pinned(evidence.PurposeSignerCertificate)}, b, evidence.SignerPolicy{})
	if err != nil {
		return nil, fmt.Errorf("%s is not all signed by %s; move it away first, and certify every process and the deployment again: %w", r.bundle, r.keyFile, err)
	}
	o := key.options(signer.Options{Issuer: r.issuer, Audience: r.audience, Lifetime: r.lifetime, Now: time.Now})
	return &registry{key: key, o: o, bundle: b, trust: trust}, nil
}

// declared is what the security team declares of the keys that it certifies: nothing observes it.
type declared struct{ accessibleToAgent, accessibleToUsers bool }

// certifyRoles signs a custody certificate for each accepted version of each role's key.
func certifyRoles(ctx context.Context, registry rootKey, o signer.Options, roles []roleDocument, d declared) ([]string, error) {
	issuer, err := signer.New(evidence.SignerCertificateKind, registry, registry.options(o))
	if err != nil {
		return nil, err
	}
	var tokens []string
	for _, r := range roles {
		for _, jwk := range r.Keys {
			raw, err := jwk.MarshalJSON()
			if err != nil {
				return nil, err
			}
			kid, public, err := evidence.ParseJWK(raw)
			if err != nil {
				return nil, err
			}
			token, _, err := issuer.Sign(ctx, evidence.SignerCertificate{
				AccessibleToAgent: d.accessibleToAgent, AccessibleToUsers: d.accessibleToUsers, KeyCustody: r.KeyCustody, KeyExportable: r.KeyExportable,
				Observed: r.Observed, Purposes: []string{r.Purpose}, SubjectIssuer: r.Issuer, SubjectKeyID: kid,
				SubjectPublicKey: evidence.EncodePublicKey(public), SubjectPublicKeyHash: evidence.HashBytes(public),
			})
			if err != nil {
				return nil, fmt.Errorf("certify key %s: %w", kid, err)
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// keep returns those of the bundle's certificates that still count beside new ones for the keys of roles: of other keys, and not
// expired. What a process no longer publishes of a key of its own is a retired version.
func (r *registry) keep(roles []roleDocument) ([]string, error) {
	asked := make(map[string]bool)
	for _, role := range roles {
		for _, k := range role.Keys {
			asked[evidence.KeyName(k.KeyID)] = true
		}
	}
	var kept []string
	for _, token := range r.bundle.Certificates {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token) // open has verified all of them
		if err != nil {
			return nil, err
		}
		if !asked[evidence.KeyName(c.SubjectKeyID)] && r.o.Now().Before(time.Unix(c.Expires, 0)) {
			kept = append(kept, token)
		}
	}
	return kept, nil
}

func keysCertifyCommand() *cobra.Command {
	var from []string
	var r registryFlags
	var notAgent, notUsers bool
	c := &cobra.Command{
		Use: "certify --registry-key FILE --from unix:PATH --bundle FILE", Short: "Certify the keys of running processes into the trust bundle", Args: noArgs,
		Long: `Asks each process for its roles and public keys, and signs a custody certificate for each key version. What it says of a key's
custody is what the process says of it; who can reach the key is what you declare: without --not-accessible-to-agent and
--not-accessible-to-users the certificate says that they can, and strict policy refuses such a key.
Certificates of other processes' keys stay in the bundle until they expire; of the keys of the processes that are asked, nothing stays
but what is signed now, so a version that is no longer published is retired. A revocation list in the bundle is signed anew.`,
		RunE: func(c *cobra.Command, _ []string) error {
			desk, err := r.open()
			if err != nil {
				return err
			}
			roles, err := readRoles(c.Context(), from)
			if err != nil {
				return err
			}
			tokens, err := certifyRoles(c.Context(), desk.key, desk.o, roles, declared{!notAgent, !notUsers})
			if err != nil {
				return err
			}
			kept, err := desk.keep(roles)
			if err != nil {
				return err
			}
			list := desk.bundle.Revocations
			if list != "" {
				if list, _, err = desk.revoke(c.Context(), nil); err != nil {
					return err
				}
			}
			if err := updateBundle(r.bundle, func(b *evidence.Bundle) { b.Certificates, b.Revocations = append(tokens, kept...), list }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "certified %d keys into %s; %d certificates stay, %d are left out\n",
				len(tokens), r.bundle, len(kept), len(desk.bundle.Certificates)-len(kept))
			return err
		},
	}
	fromFlag(c, &from)
	r.add(c)
	c.Flags().BoolVar(&notAgent, "not-accessible-to-agent", false, "declare that the agent cannot reach the keys")
	c.Flags().BoolVar(&notUsers, "not-accessible-to-users", false, "declare that users cannot reach the keys")
	return c
}

// updateBundle changes one part of the trust bundle and leaves the others.
func updateBundle(path string, change func(*evidence.Bundle)) error {
	b, _, err := readBundle(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	change(&b)
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(raw, '\n'), 0o644)
}
