package kit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"filippo.io/torchwood"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// LoggedRig is a deployment with a transparency log and one witness.
type LoggedRig struct {
	*Rig
	Witness *logtest.Witness
	Policy  *translog.Policy
	URL     string // where the log is published
}

// NewLoggedRig starts a deployment; more are further settings of the log, and changes edit the configuration.
func NewLoggedRig(t *testing.T, more string, changes ...func(file string) string) *LoggedRig {
	t.Helper()
	r := &LoggedRig{Rig: PrepareClientsRig(t, append(changes, ManyPosts)...), Witness: logtest.NewWitness(t, "W")}
	listen, err := freeport.Address()
	check.Must(t, err)
	r.URL = "http://" + listen
	Edit(t, r.In(devstack.SidecarFile), "\naudience: ", fmt.Sprintf("\ntransparencyLog: {origin: log.example/e2e, "+
		"key: transparency-log-key, policy: log-policy.txt, interval: 1s, listen: %q%s}\naudience: ", listen, more))
	key := strings.TrimSpace(Run(t, "log", "key", "--config", r.In(devstack.SidecarFile)))
	text := fmt.Sprintf("log %s\nwitness w %s %s\nquorum w\n", key, r.Witness.Key, r.Witness.Serve(t))
	Write(t, r.In("log-policy.txt"), text)
	r.Policy, err = translog.ParsePolicy([]byte(text))
	check.Must(t, err)
	r.Start(t)
	return r
}

// Audited waits until the published log has at least as many entries of each kind, and no problem.
func (r *LoggedRig) Audited(t *testing.T, want map[leaf.Kind]int64) {
	t.Helper()
	from, err := torchwood.NewTileFetcher(r.URL, torchwood.WithHTTPClient(&http.Client{Timeout: Patience}))
	check.Must(t, err)
	var report translog.Report
	if !Eventually(func() bool {
		report, err = translog.Audit(t.Context(), from, r.Policy, nil, nil)
		for kind, n := range want {
			if err != nil || report.Entries[kind] < n {
				return false
			}
		}
		return true
	}) || len(report.Findings) > 0 || len(report.Witnesses) != 1 || report.Entries[leaf.Heartbeat] == 0 {
		t.Fatalf("got %+v, %v; want %v", report, err, want)
	}
}
