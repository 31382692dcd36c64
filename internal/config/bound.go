package config

import (
	"reflect"
	"strings"
)

// RestartKeys returns the keys whose values differ between two configurations and that are bound to the process: only a restart takes them
// over. A key that only one of the two has counts as a whole.
func RestartKeys(running, fresh any) []string {
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
		case key == "-": // the content of a file is bound to the process as much as the file's name
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
