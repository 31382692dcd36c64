package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	// maxFile bounds a manifest or policy file, in bytes.
	maxFile = 1 << 20
	// maxDepth bounds its nesting.
	maxDepth = 16
)

// decodeStrict decodes one YAML (or JSON) document into the struct that to points to. Every field is required unless its tag says
// omitempty; what is missing, unknown, twice there or of another type is reported, all at once, each with its line and path.
func decodeStrict(raw []byte, to any) error {
	if len(raw) > maxFile {
		return fmt.Errorf("the file has %d bytes; at most %d are read", len(raw), maxFile)
	}
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil { // exactly one document
		return err
	}
	if len(doc.Content) != 1 {
		return errors.New("the file is empty")
	}
	w := &walker{}
	w.value("", doc.Content[0], reflect.TypeOf(to).Elem(), 0)
	if len(w.found) > 0 {
		return errors.Join(w.found...)
	}
	return yaml.Load(raw, to, yaml.WithKnownFields())
}

// walker holds a document against a type.
type walker struct{ found []error }

func (w *walker) say(n *yaml.Node, path, format string, args ...any) {
	if path == "" {
		path = "the document"
	}
	w.found = append(w.found, fmt.Errorf("line %d: %s: %s", n.Line, path, fmt.Sprintf(format, args...)))
}

func (w *walker) value(path string, n *yaml.Node, t reflect.Type, depth int) {
	switch {
	case depth > maxDepth:
		w.say(n, path, "is nested too deeply")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		w.say(n, path, "aliases and anchors are not taken")
	case t.Kind() == reflect.Struct:
		w.object(path, n, fields(t), depth)
	case t == reflect.TypeFor[Controls]():
		known := make(map[string]field, len(controls))
		for _, c := range controls {
			known[c.name] = field{t.Elem(), true}
		}
		w.object(path, n, known, depth)
	case t.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			w.say(n, path, "must be a list")
			return
		}
		for i, item := range n.Content {
			w.value(fmt.Sprintf("%s[%d]", path, i), item, t.Elem(), depth+1)
		}
	default:
		w.scalar(path, n, t)
	}
}

// scalar demands the plain spelling of a type: true and false, decimal numbers, and texts that are not something else.
func (w *walker) scalar(path string, n *yaml.Node, t reflect.Type) {
	if n.Kind != yaml.ScalarNode {
		w.say(n, path, "must be a single value")
		return
	}
	ok, want := n.ShortTag() == "!!str", "a text"
	switch t.Kind() {
	case reflect.Bool:
		ok, want = n.ShortTag() == "!!bool" && (n.Value == "true" || n.Value == "false"), "true or false"
	case reflect.Int64:
		ok, want = n.ShortTag() == "!!int" && strings.Trim(n.Value, "0123456789") == "" && (n.Value == "0" || n.Value[0] != '0'), "a whole number"
	}
	if !ok {
		w.say(n, path, "must be %s, not %.40q", want, n.Value)
	}
}

func (w *walker) object(path string, n *yaml.Node, known map[string]field, depth int) {
	if n.Kind != yaml.MappingNode {
		w.say(n, path, "must be an object")
		return
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		f, ok := known[key.Value]
		switch {
		case slices.Contains(seen, key.Value):
			w.say(key, at, "is there twice")
		case !ok:
			w.say(key, at, "is not known")
		default:
			w.value(at, value, f.t, depth+1)
		}
		seen = append(seen, key.Value)
	}
	for _, name := range sortedKeys(known) {
		if known[name].required && !slices.Contains(seen, name) {
			w.say(n, strings.TrimPrefix(path+"."+name, "."), "is missing")
		}
	}
}

type field struct {
	t        reflect.Type
	required bool
}

// fields lists the members of a struct by their yaml names, those of inlined structs included.
func fields(t reflect.Type) map[string]field {
	out := make(map[string]field)
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			for k, v := range fields(f.Type) {
				out[k] = v
			}
			continue
		}
		out[name] = field{f.Type, option != "omitempty"}
	}
	return out
}

func sortedKeys(m map[string]field) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
