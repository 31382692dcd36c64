package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

func evidenceCommand() *cobra.Command {
	var asJSON bool
	show := &cobra.Command{
		Use: "show FILE", Short: "Draw the chain of evidence of one record (posts show --json), with nothing verified", Args: exactArgs(1, "one file, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := readRecord(c, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), shownChain{Artifacts: showArtifacts(p.Artifacts)})
			}
			out := plainWriter{c.OutOrStdout()}
			chainTree(p.Artifacts).draw(out)
			fmt.Fprint(out, whatItProves)
			return nil
		},
	}
	jsonFlag(show, &asJSON)
	return group("evidence", "Chains of evidence", show, evidenceVerify())
}

// shownChain is a chain of evidence that has not been verified.
type shownChain struct {
	Artifacts              []shownArtifact `json:"artifacts"`
	NonHumanIdentityProven bool            `json:"nonHumanIdentityProven"` // never
}

// shownArtifact is the content of an artifact. It has no header, or no claims, if these are not JSON.
type shownArtifact struct {
	Name   string          `json:"name"`
	Header json.RawMessage `json:"header,omitempty"`
	Claims json.RawMessage `json:"claims,omitempty"`
}

func showArtifacts(artifacts []ledger.Artifact) []shownArtifact {
	out := make([]shownArtifact, len(artifacts))
	for i, a := range artifacts {
		header, rest, _ := strings.Cut(a.Token, ".")
		claims, _, _ := strings.Cut(rest, ".")
		out[i] = shownArtifact{a.Name, readPart(header), readPart(claims)}
	}
	return out
}

func readPart(text string) json.RawMessage {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !json.Valid(raw) {
		return nil
	}
	return raw
}

// whatItProves is printed after every chain that is shown.
const whatItProves = `
Nothing of it is verified here. A chain that mediator evidence verify accepts shows that the certified keys of the roles above signed what
they saw or were told of one call, and that the source verifier says to have verified the trigger behind it. Whether fresh work was done
for exactly this content only the gate that issued the challenge can tell.
It does not show that no human was involved anywhere: what is only declared is only as true as whoever declared it.
nonHumanIdentityProven: false
`

func readRecord(c *cobra.Command, path string) (ledger.Record, error) {
	var p struct {
		ledger.Record
		Assurance json.RawMessage `json:"assurance"` // not read: the command assesses the record itself
	}
	raw, err := readInput(c, path)
	if err != nil {
		return p.Record, err
	}
	if err := evidence.ParseStrict(raw, &p); err != nil {
		return p.Record, fmt.Errorf("%s is not a record, as mediator posts show --json prints it: %w", path, err)
	}
	if len(p.Artifacts) == 0 {
		return p.Record, fmt.Errorf("%s: the record has no artifacts", path)
	}
	for i, a := range p.Artifacts {
		switch {
		case !slices.Contains(artifactNames, a.Name):
			return p.Record, fmt.Errorf("%s: artifacts[%d].name is %.40q, which is no artifact", path, i, a.Name)
		case slices.ContainsFunc(p.Artifacts[:i], func(b ledger.Artifact) bool { return b.Name == a.Name }):
			return p.Record, fmt.Errorf("%s: artifacts[%d].name is %q, which is there twice", path, i, a.Name)
		}
	}
	return p.Record, nil
}

// artifactNames are the names of the artifacts that a record can hold.
var artifactNames = []string{
	"challenge", "originProof", "triggerReceipt", "policyDecision", "grant", "runtimeAttestation", "sessionReceipt", "deploymentCertificate",
	"capability", "requestProof",
}

func evidenceVerify() *cobra.Command {
	var trust config.Trust
	var manifest string
	var asJSON bool
	c := &cobra.Command{
		Use: "verify FILE --manifest FILE", Short: "Verify the chain of evidence of one record with public keys alone", Args: exactArgs(1, "one file, or - for standard input"),
		Long: `Verifies each signed artifact of a record (posts show --json) against the pinned root keys, the trust bundle and the manifest, and all of
them against each other and the record's call, as of the moment when the last of them was signed. Challenge tokens and capabilities are
secrets of the gate that issued them and are not judged.`,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := readRecord(c, args[0])
			if err != nil {
				return err
			}
			_, strict, err := config.ReadAuditedManifest(manifest)
			if err != nil {
				return err
			}
			v, _, err := config.OfflineVerifier(trust, strict, func() time.Time { return lastSigned(p) })
			if err != nil {
				return err
			}
			return verifyRecord(c, v, strict, p, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	trustFlags(c, &trust)
	c.Flags().StringVar(&manifest, "manifest", "manifest.yaml", "the strict deployment manifest")
	return c
}

// lastSigned returns when the last artifact of a record was signed. This is the request proof, or the last artifact of
// a post that did not get as far.
func lastSigned(p ledger.Record) time.Time {
	for _, a := range p.Artifacts {
		if c, err := evidence.UnverifiedClaims(evidence.RequestProofKind, a.Token); err == nil {
			return time.Unix(c.IssuedAt, 0)
		}
	}
	return p.Started
}

// verifiedRecord is the result of verifying a record.
type verifiedRecord struct {
	Checks                 []ledger.Check `json:"checks"`
	Whole                  bool           `json:"whole"`                  // every artifact of the chain is there and valid
	NonHumanIdentityProven bool           `json:"nonHumanIdentityProven"` // never
}

// verifyRecord prints a line for each check of the chain, and what the checks prove together.
func verifyRecord(c *cobra.Command, v *evidence.Verifier, s *policy.Strict, p ledger.Record, asJSON bool) error {
	out := plainWriter{c.OutOrStdout()}
	checks, whole := gate.VerifyRecord(c.Context(), v, s, p)
	if asJSON {
		if err := printJSON(c.OutOrStdout(), verifiedRecord{Checks: checks, Whole: whole}); err != nil || whole {
			return err
		}
		return errRefused
	}
	for _, k := range checks {
		line := "ok"
		if !k.OK {
			line = "REFUSED " + k.Code + ": " + k.Detail
		}
		fmt.Fprintf(out, "%-34s %s\n", k.Name, line)
	}
	if !whole {
		fmt.Fprint(out, "\nThis record does not show the chain of a post.\n")
		return errRefused
	}
	fmt.Fprint(out, whatVerifies)
	return nil
}

// whatVerifies is printed after every record that verifies.
const whatVerifies = `
The artifacts are of certified keys and about one call. That the challenge was solved, that the capability was good, and that everything
was used once is what the record says; only the gate that issued them can tell. Its host, its outcome and its times are its word alone.
No chain shows that no human was involved anywhere.
nonHumanIdentityProven: false
`
