package kit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

// WantAssurance asks for one record and demands that it claims what it may and no more.
func (r *Rig) WantAssurance(t *testing.T, p ledger.Record) {
	t.Helper()
	var shown admin.Record
	if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts/"+p.ID, &shown); err != nil {
		t.Fatal(err)
	}
	if p.Flow != "post" {
		if shown.Assurance != nil {
			t.Errorf("%s is no post and claims %s", p.ID, shown.Assurance.Claim)
		}
		return
	}
	if shown.Assurance == nil {
		t.Fatalf("%s claims nothing, not even that", p.ID)
	}
	want, issues := policy.ClaimControlledPath, 0
	if p.State != ledger.StateForwarded {
		want, issues = policy.ClaimNone, 9
	}
	if got := *shown.Assurance; got.Claim != want || len(got.Issues) != issues {
		t.Errorf("%s, %s at step %q: claims %s, missing %v", p.ID, p.State, p.Step, got.Claim, got.Issues)
	}
	var text strings.Builder
	records.Print(&text, shown)
	if !strings.Contains(text.String(), want+"; nonHumanIdentityProven: false") {
		t.Errorf("posts show does not say so:\n%s", &text)
	}
}

// Doctor runs mediator doctor and returns the controls by their state.
func (r *Rig) Doctor(t *testing.T) (status int, text string, byState map[string][]string) {
	t.Helper()
	var controls []policy.ObservedControl
	if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/controls", &controls); err != nil {
		t.Fatal(err)
	}
	byState = make(map[string][]string)
	for _, c := range controls {
		byState[c.State] = append(byState[c.State], c.Control)
	}
	var stdout, stderr bytes.Buffer
	status = program.Run(context.Background(), []string{"doctor", "--admin", r.Stack.Admin()}, nil, &stdout, &stderr)
	return status, stdout.String() + stderr.String(), byState
}

// VerifyRecord has the commands show the evidence of a post, and verify it with public keys alone.
func (r *Rig) VerifyRecord(t *testing.T, id string) string {
	t.Helper()
	mediator := func(args ...string) string {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := program.Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); status != program.Done {
			t.Errorf("mediator %s: %d %s%s", strings.Join(args, " "), status, &stdout, &stderr)
		}
		return stdout.String()
	}
	record := filepath.Join(t.TempDir(), "record.json")
	shown := mediator("posts", "show", id, "--json", "--admin", r.Stack.Admin())
	if err := os.WriteFile(record, []byte(shown), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := mediator("posts", "show", record); !strings.Contains(said, "\n    request proof") || !strings.Contains(said, "nonHumanIdentityProven: false") {
		t.Errorf("posts show: %s", said)
	}
	in := func(name string) string { return filepath.Join(r.Dir, name) }
	trust := []string{"--registry", in(devstack.RegistryFile), "--auditor", in(devstack.AuditorFile), "--bundle", in(devstack.BundleFile), "--manifest", in(devstack.ManifestFile)}
	said := mediator(append([]string{"verify", record}, trust...)...)
	if strings.Count(said, " ok\n") != 10 {
		t.Errorf("verify: %s", said)
	}
	file := filepath.Join(t.TempDir(), "export.jsonl")
	mediator(append([]string{"posts", "export", id, "--out", file, "--admin", r.Stack.Admin()}, trust...)...)
	if all := mediator(append([]string{"verify", file}, trust...)...); !strings.HasPrefix(all, "1 verified, ") {
		t.Errorf("verify of an export: %s", all)
	}
	return said
}

// ToolPosts counts the calls of tools that went out as posts, and holds what their records say.
func (r *Rig) ToolPosts(t *testing.T) (n int) {
	t.Helper()
	var posts []ledger.Record
	check.Must(t, admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?limit=1000", &posts))
	for _, p := range posts {
		if p.Flow != "post" || p.State != ledger.StateForwarded {
			continue
		}
		n++
		r.WantAssurance(t, p)
		if !strings.HasPrefix(p.Message, "tools/call ") || !strings.HasSuffix(p.Resource, " "+p.Message) || p.Result != "ok" {
			t.Errorf("the record says %q, %q, %q", p.Resource, p.Message, p.Result)
		}
		var shown strings.Builder
		if records.Print(&shown, admin.Record{Record: p}); !strings.Contains(shown.String(), "message      "+p.Message+"\n  result       ok\n") {
			t.Errorf("posts show prints\n%s", &shown)
		}
	}
	return n
}
