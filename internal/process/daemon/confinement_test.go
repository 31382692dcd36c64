package daemon

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

func TestNotConfined(t *testing.T) {
	err := (&Process{Log: zap.NewNop()}).Confine(Plan{}, &Observer{Paths: []observe.Path{{Name: "/trust.json"}}})
	var refused *refusal.Refusal
	if !errors.As(err, &refused) || refused.Code() != "not_confined" ||
		!strings.Contains(err.Error(), "/trust.json is in the root folder") {
		t.Error(err)
	}
}

// TestSystemAuthorities: a confined process can still read the system's certificates, wherever links lead.
func TestSystemAuthorities(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.pem")
	t.Setenv("SSL_CERT_FILE", own)
	l, err := Plan{}.Limits(nil)
	check.Must(t, err)
	for _, path := range []string{own, "/etc/ssl/certs", "/etc/ssl/certs/ca-certificates.crt"} {
		if !slices.Contains(l.Files, confine.File{Path: path, Use: confine.Read}) {
			t.Errorf("%s cannot be read: %v", path, l.Files)
		}
	}
}

func TestPorts(t *testing.T) {
	got, err := ports(
		[]string{"", "127.0.0.1:8181", ":443", "[::1]:80", "53", "https://vault:8200/x", "https://api.example/y",
			"http://api.example"})
	if err != nil || !slices.Equal(got, []uint16{53, 80, 443, 8181, 8200}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ports([]string{"host:nonsense"}); err == nil {
		t.Error("a port that is none was read")
	}
}
