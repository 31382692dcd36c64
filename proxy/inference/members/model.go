package members

import "regexp"

var (
	// models of OpenAI, OpenRouter, Perplexity and Groq that search the web by themselves
	searching = regexp.MustCompile(`(?i):online|-search-(preview|api)|\bsonar\b|\bcompound\b`)
	// OpenRouter's and Amazon's names of instructions that they keep
	keeping = regexp.MustCompile(`(?i)@preset/|:prompt/`)
)

// Searches reports whether the provider searches the web for a model of this name.
func Searches(model string) bool { return searching.MatchString(model) }

// IsPrompt reports whether a model's name names instructions that the provider keeps.
func IsPrompt(model string) bool { return keeping.MatchString(model) }
