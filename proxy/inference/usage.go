package inference

// tokens are what a provider says of the tokens of a call. What it does not say is nil.
type tokens struct{ input, output, cached, reasoning *int64 }

// declare notes the tokens. In a stream the last ones count.
func (k tokens) declare(t *tally) {
	declare(&t.in.Input, k.input)
	declare(&t.in.Output, k.output)
	declare(&t.in.Cached, k.cached)
	declare(&t.in.Reasoning, k.reasoning)
}

// chatUsage is the usage of a chat completion.
type chatUsage struct {
	Prompt        *int64 `json:"prompt_tokens"`
	Completion    *int64 `json:"completion_tokens"`
	PromptDetails struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u chatUsage) tokens() tokens {
	return tokens{u.Prompt, u.Completion, u.PromptDetails.Cached, u.CompletionDetails.Reasoning}
}

// responseUsage is the usage of an answer of the Responses API.
type responseUsage struct {
	Input        *int64 `json:"input_tokens"`
	Output       *int64 `json:"output_tokens"`
	InputDetails struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u responseUsage) tokens() tokens {
	return tokens{u.Input, u.Output, u.InputDetails.Cached, u.OutputDetails.Reasoning}
}

// messageUsage is the usage of a message. It counts what came from a cache and what went into one beside the input.
type messageUsage struct {
	Input         *int64 `json:"input_tokens"`
	Output        *int64 `json:"output_tokens"`
	Read          *int64 `json:"cache_read_input_tokens"`
	Write         *int64 `json:"cache_creation_input_tokens"`
	OutputDetails struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (u messageUsage) tokens() tokens {
	k := tokens{output: u.Output, cached: u.Read, reasoning: u.OutputDetails.Thinking}
	if u.Input == nil {
		return k
	}
	all := *u.Input
	for _, more := range []*int64{u.Read, u.Write} {
		if more != nil {
			all += *more
		}
	}
	k.input = &all
	return k
}
