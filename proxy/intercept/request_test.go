package intercept

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

func TestAgree(t *testing.T) {
	pinned := upstream.Target{Scheme: "https", Host: "a.example", Port: 443}
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		agrees bool
	}{
		{"same", func(*http.Request) {}, true},
		{"default port", func(r *http.Request) { r.Host = "A.example:443" }, true},
		{"absolute", func(r *http.Request) { r.URL.Scheme, r.URL.Host = "https", "a.example" }, true},
		{"second Host", func(r *http.Request) { r.Header["Host"] = []string{"a.example"} }, true},
		{"other Host", func(r *http.Request) { r.Host = "b.example" }, false},
		{"other port", func(r *http.Request) { r.Host = "a.example:80" }, false},
		{"no Host", func(r *http.Request) { r.Host = "" }, false},
		{"userinfo in Host", func(r *http.Request) { r.Host = "a.example@b.example" }, false},
		{"path in Host", func(r *http.Request) { r.Host = "a.example/x" }, false},
		{"two in Host", func(r *http.Request) { r.Host = "a.example,b.example" }, false},
		{"other second Host", func(r *http.Request) { r.Header["Host"] = []string{"a.example", "b.example"} }, false},
		{"other URL", func(r *http.Request) { r.URL.Scheme, r.URL.Host = "https", "b.example" }, false},
		{"other scheme", func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", "a.example" }, false},
		{"scheme alone", func(r *http.Request) { r.URL.Scheme = "https" }, false},
		{"opaque", func(r *http.Request) { r.URL.Opaque = "//b.example/x" }, false},
		{"userinfo", func(r *http.Request) { r.URL.User = url.User("u") }, false},
		{"no URL", func(r *http.Request) { r.URL = nil }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/x", nil)
			r.Host = "a.example"
			test.change(r)
			err := agree(r, pinned)
			if test.agrees {
				if err != nil {
					t.Error(err)
				}
				return
			}
			check.WantCode(t, err, "target_mismatch")
		})
	}
}
