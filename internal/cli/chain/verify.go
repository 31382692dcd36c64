package chain

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// Verify returns the command that verifies everything that the mediator or a node signs.
func Verify() *cobra.Command {
	var v verifier
	var copied, scored string
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Verify a record, an export, receipts, a manifest, or what a node has signed, with public keys alone",
		Example: `  mediator verify march.jsonl.gz --registry registry.jwk --auditor auditor.jwk
  mediator verify --ledger copy/ledger.db --since 24h
  mediator verify receipts.txt --score score.json
  mediator verify manifest.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 || (len(args) == 0) == (copied == ""):
				return cli.Usagef("%s takes one file, or - for standard input, or else --ledger", c.CommandPath())
			case scored != "" && copied != "":
				return cli.Usagef("--score goes with a file of interaction receipts")
			case copied == "" && slices.ContainsFunc([]string{"flow", "session", "state", "key"}, c.Flags().Changed):
				return cli.Usagef("--flow, --session, --state and --key select records of --ledger, and none of a file")
			case copied == "" && !c.Flags().Changed("log") &&
				slices.ContainsFunc([]string{"since", "until"}, c.Flags().Changed):
				return cli.Usagef("--since and --until select records of --ledger, or a period of --log")
			}
			return nil
		},
		Long: `Verifies FILE, or the records in --ledger. FILE can be:

  a record        as posts show --json prints it
  an export       as posts export writes it, with the certificates and manifests of its time
  receipts        the interaction receipts of one session, one token a line, from the first on, or a single one;
                  --score verifies the session's score too, and computes it again
  a score, a reputation, the result of a verification, the resolution of a dispute
                  as reputation show or verification prints it with --json, or the token alone
  a manifest      whose deployment certificate is in the trust bundle

Each signed artifact of a record is verified with the pinned roots and the certificates and manifest of its time, and
compared with the record's call and the other artifacts. What was revoked since is refused. The trust bundle beside an
export or in a database counts too. Four results are independent: what the signatures show (authentic), whether the
transparency log holds the same records (untampered), which witnesses saw it (witnessed), and whether it holds posts
that are missing here (complete; --since and --until name the period). Challenge tokens and capabilities are secrets of
their gate, and are not verified here (challenge verify, capability verify).`,
		RunE: func(c *cobra.Command, args []string) error {
			v.c = c
			if copied != "" {
				return v.copied(copied)
			}
			file, err := cli.OpenInput(c, args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			in := bufio.NewReader(file)
			switch ext := filepath.Ext(args[0]); {
			case archive.IsExport(in):
				return v.export(in)
			case scored != "":
				s, err := readScore(scored)
				if err != nil {
					return err
				}
				return v.score(s, receiptLines(in, args[0]), args[0])
			case areReceipts(in):
				return v.receipts(in, args[0])
			case ext == ".yaml" || ext == ".yml": // of all that this command reads, only manifests are YAML
				return v.deployment(args[0])
			}
			return v.record(in, args[0])
		},
	}
	cli.JSONFlag(c)
	v.judgeFlags.add(c)
	v.log.add(c)
	f := c.Flags()
	f.StringVar(&copied, "ledger", "", "verify the records that the flags select in this copy of a ledger's "+
		"file, or in the database whose DSN is in this file")
	f.StringVar(&scored, "score", "", "the score (reputation show score) of the session whose receipts FILE has")
	return c
}

type verifier struct {
	judgeFlags
	log logFlags
	c   *cobra.Command
}

// CertifiedDeployment says which manifest the auditor has certified.
type CertifiedDeployment struct {
	DeploymentID string    `json:"deploymentId"`
	Manifest     string    `json:"manifest"`
	Until        time.Time `json:"until"`
}

func (by *verifier) deployment(path string) error {
	_, strict, err := deployed.ReadAuditedManifest(path)
	if err != nil {
		return err
	}
	v, b, err := deployed.OfflineVerifier(by.trust.Registry, by.trust.Auditor, by.trust.Bundle, strict, time.Now)
	if err != nil {
		return err
	}
	cert, err := policy.VerifyCertificate(v, b.DeploymentCertificate, strict)
	if err != nil {
		return err
	}
	holds := CertifiedDeployment{cert.DeploymentID, cert.ManifestHash, strict.Until(cert)}
	return cli.Print(by.c, holds,
		fmt.Sprintf("the certificate of deployment %s is good until %s", holds.DeploymentID, cli.Time(holds.Until)))
}

// isRecord reports whether a file is a record. It may also have a node's token.
func isRecord(raw []byte) bool {
	var r struct{ Artifacts json.RawMessage }
	return json.Unmarshal(raw, &r) == nil && r.Artifacts != nil
}

func isCapability(raw []byte) bool {
	var printed struct{ Capability string }
	_ = json.Unmarshal(raw, &printed) // a token alone is not JSON
	return printed.Capability != "" || archive.TypeOf(strings.TrimSpace(string(raw))) == evidence.CapabilityKind().Typ
}

func (by *verifier) record(in io.Reader, path string) error {
	raw, err := files.ReadAll(in, path, files.MaxInput)
	if err != nil {
		return err
	}
	if !isRecord(raw) {
		if s, ok := archive.ParseScore(raw); ok {
			return by.score(s, nil, path)
		}
		if token, ok := appraisalIn(raw); ok {
			return by.appraisal(raw, token)
		}
		if isCapability(raw) {
			return cli.Usagef("%s is a capability, which takes the gate's secret to verify: see mediator capability "+
				"verify", path)
		}
	}
	p, err := archive.ParseRecord(raw, path)
	if err != nil {
		return err
	}
	v, j, err := by.judge(by.c.Context(), p.Record, p.Receipts, p.Proofs)
	if err != nil {
		return err
	}
	unread := by.log.against(by.c, j, time.Time{}, time.Time{})
	l := logged{j.Logged}
	err = cli.PrintText(by.c, verifiedRecord{Checks: v.Checks, Whole: v.Whole,
		Interactions: v.Interactions, Unproven: v.Unproven, Outcome: v.Word(p.Record), logged: l},
		func(w io.Writer) error { printVerified(w, p.Record, v, l); return nil })
	switch {
	case err != nil:
		return err
	case unread != nil:
		return fmt.Errorf("the transparency log: %w", unread)
	case !v.Whole || l.refused():
		return cli.ErrRefused
	}
	return nil
}

// judge verifies one record with the receipts of its session, by its signatures and by the log.
func (by *verifier) judge(ctx context.Context, r ledger.Record, receipts []string, p archive.Proofs) (
	v archive.Verdict, j *archive.LogJudge, err error) {
	a, err := by.archive()
	if err != nil {
		return v, nil, err
	}
	if j, err = by.log.judge(); err != nil {
		return v, nil, err
	}
	if v, err = a.Of(r).Verify(ctx, r, archive.ReceiptsOf(receipts), time.Now()); err == nil {
		j.Add(r, p)
	}
	return v, j, err
}

func printVerified(out io.Writer, p ledger.Record, v archive.Verdict, l logged) {
	for _, k := range v.Checks {
		line := "ok"
		if !k.OK {
			line = "REFUSED " + k.Code + ": " + k.Detail
		}
		fmt.Fprintf(cli.Lines(out), "%-34s %s\n", k.Name, line)
	}
	authentic := "verified"
	if !v.Whole {
		authentic = "REFUSED: this record does not show the chain of a post"
	}
	fmt.Fprintf(out, "\n"+lineForm, "Authentic:", authentic)
	l.print(out)
	if !v.Whole {
		return
	}
	fmt.Fprintln(out)
	fmt.Fprintf(cli.Lines(out), "The outcome is %s.\n", v.Word(p))
	fmt.Fprint(out, namedReceipts(v.Interactions), "\nNot proven, the record's own word: ",
		strings.Join(v.Unproven, ", "), ".\n", whatVerifies)
}

type verifiedRecord struct {
	Checks []ledger.Check `json:"checks"`
	// every artifact of the chain is there and valid
	Whole                  bool `json:"whole"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"` // never
	// members of the record that no signature holds
	Unproven []string `json:"unproven,omitempty"`

	logged
	Outcome string `json:"outcome"` // whose word it is
	// what the session receipt names; nil if it names none
	Interactions *archive.Interactions `json:"interactions,omitempty"`
}

