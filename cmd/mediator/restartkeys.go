package main

import (
	"reflect"
	"strings"
)

// restartKeys returns the keys whose values differ between two configurations although they are bound to the process: those that a restart alone
// takes over. A key that only one of them has counts as a whole.
func restartKeys(running, fresh any) []string {
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
		case tag.Get("reload") != "":
			continue
		case option == "inline":
			key = prefix
		case prefix != "":
			key = prefix + "." + key
		}
		keys = append(keys, differing(key, a.Field(i), b.Field(i))...)
	}
	return keys
}
