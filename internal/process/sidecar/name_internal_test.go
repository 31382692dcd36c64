package sidecar

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

func TestNameOfTheRuntime(t *testing.T) {
	authority, tcp := tlstest.New(t), config.Peer{TCP: "control:8445"}
	memory, vault := config.Process{Custody: secrets.Custody{Type: "memory"}},
		config.Process{Custody: secrets.Custody{Type: "vault"}}
	for name, tt := range map[string]struct {
		id                 string // empty for no certificate
		c                  config.Sidecar
		want, suffix, code string
	}{
		"by the configuration": {"", config.Sidecar{Process: memory, Runtime: "worker-1"}, "worker-1", "", ""},
		"by the certificate": {"pod/agents/1", config.Sidecar{Process: memory, Control: tcp}, "pod/agents/1", "1",
			""},
		"with shared keys": {"pod/agents/1", config.Sidecar{Process: vault, Control: tcp}, "pod/agents/1", "", ""},
		"of one segment":   {"worker", config.Sidecar{Process: memory}, "worker", "worker", ""},
		"by both": {"worker-1", config.Sidecar{Process: memory, Runtime: "worker-1", Control: tcp}, "worker-1",
			"", ""},
		"over unix sockets": {"pod/agents/1", config.Sidecar{Process: memory, Runtime: "worker-1"}, "worker-1", "", ""},
		"by each another": {"pod/agents/1", config.Sidecar{Runtime: "worker-1", Trigger: tcp}, "", "",
			"runtime_foreign"},
		"too long for a receipt": {"pod/" + strings.Repeat("a", 128), config.Sidecar{Receipts: new(config.Receipts)},
			"", "", "config_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &sidecar{Process: new(daemon.Process), config: &tt.c}
			if tt.id != "" {
				var err error
				p.Identity, err = identity.Load(authority.Write(t, t.TempDir(), nil, "spiffe://example.org/"+tt.id))
				check.Must(t, err)
			}
			err := p.nameRuntime()
			if tt.code != "" {
				check.WantCode(t, err, tt.code)
				return
			}
			check.Must(t, err)
			check.WantEqual(t, p.name, tt.want)
			check.WantEqual(t, p.KeySuffix, tt.suffix)
		})
	}
}
