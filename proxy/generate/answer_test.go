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

// TestReceipt checks that an answer ends with its receipt, and fails without it.
func TestReceipt(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, failure := range []error{nil, refusal.New("ledger_unavailable", "the receipt is not there")} {
			asked := 0
			c := &Call{
				Stream: stream, Record: "post_1", Key: make([]byte, inference.MinKey), Take: func(int) error { return nil },
				Receipt: func() (*Receipt, error) { asked++; return &Receipt{Token: "the-receipt"}, failure },
			}
			resp := &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(
					strings.NewReader(`{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}`)),
			}
			var got []byte
			err := c.Answer(resp, &inference.Request{Dialect: inference.OpenAIChat})
			if err == nil {
				got, err = io.ReadAll(resp.Body)
			}
			if !errors.Is(err, failure) || asked != 1 || strings.Contains(string(got), "the-receipt") != (failure == nil) ||
				stream && !strings.Contains(string(got), "event: text") {
				t.Errorf("stream %t: %v, %q after %d questions", stream, err, got, asked)
			}
		}
	}
}

func TestMemoryIsRefused(t *testing.T) {
	full := refusal.New("overloaded", "no memory is left")
	for _, body := range []struct{ kind, text string }{
		{"application/json", `{"choices":[]}`},
		{"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"}, {"text/event-stream", "data: "},
	} {
		c := &Call{Key: make([]byte, inference.MinKey), Take: func(int) error { return full }}
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {body.kind}},
			Body: io.NopCloser(strings.NewReader(body.text))}
		if err := c.Answer(resp, &inference.Request{Dialect: inference.OpenAIChat}); !errors.Is(err, full) {
			t.Errorf("%s: %v", body.text, err)
		}
	}
}
