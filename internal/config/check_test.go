package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// TestRetention: without a retention there is the default, and 0s is for ever.
func TestRetention(t *testing.T) {
	const def, forever = 90 * 24 * time.Hour, -1
	for text, want := range map[string]time.Duration{"{}": def, "retention:": def, "retention: 0s": forever,
		"retention: 48h": 48 * time.Hour} {
		var c struct {
			Retention *Retention `yaml:"retention"`
		}
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if got := c.Retention.Or(def, forever); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestSecretsAreBound: the content of a secret file is bound to a process as much as the file's name is.
func TestSecretsAreBound(t *testing.T) {
	for key, change := range map[string]func(*Sidecar){
		"admin.tokenFile": func(c *Sidecar) {
			c.Admin.Token = "x"
		}, "trigger.tokenFile": func(c *Sidecar) { c.Trigger.Token = "x" },
		"control.tokenFile": func(c *Sidecar) {
			c.Control.Token = "x"
		}, "ledger.postgres.dsnFile": func(c *Sidecar) { c.LedgerDSN = "x" },
		"gate.secretFile": func(c *Sidecar) { c.GateSecret = "x" },
	} {
		var running, next Sidecar
		change(&next)
		if got := ChangedBoundKeys(running, next); !slices.Equal(got, []string{key}) {
			t.Errorf("%s: a restart takes over %v", key, got)
		}
	}
	if got := ChangedBoundKeys(Trigger{}, Trigger{Internal: Endpoint{Token: "x"}}); !slices.Equal(got,
		[]string{"internal.tokenFile"}) {
		t.Errorf("of a trigger service a restart takes over %v", got)
	}
	if got := ChangedBoundKeys(Control{}, Control{Internal: Endpoint{Token: "x"}}); !slices.Equal(got,
		[]string{"internal.tokenFile"}) {
		t.Errorf("of a control plane a restart takes over %v", got)
	}
}

// TestEveryOptionIsExplained finds configuration keys without a comment.
func TestEveryOptionIsExplained(t *testing.T) {
	options, err := configDocs()
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range options {
		for _, o := range list {
			if !strings.HasPrefix(o.comment, "`"+o.key+"`") && !strings.Contains(o.comment, " ") {
				t.Errorf("%s.%s has no comment", name, o.key)
			}
		}
	}
}
