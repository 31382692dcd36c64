// Package preset has ready rules for known agents and APIs, and adds them to a sidecar's configuration.
package preset

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/strict"
)

// Preset is a file with some keys of a sidecar's configuration.
type Preset struct {
	Name  string `json:"preset"`
	About string `json:"for"`  // its first line
	Text  string `json:"yaml"` // with its comments
}

// Subject is the placeholder in presets for the name of the agent that posts.
const Subject = "SUBJECT"

// All returns the presets by name.
func All() (all []Preset) {
	entries, _ := configs.Presets.ReadDir("presets") // embedded, so it is there
	for _, e := range entries {
		raw, _ := configs.Presets.ReadFile("presets/" + e.Name())
		about, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "# "), "\n")
		all = append(all, Preset{strings.TrimSuffix(e.Name(), path.Ext(e.Name())), about, string(raw)})
	}
	return all
}

// Find returns the preset of this name.
func Find(name string) (Preset, error) {
	all := All()
	if i := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	hint := strict.Suggest(name, names)
	if hint == "" {
		hint = "; there are " + strings.Join(names, ", ")
	}
	return Preset{}, fmt.Errorf("there is no preset %.80q%s", name, hint)
}
