package chain

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

func evidenceVerify() *cobra.Command {
	var by judgeFlags
	var copied, scored string
	var unpinned, asJSON bool
	c := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify the chain of evidence of one record, an export, a copy of a ledger, interaction receipts, or what a node has signed, with public keys alone",
		Example: `  mediator evidence verify march.jsonl.gz --registry registry.jwk --auditor auditor.jwk
  mediator evidence verify --ledger copy/ledger.db --since 24h
  mediator evidence verify receipts.txt --score score.json`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 || (len(args) == 0) == (copied == ""):
				return cli.Usagef("%s takes one file, or - for standard input, or else --ledger", c.CommandPath())
			case unpinned && copied != "":
				return cli.Usagef("a copy of a ledger holds no roots: pin them with --registry and --auditor")
			case scored != "" && copied != "":
				return cli.Usagef("--score goes with a file of interaction receipts")
			}
			return nil
		},
		Long: `Verifies each signed artifact of a record against the pinned root keys, the certificates and the manifest of its time, and all of them
against each other and the record's call, as of the moment when the last of them was signed. What was revoked since is refused. FILE is one
record (posts show --json), or an export (evidence export), which brings certificates and manifests with it; of a trust bundle that is there
too, the certificates and the revocations count as well. FILE can also be the interaction receipts of one session, a token on each line, from the
first on, or a single one; with --score, the session's score is verified too, and computed again from them. A score by itself can be FILE too,
and so can a reputation (reputation show --json), the result of a verification (verification register --json), or the resolution of a dispute
(dispute show --json), each also as the token alone. Challenge tokens and capabilities are secrets of the gate that issued them and are
not judged. With --roots-in-file no root is pinned: the records are then only checked against the export itself, and whoever made it can have
made its roots.`,
		RunE: func(c *cobra.Command, args []string) error {
			if copied != "" {
				return verifyCopy(c, by, copied, asJSON)
			}
			in, done, err := openInput(c, args[0])
			if err != nil {
				return err
			}
			defer done()
			switch {
			case archive.IsExport(in):
				return verifyExport(c, by, in, unpinned, asJSON)
			case unpinned:
				return cli.Usagef("%s is no export: it holds no roots", args[0])
			case scored != "":
				s, err := readScore(scored)
				if err != nil {
					return err
				}
				return verifyScored(c, by, in, args[0], s, asJSON)
			case areReceipts(in):
				return verifyReceipts(c, by, in, args[0], asJSON)
			}
			return verifyRecord(c, by, in, args[0], asJSON)
		},
	}
	cli.JSONFlag(c, &asJSON)
	by.add(c)
	c.Flags().StringVar(&copied, "ledger", "", "verify the records in this copy of a ledger's file, and no FILE; the flags that select records count")
	c.Flags().StringVar(&scored, "score", "", "the score of the session (mediator score show --json) whose receipts FILE has")
	c.Flags().BoolVar(&unpinned, "roots-in-file", false, "judge an export by the roots in it, which nobody has pinned")
	return c
}

