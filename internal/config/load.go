package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/files"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// File is the file that a configuration was read from.
type File struct {
	Path string // as the caller named it
	Raw  []byte
}

// Resolve returns the path of a file that the configuration names. A relative path starts at the configuration's own folder.
func (f File) Resolve(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(f.Path), name)
}

// load decodes one configuration file strictly into c, and makes the paths in it absolute.
func load(path string, c any) (f File, err error) {
	f.Path = path
	if f.Raw, err = files.ReadUpTo(path, maxFile); err != nil {
		return f, fmt.Errorf("configuration: %w", err)
	}
	if err := yaml.Load(f.Raw, c, yaml.WithKnownFields()); err != nil {
		return f, fmt.Errorf("configuration %s: %w", path, err)
	}
	var doc yaml.Node
	if err := yaml.Load(f.Raw, &doc); err != nil {
		return f, fmt.Errorf("configuration %s: %w", path, err)
	}
	found := findings{}
	for _, root := range doc.Content {
		found.checkNull("", root, reflect.TypeOf(c))
	}
	f.absolute(reflect.ValueOf(c).Elem(), false)
	return f, found.err(path)
}

// absolute makes the paths below v absolute. A path is a text in a field with the tag is:"path".
func (f File) absolute(v reflect.Value, isPath bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.absolute(v.Elem(), isPath)
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.absolute(v.Index(i), isPath)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if tag := v.Type().Field(i).Tag; tag.Get("yaml") != "-" {
				f.absolute(v.Field(i), tag.Get("is") == "path")
			}
		}
	case reflect.String:
		if isPath {
			v.SetString(f.Resolve(v.String()))
		}
	}
}

// findings collects everything that is wrong with a configuration, so that one run reports all of it.
type findings []error

func (f *findings) add(key, format string, args ...any) {
	key = cmp.Or(key, "the file")
	*f = append(*f, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

// required adds a finding for each empty value. pairs are keys and values in turn.
func (f *findings) required(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			f.add(pairs[i], "is required")
		}
	}
}

func (f findings) err(path string) error {
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("configuration %s:\n%w", path, errors.Join(f...))
}

// choice returns value if it is one of options. An empty value is the first option; any other value is a finding.
func (f *findings) choice(key, value string, options ...string) string {
	if value == "" {
		return options[0]
	}
	for _, o := range options {
		if value == o {
			return o
		}
	}
	f.add(key, "%q is none of %v", value, options)
	return options[0]
}

// checkNull adds a finding for each key of a type that has no value. Such a key would read as if it were absent: a guard
// whose lines are all commented out would be no guard. It refuses merge keys (<<), because it does not look through
// what they merge.
func (f *findings) checkNull(path string, n *yaml.Node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.ShortTag() == "!!null" && t.Kind() != reflect.Interface:
		f.add(path, "line %d: has no value: write one, or leave the key out", n.Line)
	case t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			f.checkNull(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		known := make(map[string]reflect.Type)
		for _, field := range KeysOf(t) {
			known[field.Name] = field.Type
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.ShortTag() == "!!merge" {
				f.add(path, "line %d: merges another mapping (<<): write its keys out", key.Line)
			}
			if below, ok := known[key.Value]; ok {
				f.checkNull(strings.TrimPrefix(path+"."+key.Value, "."), n.Content[i+1], below)
			}
		}
	}
}
