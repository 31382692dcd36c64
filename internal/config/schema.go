package config

import (
	"fmt"
	"reflect"
	"strings"
)

type keyInfo struct {
	name   string
	of     reflect.Type
	owner  string // the Go type that declares it
	reload bool   // a reload applies it
	need   bool
	one    []string // its allowed values; nil for any
	from   string   // its bounds; empty for none
	to     string
}

func keysOf(t reflect.Type) []keyInfo {
	var out []keyInfo
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			out = append(out, keysOf(f.Type)...)
			continue
		case key == "-":
			continue
		}
		out = append(out, keyInfo{
			name: key, of: f.Type, owner: t.Name(), reload: f.Tag.Get("reload") != "", need: f.Tag.Get("need") != "",
			one: strings.Fields(f.Tag.Get("one")), from: f.Tag.Get("from"), to: f.Tag.Get("to"),
		})
	}
	return out
}

// Schema returns the JSON Schema of a configuration file, by the name of its kind.
func Schema(name string) (map[string]any, error) {
	for _, kind := range fileKinds {
		if kind.schema == name && name != "" {
			s := schema(kind.keys)
			s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
			return s, nil
		}
	}
	return nil, fmt.Errorf("%q is not serve, trigger, control, reputation, registrar, client or root", name)
}

func schema(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|ms|s|m|h))+$`}
	case t.Kind() == reflect.Pointer:
		return schema(t.Elem())
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schema(t.Elem())}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	case t.Kind() == reflect.Struct:
		properties, required := make(map[string]any), []string{}
		for _, f := range keysOf(t) {
			p := schema(f.of)
			if len(f.one) > 0 {
				p["enum"] = f.one
			}
			if f.need {
				required = append(required, f.name)
			}
			properties[f.name] = p
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

// ChangedBoundKeys returns the keys that differ between two configurations and that only a restart applies. A block
// that only one configuration has counts as one key.
func ChangedBoundKeys(running, fresh any) []string {
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
