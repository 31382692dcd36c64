package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/problem"
)

func evidenceCommand() *cobra.Command {
	show := &cobra.Command{
		Use: "show FILE", Short: "Draw the chain of evidence of one record (posts show --json), with nothing verified", Args: exactArgs(1, "one file, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := readRecord(c, args[0])
			if err != nil {
				return err
			}
			chainTree(p.Artifacts).draw(c.OutOrStdout())
			fmt.Fprint(c.OutOrStdout(), whatItProves)
			return nil
		},
	}
	return group("evidence", "Chains of evidence: show, verify", show, evidenceVerify())
}

// whatItProves is said with every chain that is shown.
const whatItProves = `
If it verifies, this chain shows that fresh work was done for exactly this content, that a trigger which the trigger service
verified itself stands behind it, and that the certified keys of the roles above signed what they saw or were told.
It does not show that no human was involved anywhere: what is only declared is only as true as whoever declared it.
nonHumanIdentityProven: false
`

func readRecord(c *cobra.Command, path string) (ledger.Post, error) {
	var p ledger.Post
	raw, err := readInput(c, path)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p); err != nil || len(p.Artifacts) == 0 {
		return p, fmt.Errorf("%s is not a record with artifacts, as mediator posts show --json prints it", path)
	}
	return p, nil
}

func evidenceVerify() *cobra.Command {
	var registry, auditor, bundleFile, manifest string
	c := &cobra.Command{
		Use: "verify FILE --manifest FILE", Short: "Verify the signed artifacts of one record with public keys alone", Args: exactArgs(1, "one file, or - for standard input"),
		Long: `Verifies each signed artifact of a record (posts show --json) against the pinned root keys, the trust bundle and the manifest, as of
the moment when the last of them was signed. Challenge tokens and capabilities are secrets of the gate that issued them and are not judged.`,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := readRecord(c, args[0])
			if err != nil {
				return err
			}
			_, strict, err := readManifest(manifest)
			if err != nil {
				return err
			}
			v, _, err := offlineVerifier(registry, auditor, bundleFile, strict, func() time.Time { return lastSigned(p) })
			if err != nil {
				return err
			}
			return verifyRecord(c, v, strict, p)
		},
	}
	trustFlags(c, &registry, &auditor, &bundleFile)
	c.Flags().StringVar(&manifest, "manifest", "manifest.yaml", "the strict deployment manifest")
	return c
}

// lastSigned is when the last artifact of a record was signed: the request proof, or what there is of an earlier step.
func lastSigned(p ledger.Post) time.Time {
	for _, a := range p.Artifacts {
		if c, err := evidence.UnverifiedClaims(evidence.RequestProofKind, a.Token); err == nil {
			return time.Unix(c.IssuedAt, 0)
		}
	}
	return p.Started
}

// verifyRecord opens every artifact that a public key can judge and prints one line for each.
func verifyRecord(c *cobra.Command, v *evidence.Verifier, s *policy.Strict, p ledger.Post) error {
	open := map[string]func(token string) error{
		"originProof":           opener(v, evidence.TriggerOriginProofKind, s.Origin.Expected),
		"triggerReceipt":        opener(v, evidence.TriggerReceiptKind, s.Receipt.Expected),
		"policyDecision":        opener(v, evidence.PolicyDecisionKind, s.Decision),
		"grant":                 opener(v, evidence.ActionGrantKind, s.Grant),
		"runtimeAttestation":    opener(v, evidence.RuntimeAttestationKind, s.Runtime.Expected),
		"sessionReceipt":        opener(v, evidence.SessionReceiptKind, s.Session.Expected),
		"deploymentCertificate": func(token string) error { _, err := policy.VerifyCertificate(v, token, s); return err },
		"requestProof":          opener(v, evidence.RequestProofKind, s.RequestProof),
	}
	var failed error
	for _, a := range p.Artifacts {
		judge, ok := open[a.Name]
		if !ok {
			continue
		}
		line := "ok"
		if err := judge(a.Token); err != nil {
			d := problem.From(err)
			line, failed = fmt.Sprintf("REFUSED %s: %s", d.Code, d.Detail), errors.Join(failed, err)
		}
		fmt.Fprintf(c.OutOrStdout(), "%-24s %s\n", a.Name, line)
	}
	if failed != nil {
		return errRefused
	}
	return nil
}

func opener[C any](v *evidence.Verifier, k evidence.Kind[C], want evidence.Expected) func(string) error {
	return func(token string) error {
		_, err := evidence.Open(v, k, token, want)
		return err
	}
}
