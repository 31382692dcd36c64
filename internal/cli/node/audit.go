package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/reputation/store"
)

// Audit returns the command that replays the log of disputes. It belongs below the command that runs the node.
func Audit() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "audit --config FILE", Short: "Replay the log of disputes, and compare the node's state with it",
		Args:    cli.NoArgs,
		Example: "  mediator reputation audit --config reputation.yaml",
		Long: `Replays the log into a temporary file, and compares each row of the state that the node keeps beside the log.
Stop the node and its replicas first, or restore a backup elsewhere.

It compares nothing else: neither the log with checkpoints that others hold, nor the logs of agents, the receipts and
the signed documents.`,
		RunE: func(c *cobra.Command, _ []string) error {
			of, err := config.Load[config.Reputation](path)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "mediator-audit")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			kept, err := store.OpenExisting(c.Context(), node.StorePath(of), of.Store.Postgres.ConnString())
			if err != nil {
				return fmt.Errorf("the store of %s: %w", path, err)
			}
			defer kept.Close()
			replayed, err := store.Open(c.Context(), filepath.Join(dir, "replayed.db"), "")
			if err != nil {
				return err
			}
			defer replayed.Close()
			entries, err := kept.Audit(c.Context(), replayed)
			if err != nil {
				return fmt.Errorf("after %d entries: %w", entries, err)
			}
			return cli.Print(c, map[string]int64{"entries": entries},
				fmt.Sprintf("the state follows from the %d entries of the log", entries))
		},
	}
	cli.ConfigFlag(c, &path, "reputation.yaml")
	cli.JSONFlag(c)
	return c
}
