package operation

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestLedgerReplaced takes the ledger away from a sidecar, and puts an older copy in its place. The sidecar does not
// start until an operator accepts that. A restart after a crash needs no acceptance.
func TestLedgerReplaced(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t)
	in := func(name string) string { return r.In(name) }
	file := in("state/ledger.db")
	post := func() string { t.Helper(); return r.Curl(t) }
	posts := func() {
		t.Helper()
		if out := post(); !strings.HasSuffix(out, " 201") {
			t.Fatal(out)
		}
	}
	restart := func(change func()) {
		t.Helper()
		r.Stack.Stop()
		change()
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		var err error
		r.Stack, err = devstack.Start(ctx, r.Dir)
		check.Must(t, err)
		t.Cleanup(r.Stack.Stop)
	}
	wantRefused := func(sentence string) {
		t.Helper()
		status, _, said := kit.Invoke(t, "serve", "--config", in(devstack.SidecarFile))
		if status != program.Refused || !strings.Contains(said, sentence) ||
			!strings.Contains(said, "mediator ledger accept") || !strings.Contains(said, "(ledger_replaced)") {
			t.Errorf("status %d: %s", status, said)
		}
	}

	posts()
	var older []byte
	restart(func() { older = kit.Read(t, file) })
	posts()
	for _, p := range r.Stack.Processes {
		if p.Name == "serve" {
			check.Must(t, p.Cmd.Process.Kill())
		}
	}
	restart(func() {}) // after kill -9
	posts()

	r.Stack.Stop()
	accept := []string{"ledger", "accept", "--config", in(devstack.SidecarFile), "--reason", "a drill"}
	if status, _, said := kit.Invoke(t, accept...); status != program.Refused ||
		!strings.Contains(said, "(query_malformed)") {
		t.Errorf("status %d: %s", status, said)
	}
	check.Must(t, os.WriteFile(file, older, 0o600))
	wantRefused("is an older copy")
	check.Must(t, os.Remove(file))
	wantRefused("the ledger ledger.db is missing")
	if _, err := os.Stat(file); err == nil {
		t.Error("another ledger was made")
	}

	status, out, said := kit.Invoke(t, append(accept, "--json")...)
	var accepted sidecar.AcceptedLedger
	check.Must(t, json.Unmarshal([]byte(out), &accepted))
	if status != program.Done || accepted.Reason != "a drill" || accepted.Was.ID == "" ||
		accepted.Was.ID == accepted.Found.ID || !accepted.RefusedUntil.After(time.Now().Add(10*time.Minute)) {
		t.Errorf("status %d: %s%s", status, out, said)
	}
	restart(func() {})
	var refused []ledger.Record // a post within the lifetime of what may have been used before
	if out := post(); !strings.Contains(out, `"code":"ledger_unavailable"`) {
		t.Error(out)
	}
	refused = r.Records(t, "flow=post")
	if len(refused) != 1 || refused[0].State != ledger.StateRefused ||
		!strings.Contains(refused[0].Reason, "accepted a short time ago") {
		t.Errorf("got %+v", refused)
	}
	var l admin.Ledger
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/v1/ledger", &l))
	if l.ID != accepted.Found.ID || len(l.Acceptances) != 1 || l.Acceptances[0].Was != accepted.Was {
		t.Errorf("got %+v", l)
	}
	if _, out, said := kit.Invoke(t, "doctor", "--admin", r.Stack.Admin()); !strings.Contains(out,
		"in the place of ledger "+accepted.Was.ID) || !strings.Contains(out, ": a drill\n") {
		t.Errorf("%s%s", out, said)
	}
	if status, _, said := kit.Invoke(t, accept...); status != program.Refused ||
		!strings.Contains(said, "in use by another process") && !strings.Contains(said, "query_malformed") {
		t.Errorf("status %d: %s", status, said)
	}
}
