package operation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestRestart starts a stack of mediator dev again, and once more: a client that trusts the CA of the first start still
// reaches the upstream, and the records of all starts verify, from the sidecar, from an export in another folder, and
// from a copy of the ledger. A new host in the rules brings a new CA, because the old one does not cover it.
func TestRestart(t *testing.T) {
	t.Parallel()
	curl := kit.Need(t, "curl")
	r := kit.PrepareClientsRig(t, func(file string) string {
		return strings.Replace(file, "ca: {certificateFile", "ca: {dir: ca, certificateFile", 1)
	})
	certificate := func() string { return string(kit.Read(t, r.In("ca.pem"))) }
	// an isolated agent has its own folder of temporary files, and this one. It may be unable to enter the clone
	folder, err := os.MkdirTemp("/srv", "restart")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	check.Must(t, os.Chmod(folder, 0o755))
	trusted := filepath.Join(folder, "ca.pem") // what the client has taken once
	post := func() (string, error) {
		return r.AsAgent(t, curl, "-sS", "--fail", "--cacert", trusted, "-H", "Content-Type: application/json", "-d",
			kit.Comment, "https://"+r.Plain()+kit.Comments)
	}
	const starts = 3
	first := ""
	for i := range starts {
		r.Start(t)
		if i == 0 {
			first = certificate()
			check.Must(t, os.WriteFile(trusted, []byte(first), 0o644))
			if info, err := os.Stat(r.In("ca/ca-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
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
	earlier, err := os.ReadDir(r.In(devstack.EarlierFolder))
	if err != nil || len(earlier) != starts-1 {
		t.Fatalf("%d earlier starts are kept, %v", len(earlier), err)
	}

	with := append(r.Trust(), "--earlier", r.In(devstack.EarlierFolder))
	const unproven, all = "nonHumanIdentityProven: false", "3 verified, "
	posts := r.Records(t, "state=forwarded&flow=post")
	if len(posts) != starts {
		t.Fatalf("%d records", len(posts))
	}
	for _, p := range posts {
		kit.Mediator(t, append([]string{"verify", r.SaveRecord(t, p.ID)}, with...)...).Done(unproven)
	}
	file := filepath.Join(t.TempDir(), "all.jsonl.gz")
	kit.Run(t, append([]string{"posts", "export", "--out", file, "--flow", "post", "--admin", r.Stack.Admin(), "--policy",
		r.In(devstack.PolicyFile)}, with...)...)
	kit.Mediator(t, append([]string{"verify", file}, with...)...).Done(unproven, all)
	r.Stack.Stop()
	kit.Mediator(t, append([]string{"verify", "--ledger", r.In("state/ledger.db")}, with...)...).Done(unproven, all)

	// The CA cannot vouch for another host.
	kit.Edit(t, r.In(devstack.SidecarFile), "egress:\n",
		"egress:\n  - {name: other, match: {url: \"https://other.example/**\", methods: [GET]}}\n")
	r.Start(t)
	if certificate() == first {
		t.Error("the CA is the one that does not cover the new host")
	}
	check.Must(t, os.WriteFile(trusted, []byte(certificate()), 0o644))
	if out, err := post(); err != nil {
		t.Errorf("with the new CA: %s %v", out, err)
	}
}
