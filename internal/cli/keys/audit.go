package keys

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/vaultaudit"
)

type auditFlags struct {
	vaultFlags
	from         records.Source
	keys         []string
	since, until string
	device       string
}

func vaultAudit() *cobra.Command {
	var a auditFlags
	c := &cobra.Command{
		Use: "audit LOG...", Short: "Compare Vault's audit log with the record, and show what only one of them has",
		Example: `  mediator vault audit vault-audit.log --since 24h \
      --address https://vault.example:8200 --token-file audit-token`,
		Args: cli.SomeArgs("the files of Vault's audit log, or - for standard input"),
		Long: `Compares the files of Vault's audit log (JSON, of every Vault server that signs) with the record. It shows
each signature by a role's key that no record has, each artifact of the record that Vault did not sign, and each
request for signatures without its answer, such as a wrapped one: the mediator makes none. The status is 1 if there
is any.

Vault hashes what it logs, so the command asks it for the hash of each signature in the record: --token-file needs
update on sys/audit-hash/DEVICE. A log in plaintext needs no Vault. Interaction receipts are not compared, because a
session's chain shows them, nor are a node's scores, because no post rests on them.`,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c, args) },
	}
	a.vaultFlags.add(c, ", unless the log is in plaintext",
		"file with a token that may ask for hashes of the audit device")
	a.from.Add(c)
	f := c.Flags()
	var names []string
	for _, r := range bootstrap.Roles {
		// neither receipts nor scores are artifacts of a record
		if r.Purpose != evidence.PurposeInteraction && r.Purpose != evidence.PurposeAppraiser {
			names = append(names, r.Key)
		}
	}
	f.StringSliceVar(&a.keys, "keys", names, "names of the keys to compare")
	f.StringVar(&a.since, "since", "",
		"only what was signed at this time or later: a time, a date, or how long ago, as for posts list")
	f.StringVar(&a.until, "until", "",
		"only what was signed before this time; a minute ago if empty, since posts under way have no record yet")
	f.StringVar(&a.device, "device", "file", "path of the audit device")
	cli.JSONFlag(c)
	return c
}

func (a *auditFlags) run(c *cobra.Command, paths []string) error {
	comparison, err := a.comparison(time.Now())
	switch {
	case err != nil:
		return cli.Usage(err)
	case (a.address == "") != (a.tokenFile == ""):
		return cli.Usagef("--address and --token-file belong together")
	}
	logs := &vaultaudit.Logs{Mount: a.transit, Keys: map[string]bool{}, Note: note(c)}
	for _, name := range a.keys {
		logs.Keys[name] = true
	}
	for _, path := range paths {
		file, err := cli.OpenInput(c, path)
		if err != nil {
			return err
		}
		defer file.Close()
		logs.Files = append(logs.Files, vaultaudit.Log{Name: path, From: file})
	}
	record, err := a.from.Open(c.Context())
	if err != nil {
		return err
	}
	defer record.Close()
	if a.address == "" {
		return a.compare(c, comparison, logs, record)
	}
	return a.do(func(vault *api.Client) error {
		comparison.Hash = vaultaudit.AuditHash(vault, a.device)
		return a.compare(c, comparison, logs, record)
	})
}

func (a *auditFlags) compare(c *cobra.Command, comparison vaultaudit.Comparison, logs *vaultaudit.Logs,
	record *records.Reader) error {
	table := &differenceTable{out: cli.Plain(c.OutOrStdout())}
	found, end := table.add, table.end
	if cli.AsJSON(c) {
		found = func(d vaultaudit.Difference) error { return cli.WriteJSONLine(c.OutOrStdout(), d) }
		end = func(s vaultaudit.Summary) error {
			return cli.WriteJSONLine(c.OutOrStdout(), map[string]vaultaudit.Summary{"summary": s})
		}
	}
	comparison.Found = found
	summary, err := comparison.Run(c.Context(), logs, record.Selected(c.Context(), comparison.Records()))
	if err != nil {
		return err
	}
	if err := end(summary); err != nil {
		return err
	}
	if summary.Differ() {
		return cli.ErrRefused
	}
	return nil
}

// window bounds the difference between the log's time of a signature and that of its artifact.
const window = time.Minute

func (a *auditFlags) comparison(now time.Time) (c vaultaudit.Comparison, err error) {
	c.Window = window
	if c.Since, c.Until, err = period(a.since, a.until, now); c.Until.IsZero() {
		c.Until = now.Add(-window)
	}
	if err == nil && !c.Since.Before(c.Until) {
		err = fmt.Errorf("the start of the selected time, %s, is not before its end, %s", cli.Time(c.Since),
			cli.Time(c.Until))
	}
	return c, err
}

type differenceTable struct {
	out   io.Writer
	begun bool
}

func (t *differenceTable) add(d vaultaudit.Difference) error {
	const columns = "%-6s  %-20s  %-26s  %s\n"
	if !t.begun {
		t.begun = true
		fmt.Fprintf(t.out, columns, "ONLY", "TIME", "KEY", "WHAT")
	}
	what := fmt.Sprintf("%s of %s", d.Artifact, d.Post)
	if d.Only == vaultaudit.OnlyVault {
		what = fmt.Sprintf("signature %d of the request %s, by %s from %s", d.Item+1, d.Request, cli.OrDash(d.By),
			cli.OrDash(d.Remote))
		if d.Hidden != "" {
			what = fmt.Sprintf("what the log does not show (%s) of the request %s, by %s from %s", d.Hidden, d.Request,
				cli.OrDash(d.By), cli.OrDash(d.Remote))
		}
	}
	_, err := fmt.Fprintf(cli.Lines(t.out), columns, d.Only, cli.Time(d.Time), d.Key, what)
	return err
}

func (t *differenceTable) end(s vaultaudit.Summary) error {
	if t.begun {
		fmt.Fprintln(t.out)
	}
	since := "the beginning"
	if !s.Since.IsZero() {
		since = cli.Time(s.Since)
	}
	fmt.Fprintf(t.out, "from %s until %s: %d signatures in Vault's log, %d artifacts in the record, %d in both\n",
		since, cli.Time(s.Until), s.Signatures, s.Artifacts, s.Matched)
	_, err := fmt.Fprintf(t.out,
		"only in Vault's log: %d; only in the record: %d; made again over the same: %d; by keys that were not "+
			"compared: %d\n", s.OnlyVault, s.OnlyRecord, s.Repeated, s.OtherKeys)
	return err
}
