package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/vaultaudit"
)

// auditFlags are the flags of vault audit.
type auditFlags struct {
	at, copied                     string
	transit                        string
	keys                           []string
	since, until                   string
	window                         time.Duration
	address, ca, tokenFile, device string
	asJSON                         bool
}

func vaultAudit() *cobra.Command {
	var a auditFlags
	c := &cobra.Command{
		Use: "audit LOG...", Short: "Compare Vault's audit log with the record, and show what only one of them has",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes the files of Vault's audit log, or - for standard input", c.CommandPath())
			}
			return nil
		},
		Long: `Reads the files of Vault's audit log (JSON, of every Vault server that signs) and the record, and shows each signature of a role's key that no
record has, and each artifact of the record that Vault has not signed. It ends with status 1 if there is any.
Vault hashes what it logs. With --address, --token-file and --device, the signatures themselves are compared: Vault is asked for the hash
of each one in the record (a token with update on sys/audit-hash/DEVICE). So they are if the device logs them as they are. Otherwise
only their keys, times and number are compared: that misses a signature that was made for somebody else while one of the record is missing
in the log within --window, and it does not compare what was signed.`,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c, args) },
	}
	f := c.Flags()
	var names []string
	for _, r := range bootstrap.Roles {
		names = append(names, r.Key)
	}
	f.StringVar(&a.copied, "ledger", "", "read this copy of a ledger's file, and ask no sidecar")
	f.StringVar(&a.transit, "transit", "transit", "mount of the Transit engine")
	f.StringSliceVar(&a.keys, "keys", names, "names of the keys to compare")
	f.StringVar(&a.since, "since", "", "only what was signed at this time or later: a time, a date, or how long ago, as for posts list")
	f.StringVar(&a.until, "until", "", "only what was signed before this time; the beginning of the last --window if empty, since posts under way have no record yet")
	f.DurationVar(&a.window, "window", time.Minute, "by how much the log's time of a signature may differ from that of its artifact")
	f.StringVar(&a.address, "address", "", "https://host:port of Vault, to compare the signatures themselves")
	f.StringVar(&a.ca, "ca", "", "PEM certificates that sign Vault's; the system's if empty")
	f.StringVar(&a.tokenFile, "token-file", "", "file with a token that may ask for hashes of the audit device")
	f.StringVar(&a.device, "device", "file", "path of the audit device")
	adminFlag(c, &a.at)
	jsonFlag(c, &a.asJSON)
	return c
}

// run carries out vault audit.
func (a *auditFlags) run(c *cobra.Command, paths []string) error {
	comparison, err := a.comparison(time.Now())
	switch {
	case err != nil:
		return usageError{err}
	case a.copied != "" && c.Flags().Changed("admin"):
		return usagef("--ledger reads a copy, and --admin asks a sidecar: give one of them")
	case (a.address == "") != (a.tokenFile == ""):
		return usagef("--address and --token-file belong together")
	}
	logs := &vaultaudit.Logs{Mount: a.transit, Keys: map[string]bool{}, Note: func(sentence string) { fmt.Fprintln(plainWriter{c.ErrOrStderr()}, "mediator: "+sentence) }}
	for _, name := range a.keys {
		logs.Keys[name] = true
	}
	for _, path := range paths {
		file := io.NopCloser(c.InOrStdin())
		if path != "-" {
			if file, err = os.Open(path); err != nil {
				return err
			}
		}
		defer file.Close()
		logs.Files = append(logs.Files, vaultaudit.Log{Name: path, From: file})
	}
	records, done, err := openRecords(c.Context(), a.at, a.copied)
	if err != nil {
		return err
	}
	defer done()
	if a.address != "" {
		server, hash, err := a.hash()
		if err != nil {
			return err
		}
		defer server.Close()
		comparison.Hash = hash
	}
	var out differences = &differenceTable{out: plainWriter{c.OutOrStdout()}}
	if a.asJSON {
		out = newDifferenceJSON(c.OutOrStdout())
	}
	comparison.Found = out.add
	summary, err := comparison.Run(c.Context(), logs, records(c.Context(), admin.Selection{Query: comparison.Records()}))
	if err != nil {
		return err
	}
	if err := out.end(summary); err != nil {
		return err
	}
	if summary.Differ() {
		return errRefused
	}
	return nil
}

