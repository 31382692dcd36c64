// Package strict reads configurations, policies and manifests in YAML. It accepts one spelling of each thing, and
// reports every mistake with line, column and key.
//
//	strict.go  a file and its mistakes
//	walk.go    compares a file with a type
//	near.go    the word, or the type, that was probably meant
package strict

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/terminal"
)

const maxFindings = 200

// Finding is one mistake in a file.
type Finding struct {
	Line, Column int    // from 1
	Key          string // such as rules[0].when; empty for the file as a whole
	Text         string // what is wrong with the key
}

// Error returns one line: keys and values of a foreign file draw no lines of their own.
func (f Finding) Error() string {
	return terminal.Unbroken(
		fmt.Sprintf("line %d, column %d: %s: %s", f.Line, f.Column, cmp.Or(f.Key, "the file"), f.Text))
}

// File is a file with its findings. Checks of values add theirs. The zero value is an empty file.
type File struct {
	root  yaml.Node
	found []Finding
	more  int // findings beyond maxFindings
}

// Options say how a file is read.
type Options struct {
	// Complete gives a file one meaning and one hash: a key is required unless its tag says omitempty, an optional one
	// may not be empty, and anchors and aliases are refused.
	Complete bool
	// JSON says that the struct has json tags in place of yaml tags.
	JSON bool
	// MaxBytes bounds the file; zero is no bound.
	MaxBytes int
}

// Read decodes one YAML document, which may be JSON, into the struct that to points to. An unknown key, a duplicate, a
// missing value or another type is a finding of the file; then to may be incomplete. See [File.Err].
func Read(raw []byte, to any, o Options) (*File, error) {
	if o.MaxBytes > 0 && len(raw) > o.MaxBytes {
		return nil, fmt.Errorf("the file has %d bytes; at most %d are read", len(raw), o.MaxBytes)
	}
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil { // refuses a second document
		return nil, syntaxError(err)
	}
	f := &File{root: *doc.Content[0]}
	walk := walker{File: f, Options: o}
	walk.value("", &f.root, reflect.TypeOf(to).Elem())
	if len(f.found) > 0 {
		_ = f.root.Decode(to) // what is valid, so that one run reports everything
		return f, nil
	}
	if !o.JSON {
		return f, f.root.Decode(to)
	}
	var document any
	if err := f.root.Decode(&document); err != nil {
		return nil, err
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return f, json.Unmarshal(text, to)
}

var position = regexp.MustCompile(`at L(?:\d+\.C\d+-L)?(\d+)\.C(?:\d+-C)?(\d+): `)

func syntaxError(err error) error {
	text := err.Error()
	switch at := position.FindStringSubmatchIndex(text); {
	case at != nil:
		return fmt.Errorf("line %s, column %s: this is not YAML: %s", text[at[2]:at[3]], text[at[4]:at[5]],
			terminal.Unbroken(text[at[1]:]))
	case strings.HasSuffix(text, "no documents in stream"):
		return errors.New("the file is empty")
	case strings.HasSuffix(text, "found multiple"):
		return errors.New("the file has a second document (---); only one is allowed")
	}
	return fmt.Errorf("this is not YAML: %w", err)
}

// Add adds a finding about a key, such as rules[0].when. If the key is missing, the finding points at the part around
// it.
func (f *File) Add(key, format string, args ...any) {
	n := f.find(key)
	f.addAt(n, key, format, args...)
}

func (f *File) addAt(n *yaml.Node, key, format string, args ...any) {
	if len(f.found) == maxFindings {
		f.more++
		return
	}
	f.found = append(f.found, Finding{n.Line, n.Column, key, fmt.Sprintf(format, args...)})
}

// Correct reports whether there is no finding.
func (f *File) Correct() bool { return len(f.found) == 0 }

// Err returns the findings in the file's order, one a line with prefix, or nil.
func (f *File) Err(prefix string) error {
	slices.SortStableFunc(f.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var errs []error
	for _, found := range f.found {
		errs = append(errs, fmt.Errorf("%s%w", prefix, found))
	}
	if f.more > 0 {
		errs = append(errs, fmt.Errorf("%sand %d more", prefix, f.more))
	}
	return errors.Join(errs...)
}

// find returns the value of a key, or of the nearest part around it.
func (f *File) find(key string) *yaml.Node {
	n := &f.root
	for part := range strings.SplitSeq(strings.ReplaceAll(key, "[", ".["), ".") {
		next := child(n, part)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// child returns a member's value or, for a part such as [2], a list's item; nil without one.
func child(n *yaml.Node, part string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if item, ok := strings.CutPrefix(part, "["); ok {
		i, err := strconv.Atoi(strings.TrimSuffix(item, "]"))
		if err != nil || n.Kind != yaml.SequenceNode || i < 0 || i >= len(n.Content) {
			return nil
		}
		return n.Content[i]
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == part {
			return n.Content[i+1]
		}
	}
	return nil
}
