package main

import (
	"fmt"
	"path/filepath"

	"github.com/actionproof/mediator/proxy/inference/members"
)

// place says which declarations name what may stand in a place.
type place struct {
	name    members.Place
	by      func(declarations, string) ([]string, error)
	sources []source
}

type source struct {
	pkg, file string
	types     []string
}

const (
	openAI    = "openai"
	anthropic = "@anthropic-ai/sdk"
	google    = "@google-ai/generativelanguage"
	vertex    = "@google-cloud/aiplatform"
	aws       = "@aws-sdk/client-bedrock-runtime"
	ollama    = "ollama"

	chatFile      = "resources/chat/completions/completions.d.ts"
	responsesFile = "resources/responses/responses.d.ts"
	protosFile    = "build/protos/protos.d.ts"
	awsFile       = "dist-types/models/models_0.d.ts"
)

func of(pkg, file string, types ...string) source { return source{pkg, file, types} }

// messages names a type of Anthropic's stable API, and one of its betas.
func messages(stable, beta string) []source {
	const dir = "resources/"
	return []source{of(anthropic, dir+"messages/messages.d.ts", stable),
		of(anthropic, dir+"beta/messages/messages.d.ts", beta)}
}

// protos names a message of Google's two APIs for Gemini.
func protos(name string) []source {
	return []source{of(google, protosFile, "google.ai.generativelanguage.v1beta.I"+name),
		of(vertex, protosFile, "google.cloud.aiplatform.v1beta1.I"+name)}
}

var places = []place{
	{"openai-chat request", declarations.members, []source{of(openAI, chatFile, "ChatCompletionCreateParamsBase")}},
	{"openai-chat tools", declarations.types, []source{of(openAI, chatFile, "ChatCompletionTool")}},
	{"openai-chat parts", declarations.types, []source{of(openAI, chatFile, "ChatCompletionContentPart",
		"ChatCompletionContentPartRefusal")}},
	{"openai-responses request", declarations.members, []source{of(openAI, responsesFile, "ResponseCreateParamsBase")}},
	{"openai-responses tools", declarations.types, []source{of(openAI, responsesFile, "Tool")}},
	{"openai-responses items", declarations.types, []source{of(openAI, responsesFile, "ResponseInputItem")}},
	{"openai-responses parts", declarations.types, []source{of(openAI, responsesFile, "ResponseInputContent",
		"ResponseOutputText", "ResponseOutputRefusal", "ResponseReasoningItem.Summary", "ResponseReasoningItem.Content",
		"ResponseFunctionCallOutputItem")}},
	{"openai-embeddings request", declarations.members, []source{of(openAI, "resources/embeddings.d.ts",
		"EmbeddingCreateParams")}},
	{"openai-completions request", declarations.members, []source{of(openAI, "resources/completions.d.ts",
		"CompletionCreateParamsBase")}},
	{"anthropic-messages request", declarations.members, messages("MessageCreateParamsBase", "MessageCreateParamsBase")},
	{"anthropic-messages tools", declarations.types, messages("ToolUnion", "BetaToolUnion")},
	{"anthropic-messages parts", declarations.types, messages("ContentBlockParam", "BetaContentBlockParam")},
	{"gemini request", declarations.members, protos("GenerateContentRequest")},
	{"gemini generationConfig", declarations.members, protos("GenerationConfig")},
	{"gemini tools", declarations.members, protos("Tool")},
	{"gemini parts", declarations.members, protos("Part")},
	{"bedrock-converse request", declarations.members, []source{of(aws, awsFile, "ConverseRequest",
		"ConverseStreamRequest")}},
	{"bedrock-converse tools", declarations.keys, []source{of(aws, awsFile, "Tool")}},
	{"bedrock-converse parts", declarations.keys, []source{of(aws, awsFile, "ContentBlock", "SystemContentBlock",
		"ToolResultContentBlock", "ReasoningContentBlock")}},
	{"ollama-chat request", declarations.members, []source{of(ollama, "dist/browser.d.ts", "ChatRequest")}},
}

// read returns the names in all places, without classes.
func read(modules string) (members.Table, error) {
	files, table := make(map[string]declarations), make(members.Table)
	for _, p := range places {
		table[p.name] = make(map[string]members.Class)
		for _, s := range p.sources {
			path := filepath.Join(modules, s.pkg, s.file)
			if files[path] == nil {
				var err error
				if files[path], err = parse(path); err != nil {
					return nil, err
				}
			}
			for _, name := range s.types {
				found, err := p.by(files[path], name)
				if err != nil || len(found) == 0 {
					return nil, fmt.Errorf("%s: %s names nothing: %w", path, name, err)
				}
				for _, n := range found {
					table[p.name][n] = members.Unknown
				}
			}
		}
	}
	return table, nil
}
