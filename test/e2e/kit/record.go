package kit

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

// Records returns the newest records that a query selects.
func (r *Rig) Records(t *testing.T, query string) (all []ledger.Record) {
	t.Helper()
	check.Must(t, admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?"+query, &all))
	return all
}

// NewestRecord returns the newest record that a query finds. It waits for the first one.
func (r *Rig) NewestRecord(t *testing.T, query string) ledger.Record {
	t.Helper()
	var found []ledger.Record
	Until(t, "a record of "+query, func() bool {
		found = r.Records(t, "limit=1&"+query)
		return len(found) > 0
	})
	return found[0]
}

// RecordsOf returns the records of a rule, or of none, with this code.
func (r *Rig) RecordsOf(t *testing.T, rule, code string) []ledger.Record {
	t.Helper()
	other := func(p ledger.Record) bool { return p.Rule != rule || p.Code != code }
	return slices.DeleteFunc(r.Records(t, "limit=1000"), other)
}

// WantAssurance fails a record that claims more or less than it may.
func (r *Rig) WantAssurance(t *testing.T, p ledger.Record) {
	t.Helper()
	var shown admin.Record
	check.Must(t, admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts/"+p.ID, &shown))
	if (shown.Assurance != nil) != (p.Flow == "post") {
		t.Fatalf("%s is of the flow %s and claims %+v", p.ID, p.Flow, shown.Assurance)
	}
	if shown.Assurance == nil {
		return
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

// ToolPosts counts the calls of tools that left as posts, and checks their records.
func (r *Rig) ToolPosts(t *testing.T) (n int) {
	t.Helper()
	for _, p := range r.Records(t, "limit=1000&flow=post&state=forwarded") {
		n++
		r.WantAssurance(t, p)
		if !strings.HasPrefix(p.Message, "tools/call ") || !strings.HasSuffix(p.Resource, " "+p.Message) || p.Result != "ok" {
			t.Errorf("the record says %q, %q, %q", p.Resource, p.Message, p.Result)
		}
		var shown strings.Builder
		records.Print(&shown, admin.Record{Record: p})
		if !strings.Contains(shown.String(), "message      "+p.Message+"\n  result       ok\n") {
			t.Errorf("posts show prints\n%s", &shown)
		}
	}
	return n
}

// Trust returns the flags for the public keys, the bundle and the manifest of a deployment.
func (r *Rig) Trust() []string {
	return []string{
		"--registry", r.In(devstack.RegistryFile), "--auditor", r.In(devstack.AuditorFile),
		"--bundle", r.In(devstack.BundleFile), "--manifest", r.In(devstack.ManifestFile),
	}
}

// SaveRecord writes a record as posts show prints it and returns the file.
func (r *Rig) SaveRecord(t *testing.T, id string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "record.json")
	Write(t, file, Run(t, "posts", "show", id, "--json", "--admin", r.Stack.Admin()))
	return file
}

// VerifyRecord shows, verifies and exports the evidence of a post, with public keys alone.
func (r *Rig) VerifyRecord(t *testing.T, id string) (said string) {
	t.Helper()
	record := r.SaveRecord(t, id)
	shown := Run(t, "posts", "show", record)
	if !strings.Contains(shown, "\n    request proof") || !strings.Contains(shown, "nonHumanIdentityProven: false") {
		t.Errorf("posts show: %s", shown)
	}
	said = Run(t, With([]string{"verify", record}, r.Trust()...)...)
	if strings.Count(said, " ok\n") != 10 {
		t.Errorf("verify: %s", said)
	}
	file := filepath.Join(t.TempDir(), "export.jsonl")
	Run(t, With([]string{"posts", "export", id, "--out", file, "--admin", r.Stack.Admin()}, r.Trust()...)...)
	all := Run(t, With([]string{"verify", file}, r.Trust()...)...)
	if !strings.HasPrefix(all, "Authentic:   1 verified, ") {
		t.Errorf("verify of an export: %s", all)
	}
	return said
}
