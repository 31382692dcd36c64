// Package fields reads what the types of configuration files say about their keys: their JSON Schema, their paths, and
// which changes need a restart. Package config explains the tags.
package fields

import (
	"reflect"
	"strings"
)

// Key is a key of a configuration file, as a field of its type declares it.
type Key struct {
	Name   string
	Of     reflect.Type
	Owner  string // the Go type that declares it
	Reload bool   // a reload applies it
	Need   bool
	One    []string // its allowed values; nil for any
	From   string   // its bounds; empty for none
	To     string
}

// Keys returns the keys of a type, with those of inlined ones.
func Keys(t reflect.Type) []Key {
	var out []Key
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			out = append(out, Keys(f.Type)...)
			continue
		case key == "-":
			continue
		}
		out = append(out, Key{
			Name: key, Of: f.Type, Owner: t.Name(), Reload: f.Tag.Get("reload") != "", Need: f.Tag.Get("need") != "",
			One: strings.Fields(f.Tag.Get("one")), From: f.Tag.Get("from"), To: f.Tag.Get("to"),
		})
	}
	return out
}

// Schema returns the JSON Schema of a type.
func Schema(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|ms|s|m|h))+$`}
	case t == reflect.TypeFor[Time]():
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Pointer:
		return Schema(t.Elem())
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": Schema(t.Elem())}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	case t.Kind() == reflect.Struct:
		properties, required := make(map[string]any), []string{}
		for _, f := range Keys(t) {
			p := Schema(f.Of)
			if len(f.One) > 0 {
				p["enum"] = f.One
			}
			if f.Need {
				required = append(required, f.Name)
			}
			properties[f.Name] = p
		}
		return map[string]any{
			"type": "object", "additionalProperties": false, "properties": properties, "required": required,
		}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object"}
	default:
		return map[string]any{"type": "integer"}
	}
}

// ChangedBound returns the keys that differ between two configurations and that only a restart applies. A block that
// only one configuration has counts as one key.
func ChangedBound(running, fresh any) []string {
	return differing("", reflect.ValueOf(running), reflect.ValueOf(fresh))
}

func differing(prefix string, a, b reflect.Value) []string {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		return differing(prefix, a.Elem(), b.Elem())
	}
	if a.Kind() != reflect.Struct {
		if reflect.DeepEqual(a.Interface(), b.Interface()) {
			return nil
		}
		return []string{prefix}
	}
	var keys []string
	for i := range a.NumField() {
		tag := a.Type().Field(i).Tag
		key, option, _ := strings.Cut(tag.Get("yaml"), ",")
		switch {
		case tag.Get("reload") != "" || key == "-" && tag.Get("of") == "":
			continue
		case key == "-": // the content of a file is bound too, and not only its name
			key = strings.TrimPrefix(prefix+"."+tag.Get("of"), ".")
		case option == "inline":
			key = prefix
		case prefix != "":
			key = prefix + "." + key
		}
		keys = append(keys, differing(key, a.Field(i), b.Field(i))...)
	}
	return keys
}
