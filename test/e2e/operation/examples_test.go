package operation

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestExamples reads every shipped configuration file as its process would.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS("../../../configs")))
	writeSecrets(t, dir)
	kit.Write(t, filepath.Join(dir, "dev/secrets/webhook"), secret("webhook"))
	for name, content := range configs.Dev {
		check.Must(t, files.WriteAbsent(filepath.Join(dir, "dev", name), content))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	check.Must(t, err)
	more, err := filepath.Glob(filepath.Join(dir, "dev", "*.yaml"))
	check.Must(t, err)
	if files = append(files, more...); len(files) != 13 {
		t.Errorf("%d files", len(files))
	}
	for _, path := range files {
		kind, warnings, err := config.CheckFile(path)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s (%s): %v %v", path, kind, warnings, err)
		}
	}
}

func writeSecrets(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{
		"github-token", "slack-token", "own-token", "openai-key", "anthropic-key",
		"github-webhook", "billing-webhook", "engine-webhook",
	} {
		kit.Write(t, filepath.Join(dir, "secrets", name), secret(name))
	}
}

func secret(name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret for a test, and for "+name))
}
