package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/strict"
)

// TestRetention: without a retention there is the default, and 0s is for ever.
func TestRetention(t *testing.T) {
	const def, forever = 90 * 24 * time.Hour, -1
	for text, want := range map[string]time.Duration{"{}": def, "retention:": def, "retention: 0s": forever, "retention: 48h": 48 * time.Hour} {
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

// TestActionHeaders: an action that names no headers takes all, and one with an empty list none.
func TestActionHeaders(t *testing.T) {
	for name, tt := range map[string]struct{ headers, want []string }{
		"left out": {nil, nil}, "empty": {[]string{}, []string{}}, "in any spelling": {[]string{"x-github-api-version"}, []string{"X-Github-Api-Version"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := &Sidecar{}, &findings{File: new(strict.File)}
			s.addAction("actions[0]", Action{Name: "a", Subject: "s", Action: "a", Headers: tt.headers, Match: Match{URL: "https://x.example/y", Methods: []string{"POST"}}}, f)
			if !f.Correct() || !reflect.DeepEqual(s.ActionRules[0].Headers, tt.want) {
				t.Errorf("got %#v, %v", s.ActionRules[0].Headers, f.err())
			}
		})
	}
}

// TestSecretsAreBound: the content of a secret file is bound to a process as much as the file's name is.
func TestSecretsAreBound(t *testing.T) {
	for key, change := range map[string]func(*Sidecar){
		"admin.tokenFile": func(c *Sidecar) { c.Admin.Token = "x" }, "trigger.tokenFile": func(c *Sidecar) { c.Trigger.Token = "x" },
		"control.tokenFile": func(c *Sidecar) { c.Control.Token = "x" }, "ledger.postgres.dsnFile": func(c *Sidecar) { c.LedgerDSN = "x" },
		"gate.secretFile": func(c *Sidecar) { c.GateSecret = "x" },
	} {
		var running, next Sidecar
		change(&next)
		if got := ChangedBoundKeys(running, next); !slices.Equal(got, []string{key}) {
			t.Errorf("%s: a restart takes over %v", key, got)
		}
	}
	if got := ChangedBoundKeys(Trigger{}, Trigger{Internal: Endpoint{Token: "x"}}); !slices.Equal(got, []string{"internal.tokenFile"}) {
		t.Errorf("of a trigger service a restart takes over %v", got)
	}
	if got := ChangedBoundKeys(Control{}, Control{Internal: Endpoint{Token: "x"}}); !slices.Equal(got, []string{"internal.tokenFile"}) {
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
