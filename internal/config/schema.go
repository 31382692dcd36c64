package config

import (
	"fmt"

	"github.com/actionproof/mediator/internal/config/fields"
)

// Schema returns the JSON Schema of a configuration file, by the name of its kind.
func Schema(name string) (map[string]any, error) {
	for _, kind := range fileKinds {
		if kind.schema == name && name != "" {
			s := fields.Schema(kind.keys)
			s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
			return s, nil
		}
	}
	return nil, fmt.Errorf("%q is not serve, trigger, control, reputation, registrar, client, console, contexts or root",
		name)
}
