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

// ChangeRules changes the configuration of a sidecar. It shows the difference, and goes on if agree does. The
// configuration is checked before it replaces the file. Then all processes of the mediator dev that the file belongs to
// reload it, or else the sidecar at the endpoint, unless that is empty.
func ChangeRules(c *cobra.Command, path, endpoint string, change func(before []byte) ([]byte, error),
	agree func() (bool, error)) error {
	before, err := files.ReadUpTo(path, files.MaxInput)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	after, err := change(before)
	if err != nil {
		return err
	}
	difference := rulesfile.Diff(path, before, after)
	if difference == "" {
		fmt.Fprintf(c.OutOrStdout(), "%s has these rules already\n", path)
		return nil
	}
	fmt.Fprint(Plain(c.OutOrStdout()), difference)
	if agreed, err := agree(); err != nil || !agreed {
		return err
	}
	if err := rulesfile.Write(path, after); err != nil {
		return err
	}
	if dev := devstack.New(filepath.Dir(path)).Socket("dev"); isThere(dev) {
		endpoint = "unix:" + dev
	}
	if endpoint == "" {
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: written; mediator reload applies it to processes that run\n", path)
		return err
	}
	var now daemon.ConfigStatus
	if err := admin.Call(c.Context(), endpoint, http.MethodPost, "/v1/reload", struct{}{}, &now); err != nil {
		return fmt.Errorf("%s is written; %s: not reloaded: %w", path, endpoint, err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: written and reloaded\n", path)
	return err
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
