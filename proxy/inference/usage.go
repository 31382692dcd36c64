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

type usageDetails struct {
	Cached    *int64 `json:"cached_tokens"`
	Reasoning *int64 `json:"reasoning_tokens"`
	Thinking  *int64 `json:"thinking_tokens"`
}

func (u usage) declare(in *Interaction) {
	if u.Input != nil { // the Messages API counts cached tokens beside the input
		all := *u.Input
		for _, more := range []*int64{u.CacheRead, u.CacheCreation} {
			if more != nil {
				all += *more
			}
		}
		u.Input = &all
	}
	declare(&in.Input, u.Prompt, u.Input)
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
