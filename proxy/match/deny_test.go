package match_test

import (
	"testing"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

func TestDenied(t *testing.T) {
	d, err := match.ParseDenied(
		[]string{"https://api.test/Events/{id}", "https://*.stats.test/**", "https://npm.test/@a/**", "https://npm.test/c"})
	check.Must(t, err)
	for _, tt := range []struct {
		host, path         string
		denied, all, known bool
	}{
		{"api.test", "/events/7", true, false, true},
		{"api.test", "/events%2F7", true, false, true},
		{"api.test", "/events", false, false, true},
		{"eu.stats.test", "/x", true, true, true},
		{"stats.test", "/x", false, false, false},
		{"npm.test", "/@A%2fb", true, false, true},
		{"npm.test", "/@a/", true, false, true},
		{"npm.test", "/@a", true, false, true}, // to some servers the same
		{"npm.test", "/@ab/", false, false, true},
		{"npm.test", "/b", false, false, true},
		{"npm.test", "/C.json", true, false, true}, // to Rails the same
		{"npm.test", "/@a.json", true, false, true},
		{"npm.test", "/cd.json", false, false, true},
	} {
		at := upstream.Target{Scheme: "https", Host: tt.host, Port: 443}
		if (d.Check(at, tt.path) != nil) != tt.denied || (d.CheckHost(at) != nil) != tt.all || d.Knows(at) != tt.known {
			t.Errorf("%s%s: %v, %v, %t", tt.host, tt.path, d.Check(at, tt.path), d.CheckHost(at), d.Knows(at))
		}
	}
	if _, err := match.ParseDenied([]string{"api.test"}); err == nil {
		t.Error("a host alone is taken")
	}
}
