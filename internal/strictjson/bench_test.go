package strictjson_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
)

func BenchmarkCanonical(b *testing.B) {
	var members []string
	for _, name := range strings.Split("zyxwvutsrqponmlkjihgfedcba", "") {
		members = append(members, `"`+name+`": {"number": 12.50, "text": "ten chars", "n": null}`)
	}
	for name, document := range map[string]string{
		"text":    `{"title": "a post", "body": "` + strings.Repeat("x", 1000) + `"}`,
		"members": "{" + strings.Join(members, ", ") + "}",
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(document)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := strictjson.Canonical(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	raw := []byte(
		`{"action":"create_post","contentHash":"` + strings.Repeat("0", 64) +
			`","nonce":"n","resource":"POST /posts","subject":"agent:worker-1"}`)
	b.ReportAllocs()
	for b.Loop() {
		var binding evidence.Binding
		check.Must(b, strictjson.Parse(raw, &binding))
	}
}
