package operation

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestTheReasonIsForTheRecord lets what a post needs fail. The agent learns the code and the id of the record, and the
// record says what failed.
func TestTheReasonIsForTheRecord(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t, kit.ManyPosts, func(file string) string { // for what does not answer
		return strings.Replace(file, "session: {standing: true}", "timeouts: {step: 10s}\nsession: {standing: true}", 1)
	})
	a := r.OpenAgent(t)
	signal := func(name string, s syscall.Signal) func() {
		return func() { check.Must(t, r.Process(name).Cmd.Process.Signal(s)) }
	}
	bundle := r.In(devstack.BundleFile)
	whole := kit.Read(t, bundle)
	replace := func(content []byte) func() {
		return func() { check.Must(t, files.Replace(bundle, content, 0o644)) }
	}
	for _, tt := range []struct {
		name         string
		strike, mend func()
		codes        []string
		reason       string // a part of the reason in the record
	}{
		{"the trigger service hangs", signal("trigger", syscall.SIGSTOP), signal("trigger", syscall.SIGCONT),
			[]string{"process_unavailable"}, "the trigger service does not answer"},
		{"the control plane hangs", signal("control", syscall.SIGSTOP), signal("control", syscall.SIGCONT),
			[]string{"process_unavailable"}, "the control plane does not answer"},
		{"a key without a certificate", replace(without(t, whole, "runtime-key")), replace(whole),
			[]string{"key_unknown", "custody_unavailable"}, "runtime-key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kit.Until(t, "a sound post", func() bool { return a.Post().Code == "" })
			var o kit.Outcome
			kit.Until(t, "a refusal", func() bool { // again and again: the stack's registry certifies the key anew
				tt.strike()
				o = a.Post()
				return slices.Contains(tt.codes, o.Code)
			})
			if !strings.Contains(o.Detail, "mediator posts show "+o.Post) {
				t.Errorf("the agent is told %q", o.Detail)
			}
			if reason := a.Reason(o); !strings.Contains(reason, tt.reason) {
				t.Errorf("the record of %s says %q", o.Code, reason)
			}
			tt.mend()
		})
	}
	kit.Until(t, "a sound post", func() bool { return a.Post().Code == "" })
}

func without(t *testing.T, bundle []byte, key string) []byte {
	t.Helper()
	var b map[string]any
	check.Must(t, json.Unmarshal(bundle, &b))
	parsed, err := evidence.ParseBundle(bundle)
	check.Must(t, err)
	b["certificates"] = slices.DeleteFunc(parsed.Certificates, func(token string) bool {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
		check.Must(t, err)
		return evidence.KeyName(c.SubjectKeyID) == key
	})
	out, err := json.Marshal(b)
	check.Must(t, err)
	return out
}
