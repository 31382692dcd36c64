package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/devstack"
)

// inside matches names of the deployment that no refusal may tell an agent: keys, and what Vault, the operating system and the databases
// say of them.
var inside = regexp.MustCompile(`(?i):v\d|vault\b|transit|approle|kv/|auth/|secret.id|\.(token|sock|db|json|jwk|pem)\b|/run/|/tmp/|\b\d+\.\d+\.\d+\.\d+\b|unix|\bsql|insert|database|x509|\bdial\b|errno|no such file|connection refused|permission`)

// wantNothingTold looks for names of the deployment in what an agent got.
func wantNothingTold(t *testing.T, answer string) {
	t.Helper()
	if found := inside.FindString(answer); found != "" {
		t.Errorf("the agent is told of %q: %s", found, answer)
	}
	for _, r := range bootstrap.Roles {
		if strings.Contains(answer, r.Key) {
			t.Errorf("the agent is told of the key %s: %s", r.Key, answer)
		}
	}
}

// TestTheReasonIsForTheRecord lets one thing after the other fail that a post needs. The agent learns the code and the id of the record, and
// the record says what failed.
func TestTheReasonIsForTheRecord(t *testing.T) {
	t.Parallel()
	r := newClientsRig(t, manyPosts, func(file string) string { // for what does not answer
		return strings.Replace(file, "session: {standing: true}", "timeouts: {step: 10s}\nsession: {standing: true}", 1)
	})
	a := r.openAgent(t)
	signal := func(name string, s syscall.Signal) func(t *testing.T) {
		return func(t *testing.T) {
			i := slices.IndexFunc(r.Stack.Processes, func(p *devstack.Process) bool { return p.Name == name })
			must(t, r.Stack.Processes[i].Cmd.Process.Signal(s))
		}
	}
	bundle := filepath.Join(r.Dir, devstack.BundleFile)
	whole, err := os.ReadFile(bundle)
	must(t, err)
	replace := func(content []byte) func(t *testing.T) {
		return func(t *testing.T) {
			must(t, os.WriteFile(bundle+".new", content, 0o644))
			must(t, os.Rename(bundle+".new", bundle))
		}
	}
	for _, tt := range []struct {
		name         string
		strike, mend func(t *testing.T)
		codes        []string
		reason       string // a part of what the record says
	}{
		{"the trigger service hangs", signal("trigger", syscall.SIGSTOP), signal("trigger", syscall.SIGCONT), []string{"process_unavailable"}, "the trigger service does not answer"},
		{"the control plane hangs", signal("control", syscall.SIGSTOP), signal("control", syscall.SIGCONT), []string{"process_unavailable"}, "the control plane does not answer"},
		{"a key without a certificate", replace(without(t, whole, "runtime-key")), replace(whole), []string{"key_unknown", "custody_unavailable"}, "runtime-key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			until(t, patience, "a sound post", func() bool { return a.post().code == "" })
			var o outcome
			until(t, patience, "a refusal", func() bool { // again and again: the stack's registry certifies the key anew
				tt.strike(t)
				o = a.post()
				return slices.Contains(tt.codes, o.code)
			})
			if !strings.Contains(o.detail, "mediator posts show "+o.post) {
				t.Errorf("the agent is told %q", o.detail)
			}
			if reason := a.reason(o); !strings.Contains(reason, tt.reason) {
				t.Errorf("the record of %s says %q", o.code, reason)
			}
			tt.mend(t)
		})
	}
	until(t, patience, "a sound post", func() bool { return a.post().code == "" })
}

// without returns a trust bundle that does not certify one key.
func without(t *testing.T, bundle []byte, key string) []byte {
	t.Helper()
	var b map[string]any
	must(t, json.Unmarshal(bundle, &b))
	parsed, err := evidence.ParseBundle(bundle)
	must(t, err)
	b["certificates"] = slices.DeleteFunc(parsed.Certificates, func(token string) bool {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token)
		must(t, err)
		return evidence.KeyName(c.SubjectKeyID) == key
	})
	out, err := json.Marshal(b)
	must(t, err)
	return out
}