const whatVerifies = `
Certified keys signed the artifacts, and all of them are about one call. That the challenge was solved, that the
capability was good and that everything was used once is the record's word: only the gate that issued them can confirm
it.
No chain shows that no human was involved anywhere.
nonHumanIdentityProven: false
`

func (by *verifier) export(in *bufio.Reader) error {
	period, err := by.selected.Parse(time.Now())
	if err != nil {
		return err
	}
	r, err := archive.NewReader(in)
	if err != nil {
		return err
	}
	own, err := by.pins(by.c)
	if err != nil {
		return fmt.Errorf("%s: %w", unreadablePins, err)
	}
	j := &judging{by: by, archive: r.Archive().Pinned(own), proofs: r.Proofs, period: period, unasked: r.Unasked}
	return j.print(r.Records(), r.Receipts)
}

// copied verifies the records in a copy of a ledger.
func (by *verifier) copied(path string) error {
	from := records.Source{Ledger: path}
	s, a, err := by.selection(by.c, from)
	defer by.done()
	if err != nil {
		return err
	}
	r, err := from.Open(by.c.Context())
	if err != nil {
		return err
	}
	defer r.Close()
	proofs, err := r.Proofs(by.c.Context())
	if err != nil {
		return err
	}
	j := &judging{by: by, archive: a, proofs: proofs, period: s}
	return j.print(r.Selected(by.c.Context(), s), r.Receipts)
}
