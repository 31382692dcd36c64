package config

import (
	"cmp"

	"github.com/actionproof/mediator/proxy/generate"
)

// Generate says what a rule offers to agents that ask the mediator for a model's answer.
type Generate struct {
	// Models are the names of the models on offer; no other rule offers them. The first model of the first rule is the
	// default. Required.
	Models []string `yaml:"models"`
	// MaxTokens is the largest number of tokens that an agent may request, and the default. Default 1024.
	MaxTokens int `yaml:"maxTokens"`
}

// parse returns what a rule offers; nil if it offers nothing. Whether it can is for [proxy.NewRules].
func (g *Generate) parse(key string, f *findings) *generate.Rule {
	if g == nil {
		return nil
	}
	out := &generate.Rule{Models: g.Models, MaxTokens: cmp.Or(g.MaxTokens, 1024)}
	if err := out.Check(); err != nil {
		f.Add(key, "%v", err)
	}
	return out
}
