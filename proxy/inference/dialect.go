package inference

import (
	"fmt"
	"regexp"
	"slices"
)

// Dialect is the shape of a model API.
type Dialect string

// The dialects.
const (
	OpenAIChat        Dialect = "openai-chat"        // POST /v1/chat/completions, which many servers offer
	OpenAIResponses   Dialect = "openai-responses"   // POST /v1/responses
	AnthropicMessages Dialect = "anthropic-messages" // POST /v1/messages
)

// Dialects are all of them.
var Dialects = [...]Dialect{OpenAIChat, OpenAIResponses, AnthropicMessages}

// Rule says how calls are read.
type Rule struct {
	Dialect Dialect
	// Hosted are the things that the provider may do by itself, besides answering: the types of tools that it runs,
	// members of the request, or [RemoteContent]. Nothing else is let through.
	Hosted []string
}

// RemoteContent is the name for content that the provider fetches from a URL which the request gives.
const RemoteContent = "remote_content"

// Untyped is the name for a tool, or an item of the input, that does not say its type.
const Untyped = "untyped"

// hostedName is what a rule may list.
var hostedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Check refuses a rule that names what cannot be.
func (r Rule) Check() error {
	if !slices.Contains(Dialects[:], r.Dialect) {
		return fmt.Errorf("%q is none of the APIs that are read: %s, %s, %s", r.Dialect, OpenAIChat, OpenAIResponses,
			AnthropicMessages)
	}
	for i, name := range r.Hosted {
		switch {
		case !hostedName.MatchString(name):
			return fmt.Errorf(
				"%q is neither the type of a tool nor the name of a member: letters, digits, _, . and -, 64 at most", name)
		case slices.Contains(r.Hosted[:i], name):
			return fmt.Errorf("%q is listed twice", name)
		case slices.Contains(r.Dialect.agentTools(), name):
			return fmt.Errorf("%q is a tool that the agent runs: such tools need not be listed", name)
		}
	}
	return nil
}

// agentTools are the types of tools that the agent runs: the provider only says how. All others are hosted, also those
// that are not known. A tool is also the agent's where [tool.isAgents] says so.
func (d Dialect) agentTools() []string {
	switch d {
	case OpenAIChat:
		return []string{"function", "custom"}
	case OpenAIResponses:
		return []string{"function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview"}
	case AnthropicMessages:
		return []string{
			"custom", "bash_20241022", "bash_20250124", "text_editor_20241022", "text_editor_20250124", "text_editor_20250429",
			"text_editor_20250728",
			"computer_20241022", "computer_20250124", "computer_20251124", "memory_20250818", "computer_toolset_20260801",
			"browser_toolset_20260801",
		}
	}
	return nil
}

// plain are the members of a request that make the provider do nothing but answer. A member that is not known here may
// do more: there are servers that search the web by a member of their own.
func (d Dialect) plain() []string {
	switch d {
	case OpenAIChat:
		return chatMembers
	case OpenAIResponses:
		return responsesMembers
	case AnthropicMessages:
		return messagesMembers
	}
	return nil
}

// chatMembers are those of chat completions but web_search_options; after max_completion_tokens those by which
// compatible servers let the choice of tokens be set.
var chatMembers = []string{
	"messages", "model", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "functions",
	"function_call", "audio", "frequency_penalty",
	"logit_bias", "logprobs", "max_tokens", "metadata", "modalities", "moderation", "n", "prediction", "presence_penalty",
	"prompt_cache_key",
	"prompt_cache_options", "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed",
	"service_tier", "stop", "store",
	"temperature", "top_logprobs", "top_p", "user", "verbosity", "max_completion_tokens",
	"top_k", "min_p", "top_a", "typical_p", "repetition_penalty", "length_penalty", "best_of", "use_beam_search",
	"min_tokens", "ignore_eos", "stop_token_ids",
	"skip_special_tokens", "chat_template_kwargs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
	"thinking", "enable_thinking", "reasoning",
	"random_seed", "safe_prompt",
}

// responsesMembers are those of responses but background, conversation, previous_response_id and prompt, by which a
// request takes what the provider keeps and is not seen, or goes on when the answer has ended; and access_programs.
var responsesMembers = []string{
	"input", "instructions", "model", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls",
	"max_tool_calls", "max_output_tokens", "store",
	"temperature", "top_logprobs", "top_p", "user", "context_management", "include", "metadata", "moderation",
	"prompt_cache_key", "prompt_cache_options",
	"prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "text", "truncation",
}

// messagesMembers are those of messages but mcp_servers and container, which are there for tools that the provider
// runs.
var messagesMembers = []string{
	"messages", "model", "stream", "system", "tools", "tool_choice", "max_tokens", "metadata", "stop_sequences",
	"temperature", "top_k", "top_p", "thinking",
	"service_tier", "cache_control", "context_management", "compaction", "diagnostics", "inference_geo", "output_config",
	"output_format", "speed", "fallbacks",
	"fallback_credit_token",
}
