package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/upstream"
)

const maxModels = 64

// Dialects are the APIs into which prompts are translated.
var Dialects = [...]inference.Dialect{inference.OpenAIChat, inference.OpenAIResponses, inference.AnthropicMessages}

// Rule lists the models that an egress rule offers at [Path].
type Rule struct {
	Models    []string
	MaxTokens int // the most tokens of an answer, and the default
}

// Check refuses a rule that offers nothing.
func (r Rule) Check() error {
	if len(r.Models) == 0 || len(r.Models) > maxModels {
		return fmt.Errorf("it lists %d models: list at least one, and at most %d", len(r.Models), maxModels)
	}
	for i, m := range r.Models {
		if !members.IsName(m) {
			return fmt.Errorf("%q is not the name of a model: letters, digits and _-.:/@+, at most 128", m)
		}
		if slices.Contains(r.Models[:i], m) {
			return fmt.Errorf("the model %q is listed twice", m)
		}
	}
	if r.MaxTokens < 1 {
		return errors.New("maxTokens is not positive")
	}
	return nil
}

// Models are the models that all rules offer, the default first.
type Models []Model

// Model is a model that an agent can ask for.
type Model struct {
	Name      string
	Dialect   inference.Dialect
	MaxTokens int
	Target    upstream.Target
	path      *url.URL
}

// Add adds the models of one rule. observe names the shape of the rule's API.
func (all *Models) Add(r Rule, observe *inference.Rule, m match.Match) error {
	if err := r.Check(); err != nil {
		return err
	}
	if observe == nil {
		return errors.New("the rule needs observe, which says the shape of the API")
	}
	if !slices.Contains(Dialects[:], observe.Dialect) {
		return fmt.Errorf("prompts are not translated for %s, only for openai-chat, openai-responses "+
			"and anthropic-messages", observe.Dialect)
	}
	if strings.Contains(m.Path, "{") {
		return errors.New("the rule's URL has a {name}, so the path of a request is not known")
	}
	path, err := url.ParseRequestURI(m.Path)
	if err != nil {
		return err
	}
	for _, name := range r.Models {
		if slices.ContainsFunc(*all, func(m Model) bool { return m.Name == name }) {
			return fmt.Errorf("another rule offers the model %q", name)
		}
		*all = append(*all,
			Model{name, observe.Dialect, r.MaxTokens, upstream.Target{Scheme: m.Scheme, Host: m.Host, Port: m.Port},
				path})
	}
	return nil
}

// Find returns the model with a name, or the default for no name.
func (all Models) Find(name string) (Model, error) {
	if len(all) == 0 {
		return Model{}, refusal.New("generate_model", "no egress rule offers a model")
	}
	if name == "" {
		return all[0], nil
	}
	if i := slices.IndexFunc(all, func(m Model) bool { return m.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Model{}, refusal.New("generate_model", "no egress rule offers the model that the request names")
}

// Request translates r into a request to the model's API. It copies the HTTP version of by, the agent's request.
func (m Model) Request(ctx context.Context, r *Request, by *http.Request) (*http.Request, error) {
	header, body, err := r.to(m)
	if err != nil {
		return nil, err
	}
	path := *m.path
	return (&http.Request{
		Method: http.MethodPost, URL: &path, Proto: by.Proto, ProtoMajor: by.ProtoMajor, ProtoMinor: by.ProtoMinor,
		Host:   m.Target.Authority(),
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx), nil
}
