package vault_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

func TestNotOpen(t *testing.T) {
	server, err := vault.NewServer(
		vault.Options{Address: "http://127.0.0.1:1", Mount: "transit", Timeout: time.Second, Log: zap.NewNop(),
			Now: time.Now})
	check.Must(t, err)
	defer server.Close()
	key := server.Prepare("key", &vault.TokenFile{Path: filepath.Join(t.TempDir(), "none")})
	var unavailable *custody.Error
	if v, err := key.Versions(t.Context()); !errors.As(err, &unavailable) {
		t.Errorf("Versions: %v, %v", v, err)
	}
	if v, err := key.Current(t.Context()); !errors.As(err, &unavailable) {
		t.Errorf("Current: %v, %v", v, err)
	}
	if !key.Properties().Exportable {
		t.Error("Properties: not exportable")
	}
	for _, l := range key.Observe(t.Context(), 0) {
		if l.Result == look.Holds {
			t.Errorf("Observe: %+v", l)
		}
	}
}
