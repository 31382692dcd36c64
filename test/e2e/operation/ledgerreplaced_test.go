package operation

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestLedgerReplaced takes the ledger away from a sidecar, and puts an older copy in its place. The sidecar does not
// start until an operator accepts that. A restart after a crash needs no acceptance.
func TestLedgerReplaced(t *testing.T) {
	t.Parallel()
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

	var accepted sidecar.AcceptedLedger
	check.Must(t, json.Unmarshal([]byte(kit.Run(t, append(accept, "--json")...)), &accepted))
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
	out := kit.Mediator(t, "doctor", "--admin", r.Stack.Admin()).Out
	if !strings.Contains(out, "in the place of ledger "+accepted.Was.ID) || !strings.Contains(out, ": a drill\n") {
		t.Error(out)
	}
	e := kit.Mediator(t, accept...).Refused()
	if !strings.Contains(e.Said, "in use by another process") && !strings.Contains(e.Said, "query_malformed") {
		t.Error(e.Said)
	}
}
