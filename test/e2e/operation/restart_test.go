package operation

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestRestart starts a stack of mediator dev again, and once more: a client that trusts the CA of the first start still
// reaches the upstream, and the records of all starts verify, from the sidecar, from an export in another folder, and
// from a copy of the ledger. A new host in the rules brings a new CA, because the old one does not cover it.
func TestRestart(t *testing.T) {
	t.Parallel()
	curl := kit.Need(t, "curl")
	r := kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		return r.GitHub(t), kit.ClientRules
	}, func(file string) string {
		return strings.Replace(file, "ca: {certificateFile", "ca: {dir: ca, certificateFile", 1)
	})
	in := func(name string) string { return r.In(name) }
	read := func(name string) string {
		t.Helper()
		raw := kit.Read(t, in(name))
		return string(raw)
	}
	start := func() {
		t.Helper()
		s, err := devstack.Start(t.Context(), r.Dir)
		check.Must(t, err)
		r.Stack = s
		t.Cleanup(s.Stop)
	}
	// an isolated agent has its own folder of temporary files, and this one. It may be unable to enter the clone
	folder, err := os.MkdirTemp("/srv", "restart")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	check.Must(t, os.Chmod(folder, 0o755))
	trusted := filepath.Join(folder, "ca.pem") // what the client has taken once
	post := func() (string, error) {
		return r.AsAgent(t, curl, "-sS", "--fail", "--cacert", trusted, "-H", "Content-Type: application/json", "-d",
			`{"body":"again"}`, "https://"+r.Plain()+"/repos/acme/site/issues/7/comments")
	}
	const starts = 3
	first := ""
	for i := range starts {
		start()
		if i == 0 {
			first = read("ca.pem")
			check.Must(t, os.WriteFile(trusted, []byte(first), 0o644))
			if info, err := os.Stat(in("ca/ca-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("the CA's key: %v, %v", info.Mode(), err)
			}
		}
		if out, err := post(); err != nil {
			t.Fatalf("start %d: %s %v", i, out, err)
		}
		if i < starts-1 {
			r.Stack.Stop()
		}
	}
	earlier, err := os.ReadDir(in(devstack.EarlierFolder))
	if err != nil || len(earlier) != starts-1 {
		t.Fatalf("%d earlier starts are kept, %v", len(earlier), err)
	}

	verify := func(want int, args ...string) {
		t.Helper()
		status, out, said := kit.Invoke(t, args...)
		if status != program.Done || !strings.Contains(out, "nonHumanIdentityProven: false") || want > 0 &&
			!strings.Contains(out, "3 verified, ") {
			t.Errorf("%v: %d %s%s", args, status, out, said)
		}
	}
	pins := []string{"--registry", in(devstack.RegistryFile), "--auditor", in(devstack.AuditorFile), "--bundle",
		in(devstack.BundleFile), "--earlier", in(devstack.EarlierFolder)}
	with := append([]string{"--manifest", in(devstack.ManifestFile)}, pins...)
	posts := r.Records(t, "state=forwarded&flow=post")
	if len(posts) != starts {
		t.Fatalf("%d records", len(posts))
	}
	for _, p := range posts {
		status, shown, said := kit.Invoke(t, "posts", "show", p.ID, "--json", "--admin", r.Stack.Admin())
		if status != program.Done {
			t.Fatal(said)
		}
		record := filepath.Join(t.TempDir(), "record.json")
		kit.Write(t, record, shown)
		verify(0, append([]string{"verify", record}, with...)...)
	}
	file := filepath.Join(t.TempDir(), "all.jsonl.gz")
	if status, out, said := kit.Invoke(t,
		append([]string{"posts", "export", "--out", file, "--flow", "post", "--admin", r.Stack.Admin(), "--policy",
			in(devstack.PolicyFile)}, with...)...); status != program.Done {
		t.Fatalf("%s%s", out, said)
	}
	verify(starts, append([]string{"verify", file}, pins...)...)
	r.Stack.Stop()
	verify(starts, append([]string{"verify", "--ledger", in("state/ledger.db")}, with...)...)

	// The CA cannot vouch for another host.
	check.Must(t,
		files.Replace(in(devstack.SidecarFile),
			[]byte(strings.Replace(read(devstack.SidecarFile), "egress:\n",
				"egress:\n  - {name: other, match: {url: \"https://other.example/**\", methods: [GET]}}\n", 1)), 0o600))
	start()
	if read("ca.pem") == first {
		t.Error("the CA is the one that does not cover the new host")
	}
	check.Must(t, os.WriteFile(trusted, []byte(read("ca.pem")), 0o644))
	if out, err := post(); err != nil {
		t.Errorf("with the new CA: %s %v", out, err)
	}
}
