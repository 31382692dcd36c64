package config

import (
	"cmp"

	"github.com/actionproof/mediator/proxy/generate"
)

// Generate says which models agents can ask the mediator for.
type Generate struct {
	// Models that no other rule offers. The first model of the first rule is the default.
	Models []string `yaml:"models" need:"yes"`
	// MaxTokens that an agent may request, and gets by default. Default 1024.
	MaxTokens int `yaml:"maxTokens"`
}

// parse returns the models that a rule offers; nil if it offers none. [rules.New] checks whether the rule can.
func (g *Generate) parse(key string, f *findings) *generate.Rule {
	if g == nil || len(g.Models) == 0 {
		return nil
	}
	out := &generate.Rule{Models: g.Models, MaxTokens: cmp.Or(g.MaxTokens, 1024)}
	if err := out.Check(); err != nil {
		f.Add(key, "%v", err)
	}
	return out
}
