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

// newEncoder returns an encoder of JSON that a terminal can show: see [Plain]. It writes whole values.
func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(filter{w, func(text string) string { return string(terminal.JSON([]byte(text))) }})
	enc.SetEscapeHTML(false)
	return enc
}

// PrintJSON prints a result that is always JSON, on one line or, if pretty is set, indented.
func PrintJSON(c *cobra.Command, pretty bool, v any) error {
	if pretty {
		return WriteJSON(c.OutOrStdout(), v)
	}
	return WriteJSONLine(c.OutOrStdout(), v)
}

// filter changes each text before it writes it.
type filter struct {
	w      io.Writer
	change func(string) string
}

func (f filter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(f.w, f.change(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Plain returns a writer of text that cannot steer a terminal: see [terminal.Plain]. Each Write has to be whole
// characters.
func Plain(w io.Writer) io.Writer { return filter{w, terminal.Plain} }

// Unbroken is [terminal.Unbroken].
func Unbroken(s string) string { return terminal.Unbroken(s) }

// Lines returns a writer of lines for a terminal, as [Plain] does. Each Write has to be one line: a value in it cannot
// draw lines or columns of its own.
func Lines(w io.Writer) io.Writer {
	return filter{Plain(w), func(line string) string {
		text, ended := strings.CutSuffix(line, "\n")
		if text = Unbroken(text); ended {
			text += "\n"
		}
		return text
	}}
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
func Indent(w io.Writer) io.Writer {
	return filter{w, func(lines string) (indented string) {
		for line := range strings.Lines(lines) {
			indented += "    " + line
		}
		return indented
	}}
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