// comparison returns what is to be compared, by the flags.
func (a *auditFlags) comparison(now time.Time) (c vaultaudit.Comparison, err error) {
	c = vaultaudit.Comparison{Window: a.window, Until: now.Add(-a.window)}
	if a.window <= 0 {
		return c, errors.New("--window is a time above zero")
	}
	if a.since != "" {
		c.Since, err = admin.ParseTime(a.since, now)
	}
	if a.until != "" && err == nil {
		c.Until, err = admin.ParseTime(a.until, now)
	}
	if err == nil && !c.Since.Before(c.Until) {
		err = fmt.Errorf("nothing is since %s and before %s", c.Since.UTC().Format(time.RFC3339), c.Until.UTC().Format(time.RFC3339))
	}
	return c, err
}

// hash returns how the audit device hashes. The server has to be closed.
func (a *auditFlags) hash() (*vault.Server, vaultaudit.Hash, error) {
	token, err := files.ReadSecret(a.tokenFile, 1)
	if err != nil {
		return nil, nil, err
	}
	server, err := vault.NewServer(vault.Options{Address: a.address, CAFile: a.ca, Timeout: 30 * time.Second, Log: zap.NewNop(), Now: time.Now})
	if err != nil {
		return nil, nil, err
	}
	return server, vaultaudit.AuditHash(server.Client(token), a.device), nil
}

// differences prints what only one of the two has, and then what was compared.
type differences interface {
	add(d vaultaudit.Difference) error
	end(s vaultaudit.Summary) error
}

// differenceTable prints a line for each difference.
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
		what = fmt.Sprintf("signature %d of the request %s, by %s from %s", d.Item+1, d.Request, orDash(d.By), orDash(d.Remote))
		if d.Refused != "" {
			what += "; perhaps for " + d.Refused + ", which was refused then"
		}
	}
	_, err := fmt.Fprintf(t.out, columns, d.Only, d.Time.UTC().Format(time.RFC3339), d.Key, what)
	return err
}

func (t *differenceTable) end(s vaultaudit.Summary) error {
	if t.begun {
		fmt.Fprintln(t.out)
	}
	since := "the beginning"
	if !s.Since.IsZero() {
		since = s.Since.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(t.out, "from %s until %s: %d signatures in Vault's log, %d artifacts in the record, %d in both\n", since, s.Until.UTC().Format(time.RFC3339), s.Signatures, s.Artifacts, s.Matched)
	fmt.Fprintf(t.out, "only in Vault's log: %d; only in the record: %d; made again over the same: %d; by keys that were not compared: %d\n", s.OnlyVault, s.OnlyRecord, s.Repeated, s.OtherKeys)
	how := "The signatures themselves were compared."
	if !s.Exact {
		how = "Only keys, times and number were compared: a signature for somebody else is not seen where one of the record is missing in the log\nat about the same time, and what was signed was not compared. --address, --token-file and --device compare the signatures."
	}
	_, err := fmt.Fprintln(t.out, how)
	return err
}

// differenceJSON prints one document, as it comes. Without its end it is no JSON.
type differenceJSON struct {
	jsonArray[vaultaudit.Difference]
}

func newDifferenceJSON(w io.Writer) *differenceJSON {
	out := bufio.NewWriter(w)
	_, _ = out.WriteString("{\n  \"differences\": ")
	return &differenceJSON{jsonArray[vaultaudit.Difference]{to: out, indent: "  "}}
}

func (j *differenceJSON) end(s vaultaudit.Summary) error {
	text, err := indented(s, "  ")
	if err != nil {
		return err
	}
	j.close()
	_, _ = j.to.WriteString(",\n  \"summary\": " + text + "\n}\n")
	return j.to.Flush()
}
