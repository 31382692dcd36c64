package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	maxFile     = 256 << 10 // bytes of a manifest or policy file
	maxFindings = 200       // sentences about one file
)

// decodeStrict decodes exactly one YAML document, which may be JSON, into the struct that to points to, and returns its root for
// those who need lines. Every field is required unless its yaml tag says omitempty; and one that may be left out may not be given
// empty, so that a document has one meaning and one hash. Whatever is missing, unknown, there twice or of another type is reported
// with its line and path, all at once. Anchors, aliases and tags are refused: each value stands where it is read.
func decodeStrict(raw []byte, to any) (*yaml.Node, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("the file has %d bytes; at most %d are read", len(raw), maxFile)
	}
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil { // which refuses a second document
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("the file is empty")
	}
	root := doc.Content[0]
	w := &walker{}
	w.value("", root, reflect.TypeOf(to).Elem())
	if err := w.err(); err != nil {
		return nil, err
	}
	return root, yaml.Load(raw, to, yaml.WithKnownFields())
}

// walker holds a document against a type. It descends no further than the type does, however deep the document is nested.
type walker struct{ found []error }

func (w *walker) say(n *yaml.Node, path, format string, args ...any) {
	path = cmp.Or(path, "the document")
	w.found = append(w.found, fmt.Errorf("line %d: %s: %s", n.Line, path, fmt.Sprintf(format, args...)))
}

// err joins what was found, a line each.
func (w *walker) err() error {
	if more := len(w.found) - maxFindings; more > 0 {
		w.found = append(w.found[:maxFindings:maxFindings], fmt.Errorf("and %d more", more))
	}
	return errors.Join(w.found...)
}

func (w *walker) value(path string, n *yaml.Node, t reflect.Type) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		w.say(n, path, "has an anchor, an alias or a tag, and none is taken")
	case t.Kind() == reflect.Struct:
		w.object(path, n, fields(t))
	case t.Kind() == reflect.Slice:
		w.list(path, n, t.Elem())
	default:
		w.scalar(path, n, t.Kind())
	}
}

func (w *walker) list(path string, n *yaml.Node, item reflect.Type) {
	if n.Kind != yaml.SequenceNode {
		w.say(n, path, "must be a list")
		return
	}
	for i, c := range n.Content {
		w.value(fmt.Sprintf("%s[%d]", path, i), c, item)
	}
}

// scalar demands the one plain spelling of a value: YAML 1.1 has nine others for true alone (yes, on, True, …), and an unquoted
// 010 is eight.
func (w *walker) scalar(path string, n *yaml.Node, kind reflect.Kind) {
	if n.Kind != yaml.ScalarNode {
		w.say(n, path, "must be a single value")
		return
	}
	tag, ok, want := n.ShortTag(), false, ""
	switch kind {
	case reflect.Bool:
		ok, want = tag == "!!bool" && (n.Value == "true" || n.Value == "false"), "true or false"
	case reflect.Int64:
		ok, want = tag == "!!int" && strings.Trim(n.Value, "0123456789") == "" && (n.Value == "0" || n.Value[0] != '0'), "a whole number in decimal digits"
	case reflect.String:
		ok, want = tag == "!!str", "a text, in quotes where YAML takes it for something else"
	}
	if !ok {
		w.say(n, path, "must be %s, not %.40q", want, n.Value)
	}
}

func (w *walker) object(path string, n *yaml.Node, known map[string]field) {
	if n.Kind != yaml.MappingNode {
		w.say(n, path, "must be an object")
		return
	}
	seen := make(map[string]bool, len(known))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		f, ok := known[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !ok:
			w.say(key, fmt.Sprintf("%.200s", at), "is not known")
		case seen[key.Value]:
			w.say(key, at, "is there twice")
		case f.optional && empty(value):
			w.say(value, at, "may be left out, but not be empty or false")
		default:
			w.value(at, value, f.t)
		}
		seen[key.Value] = true
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !known[name].optional && !seen[name] {
			w.say(n, join(path, name), "is missing")
		}
	}
}

// empty reports whether n would decode into a zero value.
func empty(n *yaml.Node) bool {
	return len(n.Content) == 0 && (n.Kind != yaml.ScalarNode || n.Value == "" || n.Value == "false")
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// field is one member that a type knows.
type field struct {
	t        reflect.Type
	optional bool
}

// fields lists the members of a struct by their yaml names, those of inlined structs included.
func fields(t reflect.Type) map[string]field {
	out := make(map[string]field, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			maps.Copy(out, fields(f.Type))
			continue
		}
		out[name] = field{f.Type, option == "omitempty"}
	}
	return out
}

// child returns the value of a member of an object, or the item of a list, of a document that decodeStrict has accepted.
func child(n *yaml.Node, name string, item int) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n = n.Content[i+1]
			break
		}
	}
	if item >= 0 {
		n = n.Content[item]
	}
	return n
}
