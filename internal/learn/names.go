package learn

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

// dialects are the APIs of models by the ends of their paths.
var dialects = []struct {
	end string
	api inference.Dialect
}{
	{"/chat/completions", inference.OpenAIChat}, {"/v1/responses", inference.OpenAIResponses},
	{"/v1/messages", inference.AnthropicMessages}, {"/v1/embeddings", inference.OpenAIEmbeddings},
	{"/v1/completions", inference.OpenAICompletions}, {"/api/chat", inference.OllamaChat},
	{":generateContent", inference.Gemini}, {":streamGenerateContent", inference.Gemini},
	{"/converse", inference.BedrockConverse}, {"/converse-stream", inference.BedrockConverse},
}

func dialect(r ledger.Record) string {
	for _, d := range dialects {
		if r.Method == http.MethodPost && strings.HasSuffix(r.Path, d.end) {
			return string(d.api)
		}
	}
	return ""
}

func operation(method, path string) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodDelete: "delete"}[method]
	return word(cmp.Or(verb, "update") + " " + words(path))
}

func words(path string) string {
	var all []string
	for s := range strings.SplitSeq(path, "/") {
		if s != "" && s[0] != '{' && !version.MatchString(s) {
			all = append(all, s)
		}
	}
	return strings.Join(all[max(0, len(all)-2):], " ")
}

var unwordly = regexp.MustCompile(`[^A-Za-z0-9]+`)

// word writes a text as the name of an operation.
func word(text string) string {
	return cmp.Or(strings.Trim(unwordly.ReplaceAllString(fmt.Sprintf("%.60s", text), "_"), "_"), "post")
}

// namer makes names of rules. It has those that are taken.
type namer map[string]bool

func (n namer) name(origin, rest string) string {
	_, host, _ := strings.Cut(origin, "://")
	host = strings.TrimPrefix(strings.TrimPrefix(host, "www."), "api.")
	text := unwordly.ReplaceAllString(strings.ToLower(fmt.Sprintf("%.40s %.40s", host, rest)), "-")
	return n.unique(strings.Trim(text, "-"))
}

func (n namer) unique(name string) string {
	free := name
	for i := 2; n[free]; i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	n[free] = true
	return free
}
