package cli

import (
	"bufio"
	"io"
	"strings"
)

// JSONArray prints an array of JSON as its elements come, indented as [WriteJSON] does it. Without its end it is no
// JSON.
type JSONArray[T any] struct {
	to     *bufio.Writer // keeps its error until Flush
	indent string        // of the line that the array begins in
	begun  bool
}

// NewJSONArray returns an array that is a whole document.
func NewJSONArray[T any](w io.Writer) *JSONArray[T] { return &JSONArray[T]{to: bufio.NewWriter(w)} }

// Add prints one element.
func (a *JSONArray[T]) Add(v T) error {
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

// close ends the array alone.
func (a *JSONArray[T]) close() {
	end := "\n" + a.indent + "]"
	if !a.begun {
		end = "[]"
	}
	_, _ = a.to.WriteString(end)
}

// End ends the array and the document.
func (a *JSONArray[T]) End() error {
	a.close()
	_, _ = a.to.WriteString("\n")
	return a.to.Flush()
}

// JSONReport prints an object with two members: an array whose elements come one by one, and a summary, which comes
// last.
type JSONReport[T any] struct{ array JSONArray[T] }

// NewJSONReport returns a report whose array is the member with this name.
func NewJSONReport[T any](w io.Writer, name string) *JSONReport[T] {
	out := bufio.NewWriter(w)
	_, _ = out.WriteString("{\n  \"" + name + "\": ")
	return &JSONReport[T]{JSONArray[T]{to: out, indent: "  "}}
}

// Add prints one element of the array.
func (r *JSONReport[T]) Add(v T) error { return r.array.Add(v) }

// End prints the summary, and ends the document.
func (r *JSONReport[T]) End(summary any) error {
	text, err := indented(summary, "  ")
	if err != nil {
		return err
	}
	r.array.close()
	_, _ = r.array.to.WriteString(",\n  \"summary\": " + text + "\n}\n")
	return r.array.to.Flush()
}

// indented returns v as JSON for a line with an indent.
func indented(v any, indent string) (string, error) {
	var text strings.Builder
	enc := newEncoder(&text)
	enc.SetIndent(indent, "  ")
	err := enc.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}
