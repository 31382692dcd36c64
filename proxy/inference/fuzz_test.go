package inference_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
)

// FuzzRequest: a request that is read has one reading, so that it is read as the same again; any other has a code.
func FuzzRequest(f *testing.F) {
	for i, d := range inference.Dialects {
		f.Add(i, smallest[d])
		f.Add(i, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}},{"type":"tool_result","content":[]}]}],"tools":[{"type":"namespace","tools":[{}]}]}`)
		f.Add(i, `{"input":[{"type":"function_call_output","output":[{"type":"text","text":null}]}],"Model":1,"model":2}`)
	}
	f.Fuzz(func(t *testing.T, i int, body string) {
		d := inference.Dialects[uint(i)%uint(len(inference.Dialects))]
		r, err := inference.Read(inference.Rule{Dialect: d}, []byte(body), key)
		if err != nil {
			if !strings.HasPrefix(code(err), "model_") {
				t.Fatal(err)
			}
			return
		}
		if len(r.Asked) > r.AskedCount || len(r.Hosted) > 0 || len(r.Model) > 128 {
			t.Fatalf("%+v", r)
		}
	})
}

// FuzzStream: a stream comes to the same however it is cut into pieces.
func FuzzStream(f *testing.F) { fuzzAnswer(f, eventStream) }

// FuzzAnswer: so does an answer that is no stream.
func FuzzAnswer(f *testing.F) { fuzzAnswer(f, jsonType) }

func fuzzAnswer(f *testing.F, kind string) {
	for i, d := range inference.Dialects {
		for _, tt := range answers {
			if tt.dialect == d && tt.kind == kind {
				f.Add(i, tt.body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i int, body string) {
		if len(body) > 4096 { // pieces, of which as many wait
			return
		}
		d := inference.Dialects[uint(i)%uint(len(inference.Dialects))]
		whole, pieces := observe(t, d, kind, body, 0, options()), observe(t, d, kind, body, 1, options())
		if figures(whole) != figures(pieces) || hashes(whole) != hashes(pieces) || len(whole.Deltas) != len(pieces.Deltas) {
			t.Fatalf("%s\n%s", figures(whole), figures(pieces))
		}
	})
}
