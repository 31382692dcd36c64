package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestPragmaRefused(t *testing.T) {
	for name, p := range map[string]pragma{
		"misspelt":  {"synchronus", "FULL", "2"},
		"not taken": {"synchronous", "NORMAL", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			check.Must(t, create(path))
			db, err := openSQLite(path, "rw", []pragma{p})
			check.Must(t, err)
			defer db.Close()
			if err := db.Ping(); err == nil || !strings.Contains(err.Error(), "PRAGMA "+p.name) {
				t.Errorf("got %v", err)
			}
		})
	}
}
