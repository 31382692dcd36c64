package custody

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/vaultaudit"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

type compared struct {
	Differences []vaultaudit.Difference `json:"differences"`
	Summary     vaultaudit.Summary      `json:"summary"`
}

func denySome(file string) string {
	return strings.Replace(file, "\nrules:\n",
		"\nrules:\n  - name: not-there\n    effect: deny\n    when: request.path.endsWith(\"/8/comments\")\n", 1)
}

// Log and record differ only after a key was used past the mediator, or a part of the log or a record is missing.
func TestVaultAudit(t *testing.T) {
	t.Parallel()
	log := t.TempDir() + "/audit.log"
	v := newVaultRig(t, kit.ManyPosts, denySome)
	v.vault.Write(t, "sys/audit/file", map[string]any{"type": "file", "options": map[string]string{"file_path": log}})
	a := v.OpenAgent(t)
	const posts = 5
	for range posts {
		a.MustPost(t)
	}
	if o := a.Call(http.MethodPost, "/repos/acme/site/issues/8/comments", `{"body":"denied"}`); o.Code != "policy_denied" {
		t.Fatalf("%+v", o)
	}
	var records []ledger.Record
	kit.Until(t, "the records", func() bool {
		records = v.Records(t, "flow=post")
		return len(records) == posts+1 && !slices.ContainsFunc(records, func(r ledger.Record) bool {
			return r.State == ledger.StateForwarding
		})
	})
	const artifacts = 7*posts + 4 // of a post that is denied, there is what rests on no decision

	token := t.TempDir() + "/token"
	secret := v.vault.TokenFor(t, "auditor", `path "sys/audit-hash/file" { capabilities = ["update"] }`, time.Hour)
	kit.Write(t, token, secret)
	exact := []string{"--address", v.vault.Address, "--ca", v.vault.CAFile, "--token-file", token, "--device", "file"}
	audit := func(log string, flags ...string) (got compared, status int, said string) {
		t.Helper()
		e := kit.Mediator(t, slices.Concat([]string{"vault", "audit", log, "--until", "2100-01-01", "--json", "--admin",
			v.Stack.Admin()}, flags)...)
		for line := range strings.Lines(e.Out) {
			var d struct {
				vaultaudit.Difference
				Summary *vaultaudit.Summary `json:"summary"`
			}
			check.Must(t, json.Unmarshal([]byte(line), &d))
			if d.Summary != nil {
				got.Summary = *d.Summary
			} else {
				got.Differences = append(got.Differences, d.Difference)
			}
		}
		return got, e.Status, e.Said
	}
	compare := func(what, log string, want func(t *testing.T, got compared, status int)) {
		t.Helper()
		got, status, said := audit(log, exact...)
		if said != "" {
			t.Errorf("%s: it says %q", what, said)
		}
		t.Run(what, func(t *testing.T) { want(t, got, status) })
	}
	lines := func() []string { return strings.SplitAfter(string(kit.Read(t, log)), "\n") }
	write := func(lines []string) string {
		path := t.TempDir() + "/audit.log"
		kit.Write(t, path, strings.Join(lines, ""))
		return path
	}

	compare("nothing differs", log, func(t *testing.T, got compared, status int) {
		if s := got.Summary; status != program.Done || len(got.Differences) != 0 || s.Signatures != artifacts ||
			s.Artifacts != artifacts || s.Matched != artifacts {
			t.Errorf("status %d, %+v", status, got)
		}
	})

	// without is the log without the first response with a signature of a key for a process.
	without := func(key string) []string {
		all := lines()
		n := slices.IndexFunc(all, func(l string) bool {
			return strings.Contains(l, `"type":"response"`) && strings.Contains(l, `"path":"transit/sign/`+key+`"`) &&
				!strings.Contains(l, `"display_name":"root"`)
		})
		return slices.Delete(all, n, n+1)
	}
	compare("the log is cut", write(without("action-grant-key")), func(t *testing.T, got compared, status int) {
		if status != program.Refused || len(got.Differences) != 1 || got.Summary.OnlyRecord != 1 ||
			got.Summary.OnlyVault != 0 {
			t.Fatalf("status %d, %+v", status, got)
		}
		d := got.Differences[0]
		if d.Only != vaultaudit.OnlyRecord || d.Key != "action-grant-key:v1" || d.Artifact != "grant" ||
			!slices.ContainsFunc(records, func(r ledger.Record) bool {
				return r.ID == d.Post
			}) {
			t.Errorf("got %+v", d)
		}
	})

	// A key signs past the mediator.
	foreign := base64.StdEncoding.EncodeToString([]byte("a request proof of somebody else's"))
	v.vault.Write(t, "transit/sign/request-proof-key", map[string]any{"input": foreign})
	compare("a signature for somebody else", log, func(t *testing.T, got compared, status int) {
		if status != program.Refused || len(got.Differences) != 1 || got.Summary.OnlyVault != 1 ||
			got.Summary.OnlyRecord != 0 {
			t.Fatalf("status %d, %+v", status, got)
		}
		if d := got.Differences[0]; d.Only != vaultaudit.OnlyVault || d.Key != "request-proof-key:v1" || d.By != "root" ||
			d.Request == "" || d.Remote != "127.0.0.1" || d.Time.IsZero() {
			t.Errorf("got %+v", d)
		}
	})
	// The log lacks a signature of that key and time too: the number is right.
	compare("a signature in the place of another", write(without("request-proof-key")),
		func(t *testing.T, got compared, status int) {
			if status != program.Refused || got.Summary.OnlyVault != 1 || got.Summary.OnlyRecord != 1 {
				t.Errorf("status %d, %+v", status, got)
			}
		})

	// People read it over a copy of the ledger, which is empty.
	empty := t.TempDir() + "/empty.db"
	l, err := sqlite.Open(t.Context(), empty, sqlite.Options{Now: time.Now})
	check.Must(t, err)
	check.Must(t, l.Close())
	e := kit.Mediator(t, append([]string{"vault", "audit", log, "--until", "2100-01-01", "--ledger", empty}, exact...)...)
	e.Refused(fmt.Sprintf("only in Vault's log: %d; only in the record: 0;", artifacts+1))
	if strings.Count(e.Out, "\nvault ") != artifacts+1 {
		t.Error(e.Out)
	}

	// A comparison that fails prints no result.
	kit.Write(t, token, v.vault.TokenFor(t, "nobody", `path "none" { capabilities = ["read"] }`, time.Hour))
	for name, tt := range map[string]struct {
		log   string
		flags []string
		want  string
	}{
		"a token without the right": {log, exact, "permission denied"},
		"no device of that name":    {log, append(slices.Clone(exact), "--device", "other"), ""},
		"hashes alone":              {log, nil, "the log has hashes of the signatures"},
		"a line that is none":       {write(append([]string{"none\n"}, lines()...)), nil, "line 1: this is not an entry"},
	} {
		got, status, said := audit(tt.log, tt.flags...)
		if status != program.Refused || got.Differences != nil || !strings.Contains(said, tt.want) {
			t.Errorf("%s: status %d, %+v, %q", name, status, got, said)
		}
	}

	kit.Write(t, token, secret)
	// An audit device can log signatures as they are, so that Vault is not asked.
	plain := t.TempDir() + "/plain.log"
	v.vault.Write(t, "sys/audit/plain",
		map[string]any{"type": "file", "options": map[string]string{"file_path": plain, "log_raw": "true"}})
	since := time.Now()
	a.MustPost(t)
	v.vault.Write(t, "transit/sign/runtime-key", map[string]any{"input": foreign})
	kit.Until(t, "the record", func() bool {
		records = v.Records(t, "flow=post&state=forwarded")
		return len(records) == posts+1
	})
	recent := []string{"--since", since.Truncate(time.Second).Format(time.RFC3339), "--keys", "runtime-key,session-key"}
	got, status, said := audit(plain, recent...)
	if status != program.Refused || got.Summary.OnlyVault != 1 ||
		got.Differences[0].Key != "runtime-key:v1" {
		t.Errorf("status %d, %+v, %s", status, got, said)
	}

	// A wrapped answer contains a signature that no log shows. A failed request contains none.
	c := v.vault.Client(t)
	for _, wrong := range []map[string]any{{"input": "no Base64"}, {"input": foreign, "key_version": 7},
		{"batch_input": []any{}}, {"batch_input": []any{map[string]any{"input": "no Base64"}}}} {
		if answer, err := c.Logical().Write("transit/sign/runtime-key", wrong); err == nil &&
			answer.Data["batch_results"] == nil {
			t.Errorf("signed %v: %v", wrong, answer.Data)
		}
	}
	c.SetWrappingLookupFunc(func(string, string) string { return "60s" })
	wrapped, err := c.Logical().Write("transit/sign/runtime-key", map[string]any{"input": foreign})
	check.Must(t, err)
	c.SetWrappingLookupFunc(nil)
	answer, err := c.Logical().Unwrap(wrapped.WrapInfo.Token)
	check.Must(t, err)
	if sig, ok := answer.Data["signature"].(string); !ok || !strings.HasPrefix(sig, "vault:v1:") {
		t.Fatalf("got %v", answer.Data)
	}
	for path, flags := range map[string][]string{plain: recent, log: slices.Concat(recent, exact)} {
		got, status, said := audit(path, flags...)
		hidden := slices.IndexFunc(got.Differences, func(d vaultaudit.Difference) bool {
			return d.Hidden == vaultaudit.HiddenWrapped
		})
		if status != program.Refused || got.Summary.OnlyVault != 2 || hidden < 0 ||
			got.Differences[hidden].Key != "runtime-key" || got.Differences[hidden].By != "root" ||
			got.Differences[hidden].Request == "" {
			t.Errorf("%s: status %d, %+v, %s", path, status, got, said)
		}
	}
	kit.Mediator(t, "vault", "audit", plain, "--until", "2100-01-01", "--admin", v.Stack.Admin()).Refused(
		"what the log does not show (wrapped) of the request ")
}
