package match_test

import (
	"testing"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

func TestCeiling(t *testing.T) {
	var c match.Ceiling
	for url, methods := range map[string][]string{
		"https://api.example/v1/{kind}/**": {"GET", "POST"}, "https://*.shop.example/**": nil,
		"http://api.example:8080/only/{id}": {"GET"},
	} {
		m, err := match.Parse(url, methods)
		check.Must(t, err)
		c = append(c, m)
	}
	for _, tt := range []struct {
		url    string
		method string
		rule   bool // whether a rule may name it
		call   bool // whether a call without a rule may
	}{
		{"https://api.example/v1/items/{id}", "POST", true, true},
		{"https://api.example/v1/items/**", "GET", true, true},
		{"https://api.example/v1/items/7", "DELETE", false, false},
		{"https://api.example/v1/**", "GET", false, false},
		{"https://api.example/v1/items", "GET", false, false},
		{"https://api.example/v1/items/", "GET", true, true},
		{"https://api.example/v1//x", "GET", false, false},
		{"https://api.example/V1/items/7", "GET", false, false},
		{"https://api.example:8443/v1/items/7", "GET", false, false},
		{"http://api.example/v1/items/7", "GET", false, false},
		{"https://*.example/v1/items/7", "GET", false, false},
		{"https://a.shop.example/", "PUT", true, true},
		{"https://*.a.shop.example/**", "PUT", true, true},
		{"https://shop.example/", "GET", false, false},
		{"https://badshop.example/", "GET", false, false},
		{"http://api.example:8080/only/x", "GET", true, true},
		{"http://api.example:8080/only/x%2Fy", "GET", true, false}, // to some servers a longer path
		{"http://api.example:8080/only/**", "GET", false, false},
		{"http://mediator.internal/v1/x", "POST", true, true},
	} {
		m, err := match.Parse(tt.url, []string{tt.method})
		check.Must(t, err)
		target := upstream.Target{Scheme: m.Scheme, Host: m.Host, Port: m.Port}
		for what, got := range map[string]error{"rule": c.CheckRule(m),
			"call": c.CheckCall(target, tt.method, m.Path, false)} {
			if want := map[string]bool{"rule": tt.rule, "call": tt.call}[what]; (got == nil) != want {
				t.Errorf("%s %s %s: %v, want it allowed: %t", what, tt.method, tt.url, got, want)
			} else if got != nil {
				check.WantCode(t, got, "ceiling_exceeded")
			}
		}
	}
	if m, _ := match.Parse("https://x.example/**", []string{"GET"}); match.Ceiling(nil).CheckRule(m) != nil {
		t.Error("no ceiling bounds something")
	}
}
