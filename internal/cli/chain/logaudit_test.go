package chain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// TestAuditedText: a log's audit names each problem, whose word the log is, and no more sessions than one can read.
func TestAuditedText(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	sessions := make([]int64, 23)
	for i := range sessions {
		sessions[i] = int64(i)
	}
	a := audited{now: at.Add(3 * time.Hour), Report: translog.Report{Origin: "log.example/prod", Size: 1240, From: at,
		Until: at.Add(time.Hour), Witnesses: []translog.Cosignature{{Witness: "w", Time: at.Add(2 * time.Hour)}},
		Entries: map[leaf.Kind]int64{leaf.Intent: 5, leaf.Heartbeat: 60}, Sessions: sessions,
		Findings: []translog.Finding{{Problem: translog.HeartbeatGap, Index: 40,
			Detail: "no heartbeat\x1b[2J for 24h"}},
		Found: map[translog.Problem]int64{translog.HeartbeatGap: 3}}}
	var out bytes.Buffer
	check.Must(t, a.print(&out))
	for _, want := range []string{
		"The log log.example/prod has 1240 entries, from 2026-03-01T00:00:00Z to 2026-03-01T01:00:00Z (2h0m0s ago), " +
			"as seen by w at 2026-03-01T02:00:00Z.\n60 heartbeat, 5 intent\n",
		"session without an end yet: entry 19\n3 more sessions have no end yet\nHEARTBEAT_GAP at entry 40: no " +
			"heartbeat", "\n2 more problems\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%s, and not %q", out.String(), want)
		}
	}
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "Nothing in the log") {
		t.Errorf("it says\n%s", text)
	}
}
