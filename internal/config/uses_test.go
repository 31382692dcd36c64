package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/test/check"
)

// TestUses: each file is secret or public, and each address is one to listen at or to connect to, wherever it is.
func TestUses(t *testing.T) {
	c := &Sidecar{
		Process: Process{
			Custody: secrets.Custody{PKCS11: &secrets.PKCS11{Module: "token.so", PINFile: "pin"}},
			TLS:     &TLS{Certificate: "cert", Key: "key", Authorities: "ca"},
			Tracing: &remote.Tracing{Collector: remote.Collector{Endpoint: "https://traces:4318", HeadersFile: "headers"}},
		},
		Admin:   Admin{Endpoint: Endpoint{Unix: "admin.sock", TCP: "0.0.0.0:8444"}, Tokens: Tokens{Operate: "token"}},
		Control: Peer{TCP: "control:8445"}, Trigger: Peer{Unix: "trigger.sock"}, State: "state",
		Transparent: &Transparent{Listen: "127.0.0.1:8183"}, Console: "127.0.0.1:8184",
		Actions: []Action{{API: &API{Challenge: "https://api/c", Verify: "https://api/v", AnswerKeys: "answers"},
			Rule: Rule{Credential: &secrets.Credential{OAuth: &secrets.OAuth{TokenEndpoint: secrets.TokenEndpoint{
				TokenURL: "https://login/token", ClientSecretFile: "client"}}}}}},
		Upstreams: []Upstream{{CA: "upstream"}},
	}
	got := fields.UsesOf(c)
	for _, list := range [][2][]string{
		{got.Secret, {"pin", "key", "headers", "token", "client"}},
		{got.Public, {"token.so", "cert", "ca", "trigger.sock", "answers", "upstream"}},
		{got.Write, {"state"}},
		{got.Connect, {"https://traces:4318", "control:8445", "https://api/c", "https://api/v", "https://login/token"}},
	} {
		slices.Sort(list[0])
		slices.Sort(list[1])
		check.WantEqual(t, strings.Join(list[0], " "), strings.Join(list[1], " "))
	}
	want := []fields.Place{{Key: "transparent.listen", Address: "127.0.0.1:8183"}, {Key: "admin.unix", Unix: "admin.sock"},
		{Key: "admin.tcp", Address: "0.0.0.0:8444"}}
	if !slices.Equal(got.Listens, want) {
		t.Errorf("got %v, want %v", got.Listens, want)
	}
}
