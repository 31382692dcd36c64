package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
)

// rowsInTable is how many records a table shows without --limit.
const rowsInTable = 50

// selectionFlags are the flags that select records.
type selectionFlags struct {
	admin.Selection
	since, until, state string
}

func (f *selectionFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "", "only what started at this time or later: as 2026-01-31T15:04:05Z, as the date 2026-01-31 (its midnight, UTC), or as how long ago, 24h")
	c.Flags().StringVar(&f.until, "until", "", "only what started before this time")
	c.Flags().StringVar(&f.state, "state", "", "only this state: "+admin.JoinWords(ledger.States[:]))
	c.Flags().StringVar(&f.Session, "session", "", "only this session")
	c.Flags().StringVar(&f.Flow, "flow", "", "only this flow: "+admin.JoinWords(proxy.Flows[:]))
	c.Flags().StringVar(&f.Key, "key", "", "only those with an artifact that this key has signed: a kid, or a name for all its versions")
}

// parse reads the flags.
func (f *selectionFlags) parse(now time.Time) (s admin.Selection, err error) {
	s = f.Selection
	s.State = ledger.State(f.state)
	for _, flag := range []struct {
		text string
		to   *time.Time
	}{{f.since, &s.Since}, {f.until, &s.Until}} {
		if flag.text != "" && err == nil {
			*flag.to, err = admin.ParseTime(flag.text, now)
		}
	}
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		return s, usageError{err}
	}
	return s, nil
}

func postsList() *cobra.Command {
	var at, copied string
	var flags selectionFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the record, newest first", Args: noArgs,
		Long: fmt.Sprintf(`Lists the records of calls, the newest first: as a table of %d, or with --json all of them, as one JSON array that is written as it is
read. Where --limit leaves records out, a line on standard error says so, and with which --cursor to go on.`, rowsInTable),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := flags.parse(time.Now())
			switch {
			case err != nil:
				return err
			case copied != "" && c.Flags().Changed("admin"):
				return usagef("--ledger reads a copy, and --admin asks a sidecar: give one of them")
			case s.Limit > 0:
			case c.Flags().Changed("limit"):
				return usagef("--limit is a number of records, from 1 on")
			case !asJSON:
				s.Limit = rowsInTable
			}
			records, done, err := openRecords(c.Context(), at, copied)
			if err != nil {
				return err
			}
			defer done()
			return listPosts(c, s, records, asJSON)
		},
	}
	flags.add(c)
	c.Flags().IntVar(&flags.Limit, "limit", 0, fmt.Sprintf("how many at most: %d in a table, and all with --json", rowsInTable))
	c.Flags().StringVar(&flags.Cursor, "cursor", "", "go on after this record, by its whole id")
	c.Flags().StringVar(&copied, "ledger", "", "read this copy of a ledger's file, and ask no sidecar")
	adminFlag(c, &at)
	jsonFlag(c, &asJSON)
	return c
}

// recordsOf yields the records that are selected.
type recordsOf func(context.Context, admin.Selection) iter.Seq2[ledger.Record, error]

// openRecords returns where records are read: from the sidecar at an endpoint or, if copied is not empty, from a copy of a
// ledger's file. done has to be called afterwards.
func openRecords(ctx context.Context, at, copied string) (records recordsOf, done func() error, err error) {
	if copied == "" {
		return func(ctx context.Context, s admin.Selection) iter.Seq2[ledger.Record, error] {
			return admin.Records(ctx, at, s)
		}, func() error { return nil }, nil
	}
	file, err := ledger.OpenCopy(ctx, copied)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, s admin.Selection) iter.Seq2[ledger.Record, error] {
		return s.Records(ctx, file)
	}, file.Close, nil
}

// listPosts prints what is selected. It asks for one record more than the limit, to know whether it leaves any out.
func listPosts(c *cobra.Command, s admin.Selection, records recordsOf, asJSON bool) error {
	var list recordList = newTable(c.OutOrStdout())
	if asJSON {
		list = &jsonArray[ledger.Record]{to: bufio.NewWriter(c.OutOrStdout())}
	}
	limit, shown, last := s.Limit, 0, ""
	if limit > 0 {
		s.Limit++
	}
	more := false
	for p, err := range records(c.Context(), s) {
		if err != nil {
			return err
		}
		if more = limit > 0 && shown == limit; more {
			break
		}
		if err := list.add(p); err != nil {
			return err
		}
		shown, last = shown+1, p.ID
	}
	if err := list.end(); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintf(plainWriter{c.ErrOrStderr()},
		"mediator: %d records are shown, and there are more: go on with --cursor %s, show more with --limit, or all with --json\n", shown, last)
	return err
}

// recordList prints records one after the other, and then the end of the list.
type recordList interface {
	add(r ledger.Record) error
	end() error
}

// maxListedCall bounds how much of a call, which is ASCII, a line of the list shows, in bytes. posts show shows all of
// it.
const maxListedCall = 200

// recordTable prints a line for each record.
type recordTable struct {
	*tabwriter.Writer
	rows int
}

func newTable(w io.Writer) *recordTable {
	t := &recordTable{Writer: tabwriter.NewWriter(plainWriter{w}, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t, "TIME\tID\tFLOW\tSTATE\tCODE\tSTATUS\tMS\tCALL")
	return t
}

func (t *recordTable) add(p ledger.Record) error {
	status := "-"
	if p.Status > 0 {
		status = strconv.Itoa(p.Status)
	}
	call := p.Method + " " + p.Host + p.Path
	if len(call) > maxListedCall { // one call with a path of 60 KiB would hide all others
		call = call[:maxListedCall] + "…"
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Started.UTC().Format(time.RFC3339), p.ID, p.Flow, p.State, orDash(p.Code), status, took(p), call)
	if t.rows++; t.rows%1000 == 0 { // columns are as wide as what is in memory
		return t.Flush()
	}
	return nil
}

func (t *recordTable) end() error { return t.Flush() }

// jsonArray prints an array of JSON, indented as printJSON does it. Without its end it is no JSON.
type jsonArray[T any] struct {
	to     *bufio.Writer // keeps its error until Flush
	indent string        // of the line that it begins in
	begun  bool
}

func (a *jsonArray[T]) add(v T) error {
	separator := ","
	if !a.begun {
		a.begun, separator = true, "["
	}
	text, err := indented(v, a.indent+"  ")
	if err != nil {
		return err
	}
	_, err = a.to.WriteString(separator + "\n" + a.indent + "  " + text)
	return err
}

// close ends the array, and end what is printed.
func (a *jsonArray[T]) close() {
	end := "\n" + a.indent + "]"
	if !a.begun {
		end = "[]"
	}
	_, _ = a.to.WriteString(end)
}

func (a *jsonArray[T]) end() error {
	a.close()
	_, _ = a.to.WriteString("\n")
	return a.to.Flush()
}

// indented returns v as JSON, to stand in a line with an indent.
func indented(v any, indent string) (string, error) {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetIndent(indent, "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}
