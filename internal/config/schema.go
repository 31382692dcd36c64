package config

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/internal/config/fields"
)

// SchemaNames returns the names of the kinds of configuration files that have a schema.
func SchemaNames() (names []string) {
	for _, kind := range fileKinds {
		if kind.schema != "" {
			names = append(names, kind.schema)
		}
	}
	return names
}

// Schema returns the JSON Schema of a configuration file, by the name of its kind.
func Schema(name string) (map[string]any, error) {
	for _, kind := range fileKinds {
		if kind.schema == name && name != "" {
			s := fields.Schema(kind.keys)
			s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
			return s, nil
		}
	}
	return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(SchemaNames(), ", "))
}
