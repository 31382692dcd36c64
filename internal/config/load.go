package config

import (
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/strict"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// File is the file that a configuration was read from.
type File struct {
	Path string // as the caller named it
	Raw  []byte
}

// Resolve makes a path in the configuration absolute. A relative path starts at the configuration's own folder.
func (f File) Resolve(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(f.Path), name)
}

// load decodes one configuration file strictly into c, and makes the paths in it absolute. file is c's own [File].
func load(path string, c any, file *File) (*findings, error) {
	raw, err := files.ReadUpTo(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	read, err := strict.Read(raw, c, strict.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	*file = File{Path: path, Raw: raw}
	file.absolute(reflect.ValueOf(c).Elem(), false)
	f := &findings{File: read, path: path}
	return f, f.err()
}

// absolute makes the paths below v absolute: the texts in fields with the tag is:"path".
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
