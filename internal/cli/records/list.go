package records

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/ledger"
)

const rowsInTable = 50

func postsList() *cobra.Command {
	var from Source
	var flags SelectionFlags
	var follow bool
	c := &cobra.Command{
		Use: "list", Short: "List the record, newest first", Args: cli.NoArgs,
		Example: `  mediator posts list --dir .mediator
  mediator posts list --since 24h --state refused
  mediator posts list --key runtime-key:v3 --since 2026-03-02 --until 2026-03-09
  mediator posts list --keys --since 2026-03-02 --until 2026-03-09
  mediator posts list --follow`,
		Long: fmt.Sprintf(
			`Lists the records of calls, newest first: a table of %d, or with --json all as an array. If --limit leaves
records out, standard error names the --cursor for the next ones.

--key lists the posts that rest on a key. --keys lists posts with only their signing keys. Both read an index.

--follow shows the newest %d, or --limit, oldest first, and then each of the sidecar's calls when it ends, without
evidence; with --json as lines of JSON.`,
			rowsInTable, tailOfList),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := flags.Parse(time.Now())
			switch {
			case err != nil:
				return err
			case s.Limit > 0:
			case c.Flags().Changed("limit"):
				return cli.Usagef("--limit is a number of records, from 1 on")
			case follow:
				s.Limit = tailOfList
			case !cli.AsJSON(c):
				s.Limit = rowsInTable
			}
			if follow {
				return followPosts(c, s, from.Admin)
			}
			r, err := from.Open(c.Context())
			if err != nil {
				return err
			}
			defer r.Close()
			return listPosts(c, s, r)
		},
	}
	flags.Add(c)
	c.Flags().IntVar(&flags.Limit, "limit", 0,
		fmt.Sprintf("how many at most: %d in a table, and all with --json", rowsInTable))
	c.Flags().StringVar(&flags.Cursor, "cursor", "", "go on after this record, by its whole id")
	c.Flags().BoolVar(&flags.Keys, "keys", false,
		"only calls with evidence, with the keys that have signed it and nothing else")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each call as it ends")
	from.Add(c)
	cli.Check(c, func(*cobra.Command) error {
		if follow && (from.Ledger != "" || flags.Cursor != "" || flags.until != "" || flags.Key != "" || flags.Keys) {
			return cli.Usagef("--follow asks a sidecar for its calls as they end: leave out --ledger, --cursor, " +
				"--until, --key and --keys")
		}
		return nil
	})
	cli.JSONFlag(c)
	return c
}

const tailOfList = 10

func followPosts(c *cobra.Command, s ledger.Query, at string) error {
	w := c.OutOrStdout()
	colour := cli.Coloured(w)
	show := func(r ledger.Record) error { return PrintCall(w, r, colour) }
	if cli.AsJSON(c) {
		show = func(r ledger.Record) error { return cli.WriteJSONLine(w, r) }
	} else if err := FollowHead(w); err != nil {
		return err
	}
	tail := s.Limit
	s.Limit = 0
	return Follow(c.Context(), at, s, tail, show, func() {
		fmt.Fprintln(c.ErrOrStderr(),
			"mediator: more calls than this reader takes: some are not shown; mediator posts list has all of them")
	})
}

// listPosts prints the selected records. It asks for one more than the limit, to know whether it leaves any out.
func listPosts(c *cobra.Command, s ledger.Query, from *Reader) error {
	table := newTable(c.OutOrStdout(), s.Keys)
	add, end := table.Add, table.Flush
	if cli.AsJSON(c) {
		array := &jsonArray{to: c.OutOrStdout()}
		add, end = array.add, array.end
	}
	limit, shown, last := s.Limit, 0, ""
	if limit > 0 {
		s.Limit++
	}
	more := false
	for p, err := range from.Selected(c.Context(), s) {
		if err != nil {
			return err
		}
		if more = limit > 0 && shown == limit; more {
			break
		}
		if err := add(p); err != nil {
			return err
		}
		shown, last = shown+1, p.ID
	}
	if err := end(); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintf(cli.Lines(c.ErrOrStderr()),
		"mediator: these are %d records, and there are more: go on with --cursor %s, show more with --limit, or all "+
			"with --json\n", shown, last)
	return err
}

// jsonArray prints an array as its elements come, one a line. Without its end it is no JSON: half a list must not look
// complete.
type jsonArray struct {
	to    io.Writer
	begun bool
}

func (a *jsonArray) add(r ledger.Record) error {
	separator := ","
	if !a.begun {
		a.begun, separator = true, "["
	}
	if _, err := io.WriteString(a.to, separator); err != nil {
		return err
	}
	return cli.WriteJSONLine(a.to, r)
}

func (a *jsonArray) end() error {
	text := "]\n"
	if !a.begun {
		text = "[]\n"
	}
	_, err := io.WriteString(a.to, text)
	return err
}

// maxListedCall bounds the shown part of a call, which is ASCII, in bytes. posts show shows all of it.
const maxListedCall = 200

// shortCall returns a record's call for one line: a path of 60 KiB would hide all other lines.
func shortCall(p ledger.Record) string {
	call := strings.TrimSpace(p.Method + " " + p.Host + p.Path + " " + p.Message)
	if p.Learning {
		call = "(learning) " + call
	}
	if len(call) > maxListedCall {
		call = call[:maxListedCall] + "…"
	}
	return call
}

func status(p ledger.Record) string {
	if p.Status == 0 {
		return "-"
	}
	return strconv.Itoa(p.Status)
}

type recordTable struct {
	cli.Grid
	rows int
	keys bool // its records have keys, and no call
}

func newTable(w io.Writer, keys bool) *recordTable {
	heads := []any{"TIME", "ID", "FLOW", "STATE", "CODE", "STATUS", "MS", "CALL"}
	if keys {
		heads = append(heads[:4], "SESSION", "KEYS")
	}
	return &recordTable{Grid: cli.Table(cli.Plain(w), heads...), keys: keys}
}

func (t *recordTable) Add(p ledger.Record) error {
	row := []any{cli.Time(p.Started), p.ID, p.Flow, p.State}
	if t.keys {
		row = append(row, cli.OrDash(p.Session), strings.Join(p.Keys, " "))
	} else {
		row = append(row, cli.OrDash(p.Code), status(p), took(p), shortCall(p))
	}
	t.Row(row...)
	if t.rows++; t.rows%1000 == 0 { // columns are as wide as what is in memory
		return t.Flush()
	}
	return nil
}
