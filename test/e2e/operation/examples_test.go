package operation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestExamples reads every shipped configuration file as its process would.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../configs")); err != nil {
		t.Fatal(err)
	}
	// The secrets that the examples name are the reader's own.
	for _, name := range []string{"github-token", "slack-token", "own-token", "openai-key", "anthropic-key", "github-webhook", "billing-webhook", "engine-webhook"} {
		kit.WriteSecret(t, filepath.Join(dir, "secrets", name))
	}
	kit.WriteSecret(t, filepath.Join(dir, "dev", "secrets", "webhook"))
	for name, content := range configs.Dev {
		if err := files.WriteAbsent(filepath.Join(dir, "dev", name), content); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(dir, "dev", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if files = append(files, more...); len(files) != 13 {
		t.Errorf("%d files", len(files))
	}
	for _, path := range files {
		kind, warnings, err := config.CheckFile(path)
		// The example manifest pins no real policy and environment; all else about it must be right.
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s (%s): %v %v", path, kind, warnings, err)
		}
	}
}
