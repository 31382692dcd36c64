package generate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/match"
)

// FuzzRequest checks that a request is refused with a code, or becomes in every dialect a request that package
// inference accepts without hosted tools.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"x"}`,
		`{"prompt":"\u2028\"}],\"tools\":[{\"type\":\"web_search\"}]","system":"y","model":"m","maxTokens":1,` +
			`"temperature":0,"stream":true}`,
		`{"prompt":"x","Prompt":"y"}`, `{"prompt":"\ud800"}`, `{"prompt":null}`, `{"prompt":"x","temperature":1e-300}`,
		`{"prompt":"x","maxTokens":9223372036854775808}`,
		`{"probe":"p"}`, `{"probe":"p","prompt":"x"}`, `{"probe":"","prompt":"x"}`,
	} {
		f.Add(s)
	}
	var all Models
	post := match.Match{Scheme: "https", Host: "api.example.com", Port: 443, Path: "/v1",
		Methods: []string{http.MethodPost}}
	for _, d := range inference.Dialects {
		if err := all.Add(Rule{Models: []string{string(d)}, MaxTokens: 100}, &inference.Rule{Dialect: d}, post); err != nil {
			f.Fatal(err)
		}
	}
	key := make([]byte, inference.MinKey)
	f.Fuzz(func(t *testing.T, body string) {
		coded := func(err error) {
			var refused *refusal.Refusal
			if !errors.As(err, &refused) || refused.Code() != "query_malformed" {
				t.Fatal(err)
			}
		}
		r, err := Read([]byte(body))
		if err != nil {
			coded(err)
			return
		}
		if r.Probe != "" {
			r.Put("Which?")
		}
		for _, m := range all {
			out, err := m.Request(context.Background(), r, &http.Request{})
			if err != nil {
				coded(err)
				continue
			}
			raw, err := io.ReadAll(out.Body)
			if err != nil || int64(len(raw)) != out.ContentLength {
				t.Fatal(err, len(raw))
			}
			judged, err := inference.Read(inference.Rule{Dialect: m.Dialect}, raw, key, nil)
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			said := 1
			if r.System != "" {
				said++
			}
			if judged.Model != m.Name || judged.Stream != r.Stream || judged.AskedCount != said ||
				judged.AskedBytes != len(r.Prompt)+len(r.System) {
				t.Fatalf("%s is judged as %+v", raw, judged)
			}
		}
	})
}

// FuzzAnswer checks that a stream reaches the agent as whole events, of which the last says how it ended, and that the
// same answer without a stream ends alike.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n",
		"data: {\"type\":\"error\",\"error\":{\"type\":\"x\"}}\n\n",
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\\n\\nevent: done\"}\n\ndata: " +
			"{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
		"{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}", "data: {\"type\":\"message_stop\"}\n\n",
		"data: [DONE]\n\n", "",
	} {
		for i := range inference.Dialects {
			f.Add(i, true, s)
			f.Add(i, false, s)
		}
	}
	f.Fuzz(func(t *testing.T, i int, events bool, body string) {
		d := inference.Dialects[uint(i)%uint(len(inference.Dialects))]
		kind := "application/json"
		if events {
			kind = "text/event-stream"
		}
		answer := func(stream bool) (string, error) {
			c := &Call{Stream: stream, Record: "post_1", Key: make([]byte, inference.MinKey), Take: func(int) error {
				return nil
			}}
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}},
				Body: io.NopCloser(strings.NewReader(body))}
			if err := c.Answer(resp, &inference.Request{Dialect: d}); err != nil {
				return "", err
			}
			raw, err := io.ReadAll(resp.Body)
			return string(raw), err
		}
		streamed, failed := answer(true)
		whole, failedToo := answer(false)
		if (failed == nil) != (failedToo == nil) || failed != nil && failed.Error() != failedToo.Error() ||
			failedToo == nil && !strings.HasSuffix(whole, "}\n") {
			t.Fatalf("%v\n%v", failed, failedToo)
		}
		all := strings.Split(strings.TrimSuffix(streamed, "\n\n"), "\n\n")
		for i, e := range all {
			want := "event: text\ndata: {"
			switch {
			case i == len(all)-1 && failed == nil:
				want = "event: done\ndata: {"
			case i == len(all)-1:
				want = "event: error\ndata: {"
			}
			if !strings.HasPrefix(e, want) || strings.Count(e, "\n") != 1 {
				t.Fatalf("event %d of %q, want %q", i, streamed, want)
			}
		}
	})
}
