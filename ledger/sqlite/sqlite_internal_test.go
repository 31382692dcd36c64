package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestPragmaRefused sets what SQLite ignores in silence, or answers with something else.
func TestPragmaRefused(t *testing.T) {
	for name, p := range map[string]pragma{
		"misspelt":  {"synchronus", "FULL", "2"},
		"not taken": {"synchronous", "NORMAL", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			if err := create(path); err != nil {
				t.Fatal(err)
			}
			db, err := openSQLite(path, "rw", []pragma{p})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.Ping(); err == nil || !strings.Contains(err.Error(), "PRAGMA "+p.name) {
				t.Errorf("got %v", err)
			}
		})
	}
}
