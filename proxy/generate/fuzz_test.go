package generate

import (
	"context"
	"encoding/json"
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
			`"temperature":0}`,
		`{"prompt":"x","Prompt":"y"}`, `{"prompt":"\ud800"}`, `{"prompt":null}`, `{"prompt":"x","temperature":1e-300}`,
		`{"prompt":"x","maxTokens":9223372036854775808}`,
		`{"probe":"p"}`, `{"probe":"p","prompt":"x"}`, `{"probe":"","prompt":"x"}`,
	} {
		f.Add(s)
	}
	var all Models
	post := match.Match{Scheme: "https", Host: "api.example.com", Port: 443, Path: "/v1",
		Methods: []string{http.MethodPost}}
	for _, d := range Dialects {
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
			judged, err := inference.Read(inference.Rule{Dialect: m.Dialect}, inference.Call{Body: raw, Key: key})
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			said := 1
			if r.System != "" {
				said++
			}
			if judged.Model != m.Name || judged.AskedCount != said ||
				judged.AskedBytes != len(r.Prompt)+len(r.System) {
				t.Fatalf("%s is judged as %+v", raw, judged)
			}
		}
	})
}

// FuzzAnswer checks that the agent gets one JSON document, or a refusal with a code.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, `{"error":{"type":"x"}}`, `{"choices":[]}`,
		`{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"x\n"}]}]}`,
		`{"type":"message","content":[{"type":"text","text":"x"}]}`, `{`, "",
	} {
		for i := range Dialects {
			f.Add(i, s)
		}
	}
	f.Fuzz(func(t *testing.T, i int, body string) {
		d := inference.Dialects[uint(i)%uint(len(inference.Dialects))]
		c := &Call{Record: "post_1", Key: make([]byte, inference.MinKey), Take: func(int) error { return nil }}
		got, err := answer(c, d, body)
		var refused *refusal.Refusal
		if err != nil && !errors.As(err, &refused) || err == nil &&
			(!json.Valid([]byte(got)) || !strings.HasSuffix(got, "}\n")) {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
