package setup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestPublishFollowsNoLink: users of the registry and the auditor can put a link in place of what root publishes.
func TestPublishFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	secret, link := filepath.Join(dir, "secret"), filepath.Join(dir, "auditor.jwk")
	check.Must(t, os.WriteFile(secret, nil, 0o600), os.Symlink(secret, link))
	if err := publish(link); err == nil {
		t.Error("a link is published")
	}
	info, err := os.Stat(secret)
	check.Must(t, err)
	check.WantEqual(t, info.Mode(), os.FileMode(0o600))
	check.Must(t, publish(secret))
	info, err = os.Stat(secret)
	check.Must(t, err)
	check.WantEqual(t, info.Mode(), os.FileMode(0o644))
}
