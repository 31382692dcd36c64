package config

import (
	"cmp"

	"github.com/actionproof/mediator/proxy/generate"
)

// Generate says which models agents can ask the mediator for.
type Generate struct {
	// Models are the names of the models on offer; no other rule may offer them. The first model of the first rule is
	// the default.
	Models []string `yaml:"models" need:"yes"`
	// MaxTokens bounds the tokens that an agent may request, and applies if the agent names no number. Default 1024.
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
