package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// writeNew writes a file that must not exist yet.
func writeNew(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; move it away first", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(content, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// replaceFile writes a file so that a reader sees the old or the new content, never a part.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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

// readRoles asks processes for the roles whose keys they hold.
func readRoles(ctx context.Context, endpoints []string) ([]roleDocument, error) {
	var all []roleDocument
	for _, at := range endpoints {
		var roles []roleDocument
		if err := getJSON(ctx, at, "/v1/roles", &roles); err != nil {
			return nil, err
		}
		all = append(all, roles...)
	}
	return all, nil
}

func keysCommand() *cobra.Command {
	return group("keys", "Signing keys: list, certify, publish", keysListCommand(), keysJWKSCommand(), keysRootCommand(), keysCertifyCommand())
}

func fromFlag(c *cobra.Command, from *[]string) {
	c.Flags().StringArrayVar(from, "from", nil, "internal endpoint of a process that holds keys, unix:PATH; once for each process (required)")
	required(c, "from")
}

func keysListCommand() *cobra.Command {
	var from []string
	var asJSON bool
	c := &cobra.Command{
		Use: "list --from unix:PATH", Short: "List the roles and keys of running processes", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			roles, err := readRoles(c.Context(), from)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), roles)
			}
			for _, r := range roles {
				for _, k := range r.Keys {
					fmt.Fprintf(c.OutOrStdout(), "%-24s %-32s %s, custody %s, exportable %t\n", r.Purpose, k.KeyID, r.Issuer, r.KeyCustody, r.KeyExportable)
				}
			}
			return nil
		},
	}
	fromFlag(c, &from)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func keysJWKSCommand() *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use: "jwks --from unix:PATH", Short: "Print the public keys as a JWKS, for verifiers", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			roles, err := readRoles(c.Context(), from)
			if err != nil {
				return err
			}
			var set jose.JSONWebKeySet
			for _, r := range roles {
				set.Keys = append(set.Keys, r.Keys...)
			}
			return printJSON(c.OutOrStdout(), set)
		},
	}
	fromFlag(c, &from)
	return c
}

func keysRootCommand() *cobra.Command {
	var name, out string
	var postQuantum bool
	c := &cobra.Command{
		Use: "root --name NAME --out DIR", Short: "Make a root key of the security team: the registry's or the auditor's", Args: noArgs,
		Long: `Makes an Ed25519 key for the key registry or the deployment auditor: DIR/NAME.key.jwk (private, mode 0600, to be kept away from
where agents run) and DIR/NAME.jwk (public, which every process and every API pins). With --post-quantum both files hold an
ML-DSA-65 key too: the root then signs twice, and whoever pins the public file demands both signatures.`,
		RunE: func(c *cobra.Command, _ []string) error {
			key, secret, err := generateRoot(name, postQuantum)
			if err != nil {
				return err
			}
			public, err := key.jwk()
			if err != nil {
				return err
			}
			if err := writeNew(filepath.Join(out, name+".key.jwk"), secret, 0o600); err != nil {
				return err
			}
			if err := writeNew(filepath.Join(out, name+".jwk"), public, 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "made %s in %s; keep %s.key.jwk offline and pin %s.jwk\n", key.version.KeyID(), out, name, name)
			return err
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the key, such as registry or auditor (required)")
	c.Flags().StringVar(&out, "out", ".", "folder for the two files")
	c.Flags().BoolVar(&postQuantum, "post-quantum", false, "make an ML-DSA-65 key beside the Ed25519 key, for a second signature")
	required(c, "name")
	return c
}

func keysCertifyCommand() *cobra.Command {
	var from []string
	var keyFile, issuer, audience, bundleFile string
	var lifetime time.Duration
	var notAgent, notUsers bool
	c := &cobra.Command{
		Use: "certify --registry-key FILE --from unix:PATH --bundle FILE", Short: "Certify the keys of running processes into the trust bundle", Args: noArgs,
		Long: `Asks each process for its roles and public keys, and signs a custody certificate for each key version. What it says of a key's
custody is what the process says of it; who can reach the key is what you declare: without --not-accessible-to-agent and
--not-accessible-to-users the certificate says that they can, and strict policy refuses such a key.`,
		RunE: func(c *cobra.Command, _ []string) error {
			registry, err := readRootKey(keyFile)
			if err != nil {
				return err
			}
			roles, err := readRoles(c.Context(), from)
			if err != nil {
				return err
			}
			tokens, err := certifyRoles(c.Context(), registry, signer.Options{Issuer: issuer, Audience: audience, Lifetime: lifetime, Now: time.Now}, roles, declared{!notAgent, !notUsers})
			if err != nil {
				return err
			}
			if err := updateBundle(bundleFile, func(b *bundle) { b.Certificates = tokens }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "certified %d keys into %s\n", len(tokens), bundleFile)
			return err
		},
	}
	fromFlag(c, &from)
	f := c.Flags()
	f.StringVar(&keyFile, "registry-key", "", "the registry's private JWK (required)")
	f.StringVar(&issuer, "issuer", "key-registry", "iss of the certificates")
	f.StringVar(&audience, "audience", "", "aud of the certificates: the APIs that verify (required)")
	f.StringVar(&bundleFile, "bundle", "trust.json", "the trust bundle to write")
	f.DurationVar(&lifetime, "lifetime", 90*24*time.Hour, "how long the certificates are good for")
	f.BoolVar(&notAgent, "not-accessible-to-agent", false, "declare that the agent cannot reach the keys")
	f.BoolVar(&notUsers, "not-accessible-to-users", false, "declare that users cannot reach the keys")
	required(c, "registry-key")
	required(c, "audience")
	return c
}

// updateBundle changes one part of the trust bundle and leaves the other.
func updateBundle(path string, change func(*bundle)) error {
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

// readManifestFile reads a manifest without judging it.
func readManifestFile(path string) (*policy.Manifest, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m, err := policy.ParseManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", path, err)
	}
	return m, nil
}
