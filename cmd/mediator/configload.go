package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

// configFlag adds the flag that says where the configuration file is. name is that of the example.
func configFlag(c *cobra.Command, path *string, name string) {
	c.Flags().StringVar(path, "config", "", "the configuration file, as configs/"+name+" shows it (required)")
	required(c, "config")
}

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 4 << 20

// loaded is a configuration file as it was read.
type loaded[T any] struct {
	T    T
	raw  []byte
	path string
}

// load reads one configuration file strictly.
func load[T any](path string) (loaded[T], error) {
	l := loaded[T]{path: path}
	var err error
	if l.raw, err = readUpTo(path, maxConfig); err != nil {
		return l, fmt.Errorf("configuration: %w", err)
	}
	if err := yaml.Load(l.raw, &l.T, yaml.WithKnownFields()); err != nil {
		return l, fmt.Errorf("configuration %s: %w", path, err)
	}
	var doc yaml.Node
	if err := yaml.Load(l.raw, &doc); err != nil {
		return l, fmt.Errorf("configuration %s: %w", path, err)
	}
	f := findings{}
	for _, root := range doc.Content {
		f.empty("", root, reflect.TypeFor[T]())
	}
	return l, f.err(path)
}

// empty adds a finding for each key of a type that is there without a value. It would read as if it were not there: a guard of which every
// line was commented out would be no guard. What is merged into a mapping (<<) is not looked through, so none is taken.
func (f *findings) empty(path string, n *yaml.Node, t reflect.Type) {
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
			f.empty(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		known := make(map[string]reflect.Type)
		for _, field := range flatFields(t) {
			known[field.key] = field.t
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.ShortTag() == "!!merge" {
				f.add(path, "line %d: merges another mapping (<<): write its keys out", key.Line)
			}
			if below, ok := known[key.Value]; ok {
				f.empty(strings.TrimPrefix(path+"."+key.Value, "."), n.Content[i+1], below)
			}
		}
	}
}

// file returns the absolute path of a file that the configuration names.
func (l loaded[T]) file(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(l.path), name)
}

// findings collects everything that is wrong with a configuration, so that all of it is said at once.
type findings []error

func (f *findings) add(key, format string, args ...any) {
	key = cmp.Or(key, "the file")
	*f = append(*f, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

// need adds a finding for each empty value; pairs are key, value.
func (f *findings) need(pairs ...string) {
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

// choice returns value if it is one of options, the first of which is the default.
func choice(key, value string, f *findings, options ...string) string {
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

// readSecret reads a secret from a file; one line end after it is not part of it.
func readSecret(path string, minimum int) (string, error) {
	raw, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if len(s) < minimum {
		return "", fmt.Errorf("the secret in %s has fewer than %d bytes", path, minimum)
	}
	return s, nil
}

// parseAddress reads an IP address, alone (its port is then 0) or with a port.
func parseAddress(s string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(addr, 0), nil
	}
	return netip.ParseAddrPort(s)
}

func parseNetworks(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is not an address range such as 10.0.0.0/8", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
