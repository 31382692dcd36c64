package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/test/check"
)

func TestSecretsAreBound(t *testing.T) {
	for _, tt := range []struct {
		running, next any
		key           string
	}{
		{Sidecar{Ledger: Store{&Postgres{}}}, Sidecar{Ledger: Store{&Postgres{DSN: "x"}}}, "ledger.postgres.dsnFile"},
		{Sidecar{}, Sidecar{Gate: Gate{Secret: "x"}}, "gate.secretFile"},
	} {
		if got := fields.ChangedBound(tt.running, tt.next); !slices.Equal(got, []string{tt.key}) {
			t.Errorf("%s: a restart takes over %v", tt.key, got)
		}
	}
}

func TestEveryOptionIsExplained(t *testing.T) {
	options, err := configDocs()
	check.Must(t, err)
	for name, list := range options {
		for _, o := range list {
			if !strings.HasPrefix(o.comment, "`"+o.key+"`") && !strings.Contains(o.comment, " ") {
				t.Errorf("%s.%s has no comment", name, o.key)
			}
		}
	}
}
