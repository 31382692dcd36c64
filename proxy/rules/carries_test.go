package rules_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/rules"
)

// TestCarries wants no media type that a client made up.
func TestCarries(t *testing.T) {
	for kind, want := range map[string]string{"": "", "application/json": "", "Application/JSON; charset=utf-8": "",
		"application/vnd.api+json": "", "multipart/form-data; boundary=secret": "multipart/form-data",
		"text/" + strings.Repeat("a", 200): "other", "secret": "other", ";": "other", "x/secret": "other"} {
		if got := rules.Carries(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}
