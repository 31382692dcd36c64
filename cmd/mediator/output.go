package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/files"
)

// readInput reads a file that is an argument of a command, or standard input for "-".
func readInput(c *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return files.ReadAll(c.InOrStdin(), "standard input", files.MaxInput)
	}
	return files.ReadUpTo(path, files.MaxInput)
}

// jsonFlag adds --json, which makes a command print its result as JSON.
func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// printResult prints a result: v as JSON if asJSON is set, or else the text.
func printResult(c *cobra.Command, asJSON bool, v any, text string) error {
	if asJSON {
		return printJSON(c.OutOrStdout(), v)
	}
	_, err := fmt.Fprintln(plainWriter{c.OutOrStdout()}, text)
	return err
}

// printJSON writes a result as indented JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeJSONLine writes a result as one line of JSON.
func writeJSONLine(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

// printMaybePretty prints JSON on one line, or indented.
func printMaybePretty(c *cobra.Command, pretty bool, v any) error {
	if pretty {
		return printJSON(c.OutOrStdout(), v)
	}
	writeJSONLine(c.OutOrStdout(), v)
	return nil
}

// plainWriter writes text for a terminal. An agent, or the author of a file, may have chosen parts of the text, and
// must not steer the terminal with them. Control characters, and characters that turn the direction of a line, become
// question marks. Each Write has to be whole characters.
type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(text []byte) (int, error) {
	plain := strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return '?'
		}
		return r
	}, string(text))
	if _, err := io.WriteString(p.w, plain); err != nil {
		return 0, err
	}
	return len(text), nil
}
