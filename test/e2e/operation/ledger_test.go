package operation

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// Nothing is posted while the database is away.
func TestLedgerInPostgres(t *testing.T) {
	t.Parallel()
	const password = "hunter2-of-the-ledger"
	server := pgtest.Start(t)
	dsn := server.Database(t)
	r := kit.NewRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		kit.Write(t, r.In("secrets/ledger-dsn"), dsn+"&password="+password+"\n")
		return r.GitHub(t), kit.ClientRules + "ledger: {postgres: {dsnFile: secrets/ledger-dsn}}\n"
	})
	recorded := func(n int) {
		kit.Until(t, fmt.Sprintf("%d records", n), func() bool { return len(r.Records(t, "state=forwarded")) == n })
	}
	for _, step := range []struct {
		before func()
		want   string
		posts  int64
	}{
		{func() {}, "201", 1},
		{func() { recorded(1); server.Kill(t) }, `"code":"ledger_unavailable"`, 1},
		{func() { server.Restart(t) }, "201", 2},
	} {
		step.before()
		if out := r.Curl(t); !strings.Contains(out, step.want) || r.Posts.Load() != step.posts {
			t.Errorf("got %s and %d posts, want %s and %d", out, r.Posts.Load(), step.want, step.posts)
		}
	}

	recorded(2)
	db, err := sql.Open("pgx", dsn)
	check.Must(t, err)
	defer db.Close()
	var keys int
	if err := db.QueryRow(`SELECT count(*) FROM actionproof.consumed`).Scan(&keys); err != nil || keys != 2*9 {
		t.Errorf("%d keys, %v", keys, err)
	}
	if _, err := os.Stat(r.In("state/ledger.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a ledger in a file too: %v", err)
	}
	if strings.Contains(r.Log(t, "serve"), password) {
		t.Error("the log shows the password")
	}
}

// A sidecar whose ledger is missing or older does not start until an operator accepts that.
func TestLedgerReplaced(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
	r := kit.NewClientsRig(t)
	file := r.In("state/ledger.db")
	posts := func() {
		t.Helper()
		if out := r.Curl(t); !strings.HasSuffix(out, " 201") {
			t.Fatal(out)
		}
	}
	wantRefused := func(sentence string) {
		t.Helper()
		kit.Mediator(t, "serve", "--config", r.In(devstack.SidecarFile)).Refused(sentence, "mediator ledger accept",
			"(ledger_replaced)")
	}

	posts()
	r.Stack.Stop()
	older := kit.Read(t, file)
	r.Start(t)
	posts()
	check.Must(t, r.Process("serve").Cmd.Process.Kill())
	r.Stack.Stop()
	r.Start(t) // after kill -9
	posts()

	r.Stack.Stop()
	accept := []string{"ledger", "accept", "--config", r.In(devstack.SidecarFile), "--reason", "a drill"}
	kit.Mediator(t, accept...).Refused("(query_malformed)")
	kit.Write(t, file, older)
	wantRefused("is an older copy")
	check.Must(t, os.Remove(file))
	wantRefused("the ledger ledger.db is missing")
	if _, err := os.Stat(file); err == nil {
		t.Error("another ledger was made")
	}

	kit.OpenTo(t, r.In("state"))
	check.Must(t, os.Lchown(r.In("state"), 65534, 65534))
	check.Must(t, os.Remove(file+".lock")) // root's, as this test is
	cmd := exec.Command(kit.Self(t), append(accept, "--json")...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	check.Must(t, err)
	var accepted sidecar.AcceptedLedger
	check.Must(t, json.Unmarshal(out, &accepted))
	for _, made := range []string{file, r.In("state/ledger-mark.json")} {
		info, err := os.Stat(made)
		check.Must(t, err)
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 65534 || owner.Gid != 65534 {
			t.Errorf("%s belongs to %d:%d", made, owner.Uid, owner.Gid)
		}
	}
	check.Must(t, os.Lchown(r.In("state"), 0, 0))
	if accepted.Reason != "a drill" || accepted.Was.ID == "" || accepted.Was.ID == accepted.Found.ID ||
		!accepted.RefusedUntil.After(time.Now().Add(10*time.Minute)) {
		t.Errorf("got %+v", accepted)
	}
	r.Start(t)
	if out := r.Curl(t); !strings.Contains(out, `"code":"ledger_unavailable"`) {
		t.Error(out)
	}
	refused := r.Records(t, "flow=post") // within the lifetime of what may have been used before
	if len(refused) != 1 || refused[0].State != ledger.StateRefused ||
		!strings.Contains(refused[0].Reason, "accepted a short time ago") {
		t.Errorf("got %+v", refused)
	}
	var l admin.Ledger
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/v1/ledger", &l))
	if l.ID != accepted.Found.ID || len(l.Acceptances) != 1 || l.Acceptances[0].Was != accepted.Was {
		t.Errorf("got %+v", l)
	}
	doctor := kit.Mediator(t, "doctor", "--admin", r.Stack.Admin()).Out
	if !strings.Contains(doctor, "in the place of ledger "+accepted.Was.ID) || !strings.Contains(doctor, ": a drill\n") {
		t.Error(doctor)
	}
	e := kit.Mediator(t, accept...).Refused()
	if !strings.Contains(e.Said, "in use by another process") && !strings.Contains(e.Said, "query_malformed") {
		t.Error(e.Said)
	}
}

// A client that trusts the CA of the first start still reaches the upstream, and the records of all starts verify. A
// new host brings a new CA.
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
	trusted := folder + "/ca.pem" // what the client has taken once
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
	file := t.TempDir() + "/all.jsonl.gz"
	kit.Run(t, append([]string{"posts", "export", "--out", file, "--flow", "post", "--admin", r.Stack.Admin()},
		with...)...)
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
