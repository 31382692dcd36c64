package inference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/proxy/inference/members"
)

// Dialect is the shape of a model API.
type Dialect string

const (
	OpenAIChat        Dialect = "openai-chat"        // POST /v1/chat/completions, which many servers offer
	OpenAIResponses   Dialect = "openai-responses"   // POST /v1/responses
	OpenAIEmbeddings  Dialect = "openai-embeddings"  // POST /v1/embeddings
	OpenAICompletions Dialect = "openai-completions" // POST /v1/completions, without conversations and tools
	// POST /v1/messages, also :rawPredict of Vertex AI, and the Invoke operations of Amazon Bedrock
	AnthropicMessages Dialect = "anthropic-messages"
	// POST .../models/{model}:generateContent and :streamGenerateContent, also of Vertex AI
	Gemini          Dialect = "gemini"
	BedrockConverse Dialect = "bedrock-converse" // POST /model/{model}/converse and converse-stream
	OllamaChat      Dialect = "ollama-chat"      // POST /api/chat
)

var Dialects = [...]Dialect{OpenAIChat, OpenAIResponses, OpenAIEmbeddings, OpenAICompletions, AnthropicMessages, Gemini,
	BedrockConverse, OllamaChat}

// Rule says how calls are read.
type Rule struct {
	Dialect Dialect
	// Hosted lists what the provider may do by itself, besides answering: types of tools that it runs, members of the
	// request, or [RemoteContent]. Everything else is refused.
	Hosted []string
	// AllowUnknown lets members of the request pass that [members.Known] does not have. Tools and content of unknown
	// types are refused all the same.
	AllowUnknown bool
}

// RemoteContent means content that the provider fetches from a URL in the request.
const RemoteContent = "remote_content"

// Untyped means a tool, or an item of the input, without a type.
const Untyped = "untyped"

var hostedName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Check refuses a malformed rule.
func (r Rule) Check() error {
	if !slices.Contains(Dialects[:], r.Dialect) {
		return fmt.Errorf("%q is not a supported API: %s", r.Dialect,
			strings.Trim(strings.Join(strings.Fields(fmt.Sprint(Dialects)), ", "), "[]"))
	}
	known := members.Of(string(r.Dialect))
	for i, name := range r.Hosted {
		switch {
		case !hostedName.MatchString(name):
			return fmt.Errorf(
				"%q is neither the type of a tool nor the name of a member: letters, digits, _, . and -, 64 at most",
				name)
		case slices.Contains(r.Hosted[:i], name):
			return fmt.Errorf("%q is listed twice", name)
		case known.Tools[name] == members.Content:
			return fmt.Errorf("%q is a tool that the agent runs: such tools need not be listed", name)
		}
	}
	return nil
}
