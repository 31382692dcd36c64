package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
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
	raw, err := readInput(c, path)
	if err != nil {
		return ledger.Record{}, err
	}
	return archive.ParseRecord(raw, path)
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
			t, err := archive.Read(trust, manifest)
			if err != nil {
				return err
			}
			v, err := t.Verify(c.Context(), p, time.Now())
			if err != nil {
				return err
			}
			return printVerdict(c, v, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	trustFlags(c, &trust)
	c.Flags().StringVar(&manifest, "manifest", "manifest.yaml", "the strict deployment manifest")
	return c
}

// verifiedRecord is the result of verifying a record.
type verifiedRecord struct {
	Checks                 []ledger.Check `json:"checks"`
	Whole                  bool           `json:"whole"`                  // every artifact of the chain is there and valid
	NonHumanIdentityProven bool           `json:"nonHumanIdentityProven"` // never
}

// printVerdict prints a line for each check of the chain, and what the checks prove together.
func printVerdict(c *cobra.Command, v archive.Verdict, asJSON bool) error {
	if asJSON {
		if err := printJSON(c.OutOrStdout(), verifiedRecord{Checks: v.Checks, Whole: v.Whole}); err != nil || v.Whole {
			return err
		}
		return errRefused
	}
	out := plainWriter{c.OutOrStdout()}
	for _, k := range v.Checks {
		line := "ok"
		if !k.OK {
			line = "REFUSED " + k.Code + ": " + k.Detail
		}
		fmt.Fprintf(out, "%-34s %s\n", k.Name, line)
	}
	if !v.Whole {
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
