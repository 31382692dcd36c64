package chain

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/car"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

type exported struct {
	File string `json:"file"`
	archive.Exported
	CID string `json:"cid,omitempty"`
}

// Export returns the command that writes records, or the receipts of a session, for somebody to verify.
func Export() *cobra.Command {
	var by judgeFlags
	var from records.Source
	var out, carFile string
	var receipts, closed bool
	c := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Write records with everything that verifying them needs, or the receipts of a session",
		Example: `  mediator posts export --out march.jsonl.gz --flow post --since 2026-03-01 --until 2026-04-01
  mediator posts export --receipts --session ses_... > receipts.txt`,
		Args: func(c *cobra.Command, ids []string) error {
			switch {
			case slices.Contains(ids, ""):
				return cli.Usagef("%s takes no empty id", c.CommandPath())
			case receipts && (len(ids) > 0 || by.selected.Session == ""):
				return cli.Usagef("%s --receipts takes --session, and no ids of records", c.CommandPath())
			case closed && !receipts:
				return cli.Usagef("--closed goes with --receipts")
			case out == "-" && carFile != "":
				return cli.Usagef("--car needs --out: it packs that file")
			case out == "-" && cli.AsJSON(c):
				return cli.Usagef("--json needs --out: standard output gets the export itself")
			}
			return nil
		},
		Long: `Writes the records with these ids, or the selected ones, oldest first, each with the interaction receipts that
it rests on and its own, and with its proofs of the transparency log. Roots, certificates, revocations and manifests are
written once. The file is JSON Lines, compressed if its name ends in .gz. mediator verify reads it anywhere; hand over
the public keys of the registry and the auditor separately.

With --receipts it writes the interaction receipts of --session alone, one token a line. A post's receipt has the
SHA-256 of the post's content, which confirms a right guess. --closed replaces that receipt by its hash, for readers who
need not know what was posted.

With --car it also packs the file into a CAR, which any IPFS node imports. Publish only what everyone may read.`,
		RunE: func(c *cobra.Command, ids []string) error {
			r, err := from.Open(c.Context())
			if err != nil {
				return err
			}
			defer r.Close()
			if receipts {
				cid, err := writeExport(c, out, carFile, func(to io.Writer) error {
					return printReceipts(c.Context(), cli.Plain(to), r, by.selected.Session, closed)
				})
				if err != nil || cid == "" {
					return err
				}
				return cli.Print(c, exported{File: out, CID: cid}, "the CID of "+out+" is "+cid)
			}
			s, a, err := by.selection(c, from)
			defer by.done()
			if err != nil {
				return err
			}
			chosen := r.Selected(c.Context(), s)
			if len(ids) > 0 {
				if chosen, err = byID(c.Context(), r, ids); err != nil {
					return err
				}
			}
			if len(ids) > 0 || a.Large() {
				if a, err = a.For(chosen); err != nil {
					return err
				}
			}
			proofs, err := r.Proofs(c.Context())
			if err != nil {
				return err
			}
			var made archive.Exported
			write := func(to io.Writer) error {
				made, err = archive.Export(c.Context(), to, a, chosen, r.Receipts, proofs)
				return err
			}
			cid, err := writeExport(c, out, carFile, write)
			if err != nil {
				return err
			}
			said := fmt.Sprintf("exported %d records to %s; left out %d without evidence", made.Records, out,
				made.LeftOut)
			if made.Proven > 0 {
				said += fmt.Sprintf("; %d have proofs of the log", made.Proven)
			}
			if made.Unproven != nil {
				fmt.Fprintln(cli.Plain(c.ErrOrStderr()),
					"mediator: records lack proofs, because the log cannot be read:", made.Unproven)
			}
			if cid != "" {
				said += "; its CID is " + cid
			}
			if out == "-" {
				_, err := fmt.Fprintln(cli.Plain(c.ErrOrStderr()), "mediator:", said)
				return err
			}
			return cli.Print(c, exported{out, made, cid}, said)
		},
	}
	cli.JSONFlag(c)
	by.add(c)
	from.Add(c)
	f := c.Flags()
	f.StringVar(&out, "out", "-", "the file to write, readable by its owner alone; - is standard output")
	f.StringVar(&carFile, "car", "", "also pack the file of --out into this CAR file, for IPFS, and print its CID")
	f.BoolVar(&receipts, "receipts", false, "write the interaction receipts of --session, and no records")
	f.BoolVar(&closed, "closed", false,
		"with --receipts, leave out the receipts of posts; verify then calls them closed")
	return c
}

func byID(ctx context.Context, from *records.Reader, ids []string) (iter.Seq2[ledger.Record, error], error) {
	var found []ledger.Record
	for _, id := range ids {
		r, err := from.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return func(yield func(ledger.Record, error) bool) {
		for i := 0; i < len(found) && yield(found[i], nil); i++ {
		}
	}, nil
}

// writeExport writes a file that only its owner can read, or standard output. It leaves no incomplete file. If carFile
// is set, it also packs the file into that one, and returns the file's CID.
func writeExport(c *cobra.Command, path, carFile string, write func(io.Writer) error) (cid string, err error) {
	switch {
	case path == "-":
		return "", write(c.OutOrStdout())
	case !strings.HasSuffix(path, ".gz"):
		err = files.ReplaceWith(path, 0o600, write)
	default:
		err = files.ReplaceWith(path, 0o600, func(to io.Writer) error {
			packed := gzip.NewWriter(to)
			return errors.Join(write(packed), packed.Close())
		})
	}
	if err != nil || carFile == "" {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = files.ReplaceWith(carFile, 0o600, func(to io.Writer) error {
		cid, err = car.Write(to, f)
		return err
	})
	return cid, err
}
