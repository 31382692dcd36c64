package generate

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
)

func TestReceipt(t *testing.T) {
	for _, failure := range []error{nil, refusal.New("ledger_unavailable", "the receipt is not there")} {
		asked := 0
		c := &Call{
			Record: "post_1", Key: make([]byte, inference.MinKey), Take: func(int) error { return nil },
			Receipt: func() (*Receipt, error) { asked++; return &Receipt{Token: "the-receipt"}, failure },
		}
		got, err := answer(c, inference.OpenAIChat,
			`{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}`)
		if !errors.Is(err, failure) || asked != 1 || strings.Contains(got, "the-receipt") != (failure == nil) {
			t.Errorf("%v, %q after %d questions", err, got, asked)
		}
	}
}

func TestMemoryIsRefused(t *testing.T) {
	full := refusal.New("overloaded", "no memory is left")
	c := &Call{Key: make([]byte, inference.MinKey), Take: func(int) error { return full }}
	if _, err := answer(c, inference.OpenAIChat, `{"choices":[]}`); !errors.Is(err, full) {
		t.Error(err)
	}
}

// answer returns what the agent gets for a model's answer.
func answer(c *Call, d inference.Dialect, body string) (string, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body))}
	if err := c.Answer(resp, &inference.Request{Dialect: d}); err != nil {
		return "", err
	}
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}
