package chain

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/ledger"
)

// Evidence returns the commands about chains of evidence.
func Evidence() *cobra.Command {
	return cli.Group("evidence", "Chains of evidence", evidenceShow(), evidenceVerify(), evidenceReceipts(), evidenceExport())
}

func evidenceShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show FILE", Short: "Draw the chain of evidence of one record (posts show --json), with nothing verified", Args: cli.ExactArgs(1, "one file, or - for standard input"),
		Example: `  mediator evidence show record.json
  mediator posts show post_06H0 --json --dir .mediator | mediator evidence show -`,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := readRecord(c, args[0])
			if err != nil {
				return err
			}
			return cli.PrintText(c, asJSON, shownChain{Artifacts: showArtifacts(p.Artifacts)}, func(w io.Writer) error {
				records.DrawChain(w, p.Artifacts)
				_, err := fmt.Fprint(w, whatItProves)
				return err
			})
		},
	}
	cli.JSONFlag(c, &asJSON)
	return c
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
	raw, err := cli.ReadInput(c, path)
	if err != nil {
		return ledger.Record{}, err
	}
	r, _, err := archive.ParseRecord(raw, path)
	return r, err
}
