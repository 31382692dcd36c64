package chain

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

// exported is the result of evidence export.
type exported struct {
	File    string `json:"file"`
	Records int    `json:"records"`
	LeftOut int    `json:"leftOut"` // records without evidence
}

func evidenceExport() *cobra.Command {
	var by judgeFlags
	var from records.Source
	var out string
	var policies []string
	var asJSON bool
	c := &cobra.Command{
		Use: "export [ID...] --out FILE", Short: "Write records with all that their verification needs into one file",
		Example: `  mediator evidence export --out march.jsonl.gz --flow post --since 2026-03-01 --until 2026-04-01`,
		Args: func(c *cobra.Command, ids []string) error {
			for _, id := range ids {
				if id == "" {
					return cli.Usagef("%s takes ids of records, and not an empty one", c.CommandPath())
				}
			}
			return nil
		},
		Long: `Writes the records with these ids, or those that the flags select, oldest first: each record that has evidence, after the interaction receipts that it rests on and its own, and once what
all of them rest on: roots, certificates, revocations and manifests, of the policies those that --policy names. The file is JSON Lines, and compressed
if its name ends in .gz. mediator evidence verify reads it anywhere; give its reader the registry's and the auditor's public keys on another way.`,
		RunE: func(c *cobra.Command, ids []string) error {
			s, a, err := by.selection()
			if err != nil {
				return err
			}
			texts, err := readPolicies(policies)
			if err != nil {
				return err
			}
			r, err := from.Open(c.Context())
			if err != nil {
				return err
			}
			defer r.Close()
			chosen := r.Selected(c.Context(), s)
			if len(ids) > 0 {
				found, err := byID(c.Context(), r, ids)
				if err != nil {
					return err
				}
				chosen = each(found)
			}
			if len(ids) > 0 || a.Large() {
				if a, err = a.ForAll(chosen); err != nil {
					return err
				}
			}
			made := exported{File: out}
			write := func(to io.Writer) error {
				made.Records, made.LeftOut, err = archive.Export(c.Context(), to, a, chosen, r.Receipts, texts...)
				return err
			}
			if err := writeExport(c, out, write); err != nil {
				return err
			}
			said := fmt.Sprintf("exported %d records to %s; %d without evidence are left out", made.Records, out, made.LeftOut)
			if out == "-" {
				_, err := fmt.Fprintln(cli.Plain(c.ErrOrStderr()), "mediator:", said)
				return err
			}
			return cli.Print(c, asJSON, made, said)
		},
	}
	cli.JSONFlag(c, &asJSON)
	by.add(c)
	from.Add(c)
	f := c.Flags()
	f.StringVar(&out, "out", "", "the file to write, of which other users cannot read; - is standard output (required)")
	f.StringArrayVar(&policies, "policy", nil, "a policy file that one of the manifests demands; once for each")
	cli.Required(c, "out")
	return c
}

func readPolicies(paths []string) (texts []string, err error) {
	for _, path := range paths {
		raw, err := files.Read(path)
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		texts = append(texts, string(raw))
	}
	return texts, nil
}

// byID returns the records with these ids, or with the beginnings of these.
func byID(ctx context.Context, from *records.Reader, ids []string) (found []ledger.Record, err error) {
	for _, id := range ids {
		r, err := from.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

// each yields records.
func each(records []ledger.Record) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// writeExport writes a file that only its owner can read, or standard output. A file that could not be written whole is not left.
func writeExport(c *cobra.Command, path string, write func(io.Writer) error) error {
	switch {
	case path == "-":
		return write(c.OutOrStdout())
	case !strings.HasSuffix(path, ".gz"):
		return files.ReplaceWith(path, 0o600, write)
	}
	return files.ReplaceWith(path, 0o600, func(to io.Writer) error {
		packed := gzip.NewWriter(to)
		return errors.Join(write(packed), packed.Close())
	})
}
