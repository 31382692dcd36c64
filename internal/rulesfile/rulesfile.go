// Package rulesfile adds rules to a sidecar's configuration file. Everything else in the file stays as it is, comments
// included.
package rulesfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

// Lists are the keys of a configuration that rules may add items to.
var Lists = []string{"actions", "egress", "deny", "upstreams"}

func refused(format string, args ...any) error {
	return refusal.New("config_malformed", format, args...)
}

// Merge returns file with the items of the [Lists] of rules, a YAML document in the configuration's own form. An item
// that the file has already is left out. file is the text of a configuration. Errors have the code config_malformed.
func Merge(file, rules []byte) ([]byte, error) {
	to, err := Mapping(file, "the configuration")
	if err == nil && to.Style&yaml.FlowStyle != 0 {
		err = refused("the configuration is written in braces: write one key on each line")
	}
	if err != nil {
		return nil, err
	}
	from, err := Mapping(rules, "the file of rules")
	if err != nil {
		return nil, err
	}
	want := make(map[string]any)
	if err := to.Decode(&want); err != nil {
		return nil, refused("the configuration: %v", err)
	}
	out := file
	for i := 0; i < len(from.Content); i += 2 {
		key, items := from.Content[i].Value, from.Content[i+1]
		if !slices.Contains(Lists, key) || items.Kind != yaml.SequenceNode {
			return nil, refused("%.80q is not allowed here; write the rules as lists under the keys %s", key,
				strings.Join(Lists, ", "))
		}
		fresh, err := missing(items, want, key)
		if err != nil {
			return nil, err
		}
		if len(fresh) == 0 {
			continue
		}
		if out, err = add(out, key, fresh); err != nil {
			return nil, err
		}
	}
	return out, verify(out, want)
}

// Mapping returns the top-level keys and values of a document. what names it in errors.
func Mapping(raw []byte, what string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		return nil, refused("%s is not YAML: %v", what, err)
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, refused("%s is YAML, but has no keys", what)
	}
	return top, nil
}

// missing returns the items that the list of this key in has lacks, and adds their values to it.
func missing(items *yaml.Node, has map[string]any, key string) (fresh []*yaml.Node, err error) {
	list, _ := has[key].([]any)
	for _, item := range items.Content {
		var value any
		if err := item.Decode(&value); err != nil {
			return nil, refused("%s: %v", key, err)
		}
		if !slices.ContainsFunc(list, func(v any) bool { return reflect.DeepEqual(v, value) }) {
			list, fresh = append(list, value), append(fresh, item)
		}
	}
	if len(fresh) > 0 {
		has[key] = list
	}
	return fresh, nil
}

// verify wants a text to be the YAML of a value: the merge works on lines, and a file may be of a form that it takes
// for another.
func verify(text []byte, want map[string]any) error {
	got := make(map[string]any)
	if err := yaml.Load(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		return refused("rules cannot be added to a configuration of this form: add them by hand")
	}
	return nil
}

// add appends items to the list under a top-level key, which it makes if it is missing.
func add(file []byte, key string, items []*yaml.Node) ([]byte, error) {
	top, err := Mapping(file, "the configuration")
	if err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(file, []byte("\n"))
	if last := len(lines) - 1; len(lines[last]) == 0 {
		lines = lines[:last]
	} else {
		lines[last] = append(bytes.Clone(lines[last]), '\n')
	}
	for i := 0; i < len(top.Content); i += 2 {
		if top.Content[i].Value != key {
			continue
		}
		list, first, end := top.Content[i+1], top.Content[i].Line-1, len(lines)
		if i+2 < len(top.Content) {
			end = top.Content[i+2].Line - 1
		}
		for end > first+1 && isBetween(lines[end-1]) {
			end--
		}
		if list.Kind == yaml.SequenceNode && list.Style&yaml.FlowStyle == 0 && len(list.Content) > 0 {
			text, err := render(items, list.Column-1)
			return splice(lines, end, end, text), err
		}
		old := list.Content // of a list in brackets, or of none
		text, err := render(append(slices.Clone(old), items...), 2)
		return splice(lines, first, end, append([]byte(key+":\n"), text...)), err
	}
	text, err := render(items, 2)
	return splice(lines, len(lines), len(lines), append([]byte("\n"+key+":\n"), text...)), err
}

// isBetween reports whether a line after a list belongs to what follows: it is empty or a comment at the margin.
func isBetween(line []byte) bool {
	return len(bytes.TrimSpace(line)) == 0 || line[0] == '#'
}

func splice(lines [][]byte, from, to int, text []byte) []byte {
	return slices.Concat(bytes.Join(lines[:from], nil), text, bytes.Join(lines[to:], nil))
}

// render writes a list in block style, its dashes after some spaces.
func render(items []*yaml.Node, indent int) ([]byte, error) {
	text, err := yaml.Dump(&yaml.Node{Kind: yaml.SequenceNode, Content: items}, yaml.WithIndent(2),
		yaml.WithLineWidth(-1))
	if err != nil {
		return nil, refused("%v", err)
	}
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 {
			b.WriteString(strings.Repeat(" ", indent))
		}
		b.Write(line)
	}
	return b.Bytes(), nil
}

// Diff returns the difference of two versions of the file name as diff -u shows it; nothing if they are equal.
func Diff(name string, before, after []byte) string {
	return string(diff.Diff(name, before, name+" with the rules", after))
}

// Write replaces the configuration at path with raw, once it passes the checks of mediator config check. The file keeps
// its mode and its owner.
func Write(path string, raw []byte) error {
	if _, err := config.CheckSidecar(path, raw); err != nil {
		return refused("the configuration was not changed, because with the rules it would not be correct:\n%v", err)
	}
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return files.Rewrite(at, raw)
}
