package reputation_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

// TestAudit changes a node's database beside its log. A replay finds each change.
func TestAudit(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	s, err := store.Open(t.Context(), whole, "")
	must(t, err)
	c := &court{Node: nodetest.New(t, gatetest.New(t), s)}
	c.one, c.two = c.Agent(t, "agent:one").String(), c.Agent(t, "agent:two").String()
	c.published(t, "sig-1")
	c.disputed(t, "con-1", "sig-1")
	c.Kit.Clock.Advance(24 * time.Hour)
	must(t, c.Settle(t.Context()))
	c.published(t, "sig-2")
	must(t, s.Close())
	raw, err := os.ReadFile(whole)
	must(t, err)
	for name, change := range map[string]string{
		"nothing":             "SELECT 1",
		"a later deadline":    "UPDATE state SET due = due + 1 WHERE queue = 'general'",
		"no history":          "DELETE FROM state WHERE id LIKE 'agent/%'",
		"a new row":           "INSERT INTO state (id, text, at, queue, due) VALUES ('zeal', '1', 1, '', 0)",
		"another log":         "UPDATE state SET text = replace(text, '\"last\":', '\"last\":1') WHERE id = 'log'",
		"another entry":       "UPDATE steps SET step = replace(step, 'short', 'long') WHERE number = 1",
		"no entry at the end": "DELETE FROM steps WHERE number = 4",
		"a missing entry":     "DELETE FROM steps WHERE number = 2",
		"another tree":        "UPDATE steps SET completed = zeroblob(32) WHERE number = 3",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "reputation.db")
			must(t, os.WriteFile(path, raw, 0o600))
			db, err := sql.Open("sqlite", path)
			must(t, err)
			_, err = db.ExecContext(t.Context(), change)
			must(t, errors.Join(err, db.Close()))
			changed, err := store.Open(t.Context(), path, "")
			must(t, err)
			defer changed.Close()
			empty, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "replayed.db"), "")
			must(t, err)
			defer empty.Close()
			entries, err := changed.Audit(t.Context(), empty)
			switch {
			case name == "nothing" && (err != nil || entries != 4):
				t.Errorf("%d entries, %v", entries, err)
			case name == "a missing entry" && err == nil: // the next one contradicts what is left
				t.Error("it was not found")
			case name != "nothing" && name != "a missing entry":
				wantCode(t, err, "log_contradicted")
			}
		})
	}
}
