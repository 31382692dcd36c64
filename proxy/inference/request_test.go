package inference_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/test/check"
)

const (
	malformed = "message_malformed"
	hosted    = "model_hosted_tool"
)

func TestRequests(t *testing.T) {
	for _, tt := range corpus(t, "requests.txtar") {
		t.Run(tt.name, func(t *testing.T) {
			r, err := inference.Read(inference.Rule{Dialect: tt.dialect},
				inference.Call{Body: []byte(tt.body), Key: key})
			want, by, _ := strings.Cut(strings.TrimSuffix(tt.want, "\n"), " ")
			switch {
			case err == nil && (blocks(r.Asked) != tt.want || len(r.Hosted) > 0):
				t.Errorf("got\n%swant\n%s", blocks(r.Asked), tt.want)
			case err == nil && strings.Contains(tt.body, `"model":"m"`) && r.Model != "m":
				t.Errorf("the model is %q", r.Model)
			case err != nil && check.CodeOf(err) != want:
				t.Fatalf("got %v, want %s", err, want)
			}
			if by == "" || !strings.HasPrefix(want, "model_") {
				return
			}
			if !strings.Contains(err.Error(), by) {
				t.Errorf("the refusal %q does not name %s", err, by)
			}
			r, err = inference.Read(inference.Rule{Dialect: tt.dialect, Hosted: []string{by}},
				inference.Call{Body: []byte(tt.body), Key: key})
			if err != nil || fmt.Sprint(r.Hosted) != "["+by+"]" {
				t.Errorf("if the rule lists it: %v, %v", r, err)
			}
		})
	}
}

func TestManyBlocks(t *testing.T) {
	var body strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&body, `,{"role":"user","content":"%d"}`, i)
	}
	r := mustRead(t, inference.OpenAIChat, `{"model":"m","messages":[`+body.String()[1:]+`]}`)
	last := mustRead(t, inference.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"4999"}]}`).Asked[0]
	if r.AskedCount != 5000 || len(r.Asked) != 1024 || r.Asked[1023] != last {
		t.Errorf("%d blocks, %d kept, the last is %v", r.AskedCount, len(r.Asked), r.Asked[len(r.Asked)-1])
	}
}

func TestRule(t *testing.T) {
	for _, tt := range []struct {
		rule inference.Rule
		ok   bool
	}{
		{inference.Rule{Dialect: inference.OpenAIResponses, Hosted: []string{"web_search", inference.RemoteContent}}, true},
		{inference.Rule{}, false},
		{inference.Rule{Dialect: "openai"}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"a text"}}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"*"}}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"x", "x"}}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"function"}}, false},
	} {
		if err := tt.rule.Check(); (err == nil) != tt.ok {
			t.Errorf("%v: %v", tt.rule, err)
		}
	}
}

func TestShortKey(t *testing.T) {
	if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat},
		inference.Call{Body: []byte(smallest[inference.OpenAIChat]),
			Key: key[1:]}); err == nil {
		t.Error("a key of 31 bytes is taken")
	}
}
