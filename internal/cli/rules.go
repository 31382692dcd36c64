package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/rulesfile"
)

// PutRules adds rules to the configuration of a sidecar: see [rulesfile.Merge]. It shows the difference, and goes on if
// agree does. The configuration is checked before it replaces the file. Then the sidecar at the endpoint reloads it, or
// all processes of the mediator dev that the file belongs to. It reports whether anything has changed.
func PutRules(c *cobra.Command, path, endpoint string, rules []byte, agree func() (bool, error)) (changed bool, err error) {
	before, err := files.ReadUpTo(path, files.MaxInput)
	if err != nil {
		return false, fmt.Errorf("configuration: %w", err)
	}
	after, err := rulesfile.Merge(before, rules)
	if err != nil {
		return false, err
	}
	difference := rulesfile.Diff(path, before, after)
	if difference == "" {
		fmt.Fprintf(c.OutOrStdout(), "%s has these rules already\n", path)
		return false, nil
	}
	fmt.Fprint(Plain(c.OutOrStdout()), difference)
	if agreed, err := agree(); err != nil || !agreed {
		return false, err
	}
	if err := rulesfile.Write(path, after); err != nil {
		return false, err
	}
	if dev := devstack.New(filepath.Dir(path)).Socket("dev"); isThere(dev) {
		endpoint = "unix:" + dev
	}
	var now daemon.ConfigStatus
	if err := admin.Call(c.Context(), endpoint, http.MethodPost, "/v1/reload", struct{}{}, &now); err != nil {
		return true, fmt.Errorf("%s is written; %s: not reloaded: %w", path, endpoint, err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: written and reloaded\n", path)
	return true, err
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