// openInput opens a file that is the argument of a command, or standard input for "-", to be read piece by piece.
func openInput(c *cobra.Command, path string) (in *bufio.Reader, done func() error, err error) {
	if path == "-" {
		return bufio.NewReader(c.InOrStdin()), func() error { return nil }, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return bufio.NewReader(f), f.Close, nil
}

// verifyRecord prints a line for each check of the chain of one record, and what the checks prove together.
func verifyRecord(c *cobra.Command, by judgeFlags, in io.Reader, path string, asJSON bool) error {
	raw, err := files.ReadAll(in, path, files.MaxInput)
	if err != nil {
		return err
	}
	if s, ok := archive.ParseScore(raw); ok {
		return verifyScore(c, by, s, asJSON)
	}
	if token, ok := appraisalIn(raw); ok {
		return verifyAppraisal(c, by, token, asJSON)
	}
	p, receipts, err := archive.ParseRecord(raw, path)
	if err != nil {
		return err
	}
	a, err := by.archive()
	if err != nil {
		return err
	}
	v, err := a.Of(p).Verify(c.Context(), p, receipts, time.Now())
	if err != nil {
		return err
	}
	if asJSON {
		if err := cli.WriteJSON(c.OutOrStdout(), verifiedRecord{Checks: v.Checks, Whole: v.Whole, Interactions: v.Interactions}); err != nil || v.Whole {
			return err
		}
		return cli.ErrRefused
	}
	out := cli.Plain(c.OutOrStdout())
	for _, k := range v.Checks {
		line := "ok"
		if !k.OK {
			line = "REFUSED " + k.Code + ": " + k.Detail
		}
		fmt.Fprintf(out, "%-34s %s\n", k.Name, line)
	}
	if !v.Whole {
		fmt.Fprint(out, "\nThis record does not show the chain of a post.\n")
		return cli.ErrRefused
	}
	fmt.Fprint(out, namedReceipts(v.Interactions), whatVerifies)
	return nil
}

// verifiedRecord is the result of verifying a record.
type verifiedRecord struct {
	Checks                 []ledger.Check `json:"checks"`
	Whole                  bool           `json:"whole"`                  // every artifact of the chain is there and valid
	NonHumanIdentityProven bool           `json:"nonHumanIdentityProven"` // never

	Interactions *archive.Interactions `json:"interactions,omitempty"` // what the session receipt names; nil if it names none
}

// whatVerifies is printed after every record that verifies.
const whatVerifies = `
Certified keys signed the artifacts, and all of them are about one call. The record says that the challenge was solved, that the capability was
good, and that everything was used once: only the gate that issued them can confirm that. The call's host, outcome and times are the mediator's own word.
No chain shows that no human was involved anywhere.
nonHumanIdentityProven: false
`

func verifyExport(c *cobra.Command, by judgeFlags, in *bufio.Reader, unpinned, asJSON bool) error {
	r, err := archive.NewReader(in)
	if err != nil {
		return err
	}
	a := r.Archive()
	if !unpinned {
		own, err := by.pins(c)
		if err != nil {
			return fmt.Errorf("what is pinned, or the bundle beside it, cannot be read (--registry, --auditor and --bundle name them): %w", err)
		}
		a = a.Pinned(own)
	}
	return printJudged(c, a, r.Records(), r.Receipts, unpinned, asJSON)
}

func verifyCopy(c *cobra.Command, by judgeFlags, copied string, asJSON bool) error {
	s, a, err := by.selection()
	if err != nil {
		return err
	}
	r, err := records.Source{Copy: copied}.Open(c.Context())
	if err != nil {
		return err
	}
	defer r.Close()
	return printJudged(c, a, r.Selected(c.Context(), s), r.Receipts, false, asJSON)
}

// judgedPost is the result of verifying one record among many.
type judgedPost struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Result string `json:"result"`          // verified, consistent (of roots that nobody has pinned), incomplete or refused
	Check  string `json:"check,omitempty"` // that refused it
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// printJudged prints the records that are refused, and how many are not; as JSON, all of them.
func printJudged(c *cobra.Command, a archive.Archive, records iter.Seq2[ledger.Record, error], receipts archive.Receipts, unpinned, asJSON bool) error {
	good := string(archive.Verified)
	if unpinned {
		good = "consistent"
	}
	out := cli.Plain(c.OutOrStdout())
	array := cli.NewJSONArray[judgedPost](c.OutOrStdout())
	count := make(map[archive.Outcome]int)
	used := make(map[*archive.Trust]bool)
	for j, err := range a.Judge(c.Context(), records, receipts, time.Now()) {
		if err != nil {
			return err
		}
		count[j.Outcome]++
		used[j.By] = used[j.By] || j.Outcome != archive.Refused
		post := judgedPost{j.Record.ID, string(j.Record.State), string(j.Outcome), j.Refusal.Name, j.Refusal.Code, j.Refusal.Detail}
		if j.Outcome == archive.Verified {
			post.Result = good
		}
		switch {
		case asJSON:
			err = array.Add(post)
		case j.Outcome == archive.Refused:
			_, err = fmt.Fprintf(out, "%s REFUSED at %s, %s: %s\n", post.ID, post.Check, post.Code, post.Detail)
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		if err := array.End(); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%d %s, %d %s in part (the mediator refused the post), %d REFUSED by this check\n", count[archive.Verified], good, count[archive.Incomplete], good, count[archive.Refused])
		fmt.Fprint(out, basis(a, used, unpinned))
	}
	switch {
	case count[archive.Refused] > 0:
		return cli.ErrRefused
	case len(count) == 0:
		return errors.New("there is no record with evidence: nothing was verified")
	}
	return nil
}

// basis says what the records were judged by that are not refused, and what that shows.
func basis(a archive.Archive, used map[*archive.Trust]bool, unpinned bool) (text string) {
	for _, t := range a {
		if !used[t] {
			continue
		}
		known := "no revocation list: what was revoked is not known"
		if signed, ok := t.Revocations(); ok {
			known = "the revocation list of " + signed.Format(time.RFC3339) + ": what was revoked later is not known"
		}
		text += fmt.Sprintf("Roots %s and %s, with %s.\n", t.Roots[0].KeyID, t.Roots[1].KeyID, known)
	}
	switch {
	case text == "":
		return ""
	case unpinned:
		return text + selfContained
	}
	return text + "\nOf the posts that this check did not refuse:" + whatVerifies
}

// selfContained is printed in place of whatVerifies where no root was pinned.
const selfContained = `
A SELF-CONTAINED CHECK, AND NO VERIFICATION: the roots are those in the file, and nobody has pinned them. Whoever made the file can have made
them, and everything in it. Pin the registry's and the auditor's public keys with --registry and --auditor.
nonHumanIdentityProven: false
`
