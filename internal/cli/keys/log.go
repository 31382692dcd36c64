package keys

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/process/sidecar"
)

// LogKey returns the command that prints the key of the transparency log.
func LogKey() *cobra.Command {
	var path, tokenFile string
	c := &cobra.Command{
		Use: "key --config FILE", Short: "Print the public key of the transparency log", Args: cli.NoArgs,
		Example: `  mediator log key --config mediator.yaml
  mediator log key --config mediator.yaml --token-file token`,
		Long: `Prints each version of the log's key, the newest last, as policies (c2sp.org/tlog-policy) and the configuration
of witnesses name it. The sidecar need not run, and the policy that the configuration names need not be there yet.

With custody in Vault it logs in as the sidecar would, which uses up a wrapped secret id. --token-file names a token
that may read the key instead. With custody in memory it makes the key, unless the sidecar has made it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			configured, err := config.LoadTransparencyLog(path)
			if err != nil {
				return err
			}
			if v := configured.Custody.Vault; v != nil && tokenFile != "" {
				v.Auth = secrets.VaultAuth{TokenFile: tokenFile}
			}
			keys, err := logKeys(c.Context(), configured)
			if err != nil {
				return err
			}
			return cli.Print(c, keys, strings.Join(keys, "\n"))
		},
	}
	cli.ConfigFlag(c, &path, "mediator.yaml")
	c.Flags().StringVar(&tokenFile, "token-file", "", "file with a token of Vault that may read the key")
	cli.JSONFlag(c)
	return c
}

const logKeyTimeout = 30 * time.Second

func logKeys(ctx context.Context, c *config.Sidecar) (vkeys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, logKeyTimeout)
	defer cancel()
	var key custody.Key
	if c.Custody.Type != "memory" {
		store, err := keystore.Open(c.Custody, zap.NewNop())
		if err != nil {
			return nil, err
		}
		defer store.Close()
		if key, err = store.Key(sidecar.LogRole, c.TransparencyLog.Key); err != nil {
			return nil, err
		}
		if err := store.Open(ctx); err != nil {
			return nil, err
		}
	}
	all, err := sidecar.LogKeys(ctx, c, key)
	if err == nil && key == nil {
		err = give(sidecar.LogKeyFile(c), c.State)
	}
	for _, k := range all {
		vkeys = append(vkeys, k.String())
	}
	return vkeys, err
}

// give makes the owner of a folder the owner of a file in it, if root has made the file.
func give(file, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(file, int(owner.Uid), int(owner.Gid)) // the owner could put a link there meanwhile
}
