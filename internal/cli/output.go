package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/terminal"
)

// AsJSON reports whether a command has to print JSON: see [JSONFlag].
func AsJSON(c *cobra.Command) bool {
	is, _ := c.Flags().GetBool("json") // fails without the flag
	return is
}

// Print prints a result: v as JSON with --json, or else the text.
func Print(c *cobra.Command, v any, text string) error {
	return PrintText(c, v, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

// PrintText prints a result: v as JSON with --json, or else what write writes for a terminal.
func PrintText(c *cobra.Command, v any, write func(io.Writer) error) error {
	if AsJSON(c) {
		return WriteJSON(c.OutOrStdout(), v)
	}
	return write(Plain(c.OutOrStdout()))
}

// PrintTable prints a list: as JSON with --json, or else as a table with these heads.
func PrintTable[T any](c *cobra.Command, all []T, row func(T) []any, heads ...any) error {
	return PrintText(c, append([]T{}, all...), func(w io.Writer) error {
		t := Table(w, heads...)
		for _, v := range all {
			t.Row(row(v)...)
		}
		return t.Flush()
	})
}

// WriteJSON writes a result as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	enc := newEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// WriteJSONLine writes a result as one line of JSON.
func WriteJSONLine(w io.Writer, v any) error {
	return newEncoder(w).Encode(v)
}

// newEncoder returns an encoder of JSON that a terminal can show: see [Plain].
func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(jsonWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// jsonWriter escapes what steers a terminal. The encoder writes whole values.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(text []byte) (int, error) {
	if _, err := j.w.Write(terminal.JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// PrintJSON prints a result that is always JSON, on one line or, if pretty is set, indented.
func PrintJSON(c *cobra.Command, pretty bool, v any) error {
	if pretty {
		return WriteJSON(c.OutOrStdout(), v)
	}
	return WriteJSONLine(c.OutOrStdout(), v)
}

// Plain returns a writer of text that cannot steer a terminal: see [terminal.Plain]. Each Write has to be whole
// characters.
func Plain(w io.Writer) io.Writer { return plainWriter{w} }

type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.w, terminal.Plain(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Unbroken is [terminal.Unbroken].
func Unbroken(s string) string { return terminal.Unbroken(s) }

// Lines returns a writer of lines for a terminal, as [Plain] does. Each Write has to be one line: a value in it cannot
// draw lines or columns of its own.
func Lines(w io.Writer) io.Writer { return lineWriter{Plain(w)} }

type lineWriter struct{ w io.Writer }

func (l lineWriter) Write(line []byte) (int, error) {
	text, end := strings.CutSuffix(string(line), "\n")
	if text = Unbroken(text); end {
		text += "\n"
	}
	if _, err := io.WriteString(l.w, text); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Coloured reports whether text for w may have colours: if w is a terminal, and the environment variable NO_COLOR is
// empty.
func Coloured(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && IsTerminal(w) }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Indent returns a writer that indents lines by four columns. Each Write has to be whole lines.
func Indent(w io.Writer) io.Writer { return indentWriter{w} }

type indentWriter struct{ w io.Writer }

func (i indentWriter) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if _, err := io.WriteString(i.w, "    "+line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Grid draws rows in columns with two spaces between them. It has to be flushed.
type Grid struct{ *tabwriter.Writer }

// Table returns a grid with a row of heads, if there are any.
func Table(w io.Writer, heads ...any) Grid {
	t := Grid{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(heads) > 0 {
		t.Row(heads...)
	}
	return t
}

// Row adds a row. A value cannot draw rows or columns of its own: for a tabwriter, form feeds end rows, too.
func (t Grid) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Unbroken(terminal.Plain(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t, strings.Join(row, "\t"))
}

// Time returns a time as commands print it.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Seconds returns a time in Unix seconds as commands print it.
func Seconds(unix int64) string { return Time(time.Unix(unix, 0)) }

// OrDash returns s, or a dash for a table if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Short shortens a long identifier for display.
func Short(s string) string {
	if len(s) <= 16 {
		return s
	}
	return s[:12] + "…"
}
