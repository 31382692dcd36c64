package inference

import "github.com/actionproof/mediator/evidence/interaction"

type usage struct {
	Prompt        *int64       `json:"prompt_tokens"`
	Completion    *int64       `json:"completion_tokens"`
	Input         *int64       `json:"input_tokens"`
	Output        *int64       `json:"output_tokens"`
	PromptParts   usageDetails `json:"prompt_tokens_details"`
	InputParts    usageDetails `json:"input_tokens_details"`
	ChoiceParts   usageDetails `json:"completion_tokens_details"`
	OutputParts   usageDetails `json:"output_tokens_details"`
	CacheRead     *int64       `json:"cache_read_input_tokens"`
	CacheCreation *int64       `json:"cache_creation_input_tokens"`
}

// googleUsage counts thoughts beside the output.
type googleUsage struct {
	Prompt   *int64 `json:"promptTokenCount"`
	Tools    *int64 `json:"toolUsePromptTokenCount"`
	Output   *int64 `json:"candidatesTokenCount"`
	Thoughts *int64 `json:"thoughtsTokenCount"`
	Cached   *int64 `json:"cachedContentTokenCount"`
}

func (u googleUsage) declare(in *Interaction) {
	declare(&in.Input, sum(u.Prompt, u.Tools))
	declare(&in.Output, sum(u.Output, u.Thoughts), u.Thoughts) // without an answer, no count of its tokens
	declare(&in.Cached, u.Cached)
	declare(&in.Reasoning, u.Thoughts)
}

// amazonUsage counts cached tokens beside the input.
type amazonUsage struct {
	Input      *int64 `json:"inputTokens"`
	Output     *int64 `json:"outputTokens"`
	CacheRead  *int64 `json:"cacheReadInputTokens"`
	CacheWrite *int64 `json:"cacheWriteInputTokens"`
}

func (u amazonUsage) declare(in *Interaction) {
	declare(&in.Input, sum(u.Input, u.CacheRead, u.CacheWrite))
	declare(&in.Output, u.Output)
	declare(&in.Cached, u.CacheRead)
}

// sum returns nil if the first count is not there.
func sum(counts ...*int64) *int64 {
	if counts[0] == nil {
		return nil
	}
	all := int64(0)
	for _, n := range counts {
		if n != nil {
			all += min(max(*n, 0), maxCount)
		}
	}
	return &all
}

type usageDetails struct {
	Cached    *int64 `json:"cached_tokens"`
	Reasoning *int64 `json:"reasoning_tokens"`
	Thinking  *int64 `json:"thinking_tokens"`
}

func (u usage) declare(in *Interaction) {
	// the Messages API counts cached tokens beside the input
	declare(&in.Input, u.Prompt, sum(u.Input, u.CacheRead, u.CacheCreation))
	declare(&in.Output, u.Completion, u.Output)
	declare(&in.Cached, u.PromptParts.Cached, u.InputParts.Cached, u.CacheRead)
	declare(&in.Reasoning, u.ChoiceParts.Reasoning, u.OutputParts.Reasoning, u.OutputParts.Thinking)
}

// the largest number that a receipt can hold
const maxCount = 1<<53 - 1

// declare keeps the old figure if no count is there.
func declare(to *interaction.Figure, counts ...*int64) {
	for _, n := range counts {
		if n != nil && *n >= 0 {
			*to = interaction.Declared(min(*n, maxCount))
			return
		}
	}
}
