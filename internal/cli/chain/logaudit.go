package chain

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/translog"
)

// LogAudit returns the command that replays a transparency log.
func LogAudit() *cobra.Command {
	var log logFlags
	var export string
	var seen []string
	var maxAge time.Duration
	c := &cobra.Command{
		Use:   "audit URL|DIR --policy FILE",
		Short: "Replay a transparency log, and compare it with records",
		Args:  cli.ExactArgs(1, "the URL of a transparency log, or a folder with its files"),
		Example: `  mediator log audit https://log.example.com/prod --policy log-policy.txt
  mediator log audit https://log.example.com/prod --policy log-policy.txt --records march.jsonl.gz --seen checkpoint`,
		Long: `Reads every entry of a log from public data, and names what is wrong: entries that are backdated, repeated or
later than their witnesses, posts without an end or a beginning, hours in which the log did not run, or a log that
ended over --max-age ago. It also names sessions that have no end yet. With --records it names the posts that only the
log or only the export has, or that differ; mediator verify verifies the records themselves. With --seen, a checkpoint
that somebody kept, it names a fork: two logs by one key.

Get the policy from the witnesses and not from the operator of the log.`,
		RunE: func(c *cobra.Command, args []string) error {
			j, err := log.judge()
			if err != nil {
				return err
			}
			for _, path := range seen {
				raw, err := files.Read(path)
				if err != nil {
					return err
				}
				if err := j.Seen(path, raw); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			if export != "" {
				if err := addRecords(c.Context(), j, export); err != nil {
					return err
				}
			}
			from, err := openLog(args[0])
			if err != nil {
				return err
			}
			r, err := j.Against(c.Context(), from, time.Time{}, time.Time{})
			if err != nil {
				return err
			}
			now := time.Now()
			r.CheckAge(now, maxAge)
			result := audited{Report: r, now: now}
			if export != "" {
				result.Records = &logged{j.Logged}
			}
			if err := cli.PrintText(c, result, result.print); err != nil {
				return err
			}
			if len(r.Findings) > 0 || result.Records != nil && result.Records.refused() {
				return cli.ErrRefused
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&log.policy, "policy", "",
		"the policy (c2sp.org/tlog-policy) that names the log's key, its witnesses and their quorum (required)")
	cli.Required(c, "policy")
	f.StringVar(&export, "records", "", "compare the log with the records in this export")
	f.DurationVar(&maxAge, "max-age", 24*time.Hour, "how old the log's last entry may be")
	f.StringArrayVar(&seen, "seen", nil, "a checkpoint of the log that somebody kept, also several times")
	cli.JSONFlag(c)
	return c
}

// addRecords adds the records of an export. It verifies only their proofs.
func addRecords(ctx context.Context, j *archive.LogJudge, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := archive.NewReader(bufio.NewReader(file))
	if err != nil {
		return err
	}
	r.Drop()
	for record, err := range r.Records() {
		if err != nil {
			return err
		}
		p, _ := r.Proofs(ctx, record.ID)
		j.Add(record, p)
	}
	return nil
}

type audited struct {
	translog.Report
	Records *logged `json:"records,omitempty"`
	now     time.Time
}

// maxOpen bounds the sessions that are named in text.
const maxOpen = 20

func (a audited) print(w io.Writer) error {
	lines := cli.Lines(w)
	fmt.Fprintf(lines, "The log %s has %d entries, from %s to %s (%s ago), %s.\n", a.Origin, a.Size, cli.Time(a.From),
		cli.Time(a.Until), a.now.Sub(a.Until).Round(time.Second), seenBy(a.Witnesses))
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(a.Entries)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", a.Entries[kind], kind))
	}
	fmt.Fprintf(lines, "%s\n", strings.Join(kinds, ", "))
	for _, index := range a.Sessions[:min(maxOpen, len(a.Sessions))] {
		fmt.Fprintf(lines, "session without an end yet: entry %d\n", index)
	}
	if n := len(a.Sessions) - maxOpen; n > 0 {
		fmt.Fprintf(lines, "%d more sessions have no end yet\n", n)
	}
	for _, f := range a.Findings {
		fmt.Fprintf(lines, "%s at entry %d: %s\n", strings.ToUpper(string(f.Problem)), f.Index, f.Detail)
	}
	all := int64(0)
	for _, n := range a.Found {
		all += n
	}
	if listed := int64(len(a.Findings)); all > listed {
		fmt.Fprintf(lines, "%d more problems\n", all-listed)
	}
	if all == 0 {
		fmt.Fprintln(lines, "Nothing in the log contradicts it.")
	}
	if a.Records != nil {
		fmt.Fprintln(w)
		a.Records.print(w)
	}
	return nil
}
