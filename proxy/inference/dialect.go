package inference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Dialect is the shape of a model API.
type Dialect string

const (
	OpenAIChat        Dialect = "openai-chat"        // POST /v1/chat/completions, which many servers offer
	OpenAIResponses   Dialect = "openai-responses"   // POST /v1/responses
	AnthropicMessages Dialect = "anthropic-messages" // POST /v1/messages
)

var Dialects = [...]Dialect{OpenAIChat, OpenAIResponses, AnthropicMessages}

// Rule says how calls are read.
type Rule struct {
	Dialect Dialect
	// Hosted lists what the provider may do by itself, besides answering: types of tools that it runs, members of the
	// request, or [RemoteContent]. Everything else is refused.
	Hosted []string
}

// RemoteContent means content that the provider fetches from a URL in the request.
const RemoteContent = "remote_content"

// Untyped means a tool, or an item of the input, without a type.
const Untyped = "untyped"

var hostedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Check refuses a malformed rule.
func (r Rule) Check() error {
	if !slices.Contains(Dialects[:], r.Dialect) {
		return fmt.Errorf("%q is not a supported API: %s, %s, %s", r.Dialect, OpenAIChat, OpenAIResponses,
			AnthropicMessages)
	}
	for i, name := range r.Hosted {
		switch {
		case !hostedName.MatchString(name):
			return fmt.Errorf(
				"%q is neither the type of a tool nor the name of a member: letters, digits, _, . and -, 64 at most", name)
		case slices.Contains(r.Hosted[:i], name):
			return fmt.Errorf("%q is listed twice", name)
		case slices.Contains(apis[r.Dialect].agentTools, name):
			return fmt.Errorf("%q is a tool that the agent runs: such tools need not be listed", name)
		}
	}
	return nil
}

type api struct {
	// agentTools are types of tools that the agent runs; [tool.isAgents] adds some. All other types count as hosted.
	agentTools []string
	// members only shape the answer. Unknown members may do more: one server's member makes it search the web.
	members []string
}

// apis do not list the members by which the provider acts or uses what it has kept: web_search_options; background,
// conversation, previous_response_id, prompt and access_programs; mcp_servers and container.
var apis = map[Dialect]api{
	OpenAIChat: {
		agentTools: []string{"function", "custom"},
		// The second list has sampling options of compatible servers.
		members: append(strings.Fields(`
			messages model stream stream_options tools tool_choice parallel_tool_calls functions function_call audio
			frequency_penalty logit_bias logprobs max_tokens metadata modalities moderation n prediction
			presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
			response_format safety_identifier seed service_tier stop store temperature top_logprobs top_p user
			verbosity max_completion_tokens`),
			strings.Fields(`
				top_k min_p top_a typical_p repetition_penalty length_penalty best_of use_beam_search min_tokens
				ignore_eos stop_token_ids skip_special_tokens chat_template_kwargs guided_json guided_regex
				guided_choice guided_grammar thinking enable_thinking reasoning random_seed safe_prompt`)...),
	},
	OpenAIResponses: {
		agentTools: strings.Fields(`
			function custom local_shell apply_patch computer computer_use_preview`),
		members: strings.Fields(`
			input instructions model stream stream_options tools tool_choice parallel_tool_calls max_tool_calls
			max_output_tokens store temperature top_logprobs top_p user context_management include metadata
			moderation prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier
			service_tier text truncation`),
	},
	AnthropicMessages: {
		agentTools: strings.Fields(`
			custom bash_20241022 bash_20250124 text_editor_20241022 text_editor_20250124 text_editor_20250429
			text_editor_20250728 computer_20241022 computer_20250124 computer_20251124 memory_20250818
			computer_toolset_20260801 browser_toolset_20260801`),
		members: strings.Fields(`
			messages model stream system tools tool_choice max_tokens metadata stop_sequences temperature top_k top_p
			thinking service_tier cache_control context_management compaction diagnostics inference_geo output_config
			output_format speed fallbacks fallback_credit_token`),
	},
}
