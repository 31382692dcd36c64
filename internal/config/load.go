package config

import (
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/strict"
)

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

type findings = fields.Findings

// Configuration is a pointer to the type of a configuration file.
type Configuration[C any] interface {
	*C
	checkAll(f *findings) // by more than its tags
}

// Load reads and checks a configuration file.
func Load[C any, P Configuration[C]](path string) (*C, error) {
	raw, err := files.ReadUpTo(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return parse[C, P](path, raw, true)
}

// parse is Load for a file that has this text. Without secrets, it leaves the files of secrets unread.
func parse[C any, P Configuration[C]](path string, raw []byte, secrets bool) (*C, error) {
	c := new(C)
	f, err := decode(path, raw, c)
	if err != nil {
		return nil, err
	}
	f.NoSecrets = !secrets
	f.Check("", c)
	P(c).checkAll(f)
	return c, f.Err()
}

func load(path string, c any) (*findings, error) {
	raw, err := files.ReadUpTo(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return decode(path, raw, c)
}

// decode decodes a file's text strictly into c, makes its paths absolute, and sets its [File].
func decode(path string, raw []byte, c any) (*findings, error) {
	decoded, err := strict.Read(raw, c, strict.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file := File{Path: path, Raw: raw}
	fields.Resolve(c, file.Resolve)
	reflect.ValueOf(c).Elem().FieldByName("File").Set(reflect.ValueOf(file))
	f := &findings{File: decoded, Path: path}
	return f, f.Err()
}
