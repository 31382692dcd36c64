package members_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference/members"
)

func TestModelInPath(t *testing.T) {
	for path, want := range map[string]string{
		"/openai/deployments/gpt-small/chat/completions":           "gpt-small",
		"/gateway/openai/deployments/gpt%2Dsmall/chat/completions": "gpt-small",
		"/openai/deployments/a%20b/chat/completions":               "a b",
		"/v1/engines/davinci/completions":                          "davinci",
		"/model/anthropic." +
			"claude-3-haiku-20240307-v1%3A0/invoke": "anthropic.claude-3-haiku-20240307-v1:0",
		"/v1beta/models/gemini-2.0-flash:generateContent":                                    "gemini-2.0-flash",
		"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict": "claude-x@1",
		"/v1beta/tunedModels/t-1:generateContent":                                            "t-1",
		"/v1beta/dynamic/d-1:streamGenerateContent":                                          "d-1",
		"/v1/projects/p/locations/l/endpoints/7:generateContent":                             "7",
		"/v1/projects/p/locations/l/endpoints/openapi/chat/completions":                      "-",
		"/serving-endpoints/small/invocations":                                               "small",
		"/openai/Deployments/gpt-small/chat/completions":                                     "gpt-small",
		"/openai/deployments;v=1/gpt-small/chat/completions":                                 "gpt-small",
		"/openai/deployments%2Fgpt-small/chat/completions":                                   "",
		"/openai/deployments/gpt-small%2Fchat/completions":                                   "",
		"/v1/chat/completions":                                                               "-",
		"/v1/models/m/chat/completions":                                                      "-",
		"/openai/v1/model":                                                                   "-",
		"/openai/deployments":                                                                "-",
		"/v1beta/models/:generateContent":                                                    "-",
		"":                                                                                   "-",
	} {
		got, ok := members.ModelInPath(path)
		if !ok {
			got += "-"
		}
		if got != want {
			t.Errorf("%s names %q, want %q", path, got, want)
		}
	}
}

// TestKnown checks the tables: they can be read.
func TestKnown(t *testing.T) {
	for api, names := range map[string][]string{
		"openai-responses": {"input", "tools"}, "anthropic-messages": {"messages", "system"}, "gemini": {"contents"},
	} {
		for _, name := range names {
			if got := members.Of(api).Request[name]; got != members.Content {
				t.Errorf("%s, %s: %s", api, name, got)
			}
		}
	}
	for _, bad := range []string{"content: x", "[a]\nharmless: x", "[a]\ncontent: x x"} {
		if _, err := members.Parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
