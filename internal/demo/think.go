package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
)

// maxThoughts bounds how often the agent asks the model before it posts.
const maxThoughts = 4

// think is the agent that thinks: it asks a model what to do, calls the tool that the model wants, tells the model what came of it, and posts what the model
// says in the end. The model and the tools have the host that the post goes to.
func (c Call) think(ctx context.Context) (Answer, error) {
	to, err := url.Parse(c.URL)
	if err != nil {
		return Answer{}, err
	}
	at := func(path string) string { return to.ResolveReference(&url.URL{Path: path}).String() }
	ask := modelRequest{
		Model: ModelName, MaxTokens: 256, Tools: []modelTool{{Name: "get_note", Schema: map[string]any{"type": "object"}}},
		Messages: []modelMessage{{"user", json.RawMessage(`"Read the note and post what it says."`)}},
	}
	for range maxThoughts {
		answer, err := askModel(ctx, at("/v1/messages"), ask)
		if err != nil {
			return Answer{}, err
		}
		said := answer.Content[0]
		if said.Type != "tool_use" {
			body, err := json.Marshal(map[string]string{"title": "What the note says", "body": said.Text})
			if err != nil {
				return Answer{}, err
			}
			return Call{Method: http.MethodPost, URL: c.URL, Body: string(body)}.send(ctx, nil, false)
		}
		result, err := Call{URL: at("/mcp"), Tool: said.Name}.useTool(ctx, said)
		if err != nil {
			return Answer{}, err
		}
		for _, m := range []struct {
			role  string
			block modelBlock
		}{{"assistant", said}, {"user", result}} {
			content, err := json.Marshal([]modelBlock{m.block})
			if err != nil {
				return Answer{}, err
			}
			ask.Messages = append(ask.Messages, modelMessage{m.role, content})
		}
	}
	return Answer{}, errors.New("the model does not come to an end")
}

// askModel asks a model.
func askModel(ctx context.Context, at string, ask modelRequest) (answer modelAnswer, err error) {
	resp, raw, err := post(ctx, at, map[string]string{"Anthropic-Version": "2023-06-01"}, ask)
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(raw, &answer)
	if err == nil && (resp.StatusCode != http.StatusOK || len(answer.Content) == 0) {
		err = fmt.Errorf("the model answers %s", resp.Status)
	}
	return answer, err
}

// useTool calls the tool that a model wants, and returns the block that tells the model what came of it.
func (c Call) useTool(ctx context.Context, want modelBlock) (modelBlock, error) {
	params := &toolParams{Meta: map[string]any{"io.modelcontextprotocol/protocolVersion": toolRevision}, Name: want.Name, Arguments: want.Input}
	answer, result, err := c.sendTool(ctx, 1, params)
	if err != nil {
		return modelBlock{}, err
	}
	if result == nil {
		return modelBlock{}, fmt.Errorf("the tool %s is refused: %s", want.Name, answer.Code)
	}
	content, err := json.Marshal(result.Content)
	return modelBlock{Type: "tool_result", ToolUseID: want.ID, Content: string(content)}, err
}

// thought plays the agent that thinks, and says what the records have of it: what it did before it posted.
func (d *Deployment) thought(ctx context.Context) (string, error) {
	made, err := d.byWebhook(ctx, "POST", "https://"+d.Plain()+"/posts", "--think")
	if err != nil || made.Post == "" {
		return made.Outcome(), err
	}
	happened := ""
	eventually(ctx, func(ctx context.Context) bool {
		var did []ledger.Record
		if err = admin.Get(ctx, d.Stack.Admin(), "/v1/posts/"+made.Post, &d.Thought); err == nil {
			did, err = d.recordsOf(ctx, d.Thought.Session)
		}
		happened = fmt.Sprintf("%s%s, %d receipts", made.Outcome(), summary(did), len(d.Thought.Receipts))
		return err != nil || happened == thoughtExpected
	})
	return happened, err
}

// thoughtExpected is what the records have to say of the agent that thinks.
const thoughtExpected = "201, model complete, tool ok, model complete, post forwarded, 3 receipts"

// summary says in one line what a session has done.
func summary(all []ledger.Record) (s string) {
	for _, r := range all {
		switch {
		case r.Model != nil:
			s += ", model " + r.Model.Outcome
		case r.Message != "":
			s += ", tool " + r.Result
		default:
			s += ", " + r.Flow + " " + string(r.State)
		}
	}
	return s
}

// recordsOf returns the records of a session in the order in which its calls were made.
func (d *Deployment) recordsOf(ctx context.Context, session string) (all []ledger.Record, err error) {
	for r, err := range admin.Records(ctx, d.Stack.Admin(), admin.Selection{Query: ledger.Query{Session: session, OldestFirst: true}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// generated plays an agent that has the mediator ask the model, and looks for the receipt that it gets among those of its session.
func (d *Deployment) generated(ctx context.Context) (string, error) {
	r, err := d.byWebhook(ctx, "POST", "http://"+proxy.InternalHost+"/v1/generate", "--body", `{"prompt":"What is a mediator?"}`)
	if err != nil || r.Receipt == "" {
		return r.Outcome(), err
	}
	recorded := func(ctx context.Context) bool {
		var record admin.Record
		err = admin.Get(ctx, d.Stack.Admin(), "/v1/posts/"+r.Record, &record)
		return err == nil && slices.Contains(record.Receipts, r.Receipt)
	}
	if !eventually(ctx, recorded) {
		return r.Outcome() + ", with a receipt that is not the record's", err
	}
	return r.Outcome() + ", with its receipt", nil
}
