// Package chart makes the parts of the Helm chart that follow from the source, and tests the chart without a cluster.
package chart

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/actionproof/mediator/internal/config"
)

//go:embed schema.yaml
var base []byte

// Schema returns the chart's values.schema.json: schema.yaml with the keys of the configuration files.
func Schema() ([]byte, error) {
	var root map[string]any
	if err := yaml.UnmarshalStrict(base, &root); err != nil {
		return nil, err
	}
	if err := expand(root); err != nil {
		return nil, err
	}
	return append(appendFolded(nil, root, "", 0), '\n'), nil
}

// columns bounds a line of the schema, so that it can be reviewed.
const columns = 120

// appendFolded appends JSON that breaks only what does not fit on its line, of which begun columns are taken.
func appendFolded(to []byte, v any, indent string, begun int) []byte {
	flat, _ := json.Marshal(v) // it was YAML
	m, isObject := v.(map[string]any)
	if len(indent)+begun+len(flat)+len(",") <= columns || !isObject {
		return append(to, flat...)
	}
	to = append(to, '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			to = append(to, ',')
		}
		quoted := strconv.Quote(name) + ": "
		to = append(to, "\n  "+indent+quoted...)
		to = appendFolded(to, m[name], indent+"  ", len(quoted))
	}
	return append(to, "\n"+indent+"}"...)
}

// expand replaces each {keysOf: KIND, only: KEYS} by the schema of these keys, none of which is required: the process
// says what is missing when config check reads the rendered file.
func expand(node map[string]any) error {
	if kind, ok := node["keysOf"].(string); ok {
		return expandKind(node, kind)
	}
	for _, child := range node {
		if m, ok := child.(map[string]any); ok {
			if err := expand(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func expandKind(node map[string]any, kind string) error {
	schema, err := config.Schema(kind)
	if err != nil {
		return err
	}
	properties, only := schema["properties"].(map[string]any), node["only"].([]any)
	for _, key := range only {
		if properties[key.(string)] == nil {
			return fmt.Errorf("the configuration of %s has no key %v", kind, key)
		}
	}
	for key := range properties {
		if !slices.Contains(only, any(key)) {
			delete(properties, key)
		}
	}
	clear(node)
	node["type"], node["additionalProperties"], node["properties"] = "object", false, properties
	return nil
}
