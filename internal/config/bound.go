package config

import (
	"reflect"
	"strings"
)

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
