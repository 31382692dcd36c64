package strict

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// walker compares a file with a type. It goes no deeper than the type, also through aliases.
type walker struct {
	*File
	Options
}

func (w *walker) value(key string, n *yaml.Node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if w.Complete && (n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0) {
		w.addAt(n, key, "has an anchor, an alias or a tag, and none of these is allowed")
		return
	}
	at := n // an alias stands where it is used
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch kind := t.Kind(); {
	case kind == reflect.Map && t.Elem().Kind() == reflect.String:
		w.texts(key, n, t.Elem())
	case kind == reflect.Interface || kind == reflect.Map: // takes anything
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && !w.Complete:
		w.addAt(at, key, "has no value: write one, or leave the key out")
	case kind == reflect.Struct:
		w.object(key, n, t)
	case kind == reflect.Slice:
		w.list(key, n, t.Elem())
	default:
		w.scalar(key, n, t)
	}
}

func (w *walker) list(key string, n *yaml.Node, item reflect.Type) {
	if n.Kind != yaml.SequenceNode {
		w.addAt(n, key, "must be a list, not %s", describe(n))
		return
	}
	for i, c := range n.Content {
		w.value(fmt.Sprintf("%s[%d]", key, i), c, item)
	}
}

// texts checks texts under names of any kind.
func (w *walker) texts(key string, n *yaml.Node, item reflect.Type) {
	if n.Kind != yaml.MappingNode {
		w.addAt(n, key, "must be keys with values, not %s", describe(n))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, at := n.Content[i], join(key, n.Content[i].Value)
		switch {
		case name.Kind != yaml.ScalarNode || name.ShortTag() == "!!merge":
			w.addAt(name, key, "has a key that is no text")
		case seen[name.Value]:
			w.addAt(name, at, "is there twice")
		default:
			w.value(at, n.Content[i+1], item)
		}
		seen[name.Value] = true
	}
}

// scalar demands the one plain spelling: YAML 1.1 has nine others for true (yes, on, True, …), and an unquoted 010 is
// eight.
func (w *walker) scalar(key string, n *yaml.Node, t reflect.Type) {
	if n.Kind != yaml.ScalarNode {
		w.addAt(n, key, "must be a single value, not %s", describe(n))
		return
	}
	if read, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok {
		if err := read.UnmarshalText([]byte(n.Value)); err != nil {
			w.addAt(n, key, "%v", err)
		}
		return
	}
	tag, ok, want := n.ShortTag(), false, ""
	switch kind := t.Kind(); kind {
	case reflect.Bool:
		ok, want = tag == "!!bool" && (n.Value == "true" || n.Value == "false"), "true or false"
	case reflect.String:
		ok, want = tag == "!!str" || !w.Complete, "a text, in quotes where YAML takes it for something else"
		if w.JSON && ok {
			n.Tag = "!!str" // Read decodes without the types of the fields
		}
	case reflect.Float64:
		ok, want = tag == "!!int" || tag == "!!float", "a number"
	default:
		ok, want = tag == "!!int" && isNumber(n.Value, t),
			fmt.Sprintf("a whole number in decimal digits, from 0 to %d", ^uint64(0)>>(64-bits(t)))
	}
	if !ok {
		w.addAt(n, key, "must be %s, not %.40q", want, n.Value)
	}
}

// isNumber reports whether s is an unsigned decimal number that fits the type.
func isNumber(s string, t reflect.Type) bool {
	_, err := strconv.ParseUint(s, 10, bits(t))
	return err == nil && (s == "0" || s[0] != '0')
}

// bits returns the number of bits of a type that hold numbers from 0.
func bits(t reflect.Type) int {
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 {
		return t.Bits() - 1
	}
	return t.Bits()
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

func (w *walker) object(key string, n *yaml.Node, t reflect.Type) {
	if n.Kind != yaml.MappingNode {
		w.addAt(n, key, "must be keys with values, not %s", describe(n))
		return
	}
	known := fields(t)
	names := slices.Sorted(maps.Keys(known))
	seen := make(map[string]bool, len(known))
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := join(key, name.Value)
		f, ok := known[name.Value]
		switch {
		case name.ShortTag() == "!!merge" && !w.Complete:
			w.addAt(name, key, "merges another mapping (<<): write its keys out")
		case name.Kind != yaml.ScalarNode || !ok:
			w.addAt(name, fmt.Sprintf("%.200s", at), "is not known%s",
				cmp.Or(Suggest(name.Value, names), "; known here are "+strings.Join(names, ", ")))
		case seen[name.Value]:
			w.addAt(name, at, "is there twice")
		case w.Complete && f.optional && empty(value):
			w.addAt(value, at, "may be left out, but not be empty or false")
		default:
			w.value(at, value, f.t)
		}
		seen[name.Value] = true
	}
	for _, name := range names {
		if w.Complete && !known[name].optional && !seen[name] {
			w.addAt(n, join(key, name), "is missing")
		}
	}
}

func empty(n *yaml.Node) bool {
	return len(n.Content) == 0 && (n.Kind != yaml.ScalarNode || n.Value == "" || n.Value == "false")
}

func join(key, name string) string { return strings.TrimPrefix(key+"."+name, ".") }

type field struct {
	t        reflect.Type
	optional bool
}

// fields lists a struct's members by yaml name, or json name without a yaml tag, with those of inlined structs.
func fields(t reflect.Type) map[string]field {
	out := make(map[string]field, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok {
			tag = f.Tag.Get("json")
		}
		name, option, _ := strings.Cut(tag, ",")
		switch {
		case option == "inline" || tag == "" && f.Anonymous:
			maps.Copy(out, fields(f.Type))
		case name != "-":
			out[name] = field{f.Type, option == "omitempty"}
		}
	}
	return out
}
