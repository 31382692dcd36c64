package intercept

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

func TestParseRequestTarget(t *testing.T) {
	for in, want := range map[string]upstream.Target{
		"http://A.example/x":       {Scheme: "http", Host: "a.example", Port: 80},
		"HTTPS://a.example:8443/x": {Scheme: "https", Host: "a.example", Port: 8443},
		"http://[::1]":             {Scheme: "http", Host: "::1", Port: 80},
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRequest(&http.Request{URL: u}); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"ftp://a.example/", "ws://a.example/", "mailto:a@b.example", "http:///x",
		"http://u:p@a.example/", "http://a.example:/x", "http://0x7f.1/", "/x", "http:a"} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseRequest(&http.Request{URL: u})
		check.WantCode(t, err, "request_malformed")
	}
	_, err := parseRequest(&http.Request{})
	check.WantCode(t, err, "request_malformed")
}

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
