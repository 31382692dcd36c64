package keys

import (
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
)

// Vault returns the commands about keys in HashiCorp Vault.
func Vault() *cobra.Command {
	return cli.Group("vault", "Keys in HashiCorp Vault", vaultBootstrap(), vaultAudit())
}

type vaultFlags struct{ address, ca, tokenFile, transit string }

// add adds the flags. address and token are the help texts for those that a command may demand.
func (v *vaultFlags) add(c *cobra.Command, address, token string) {
	f := c.Flags()
	f.StringVar(&v.address, "address", "", "https://host:port of Vault"+address)
	cli.CAFlag(c, &v.ca)
	f.StringVar(&v.tokenFile, "token-file", "", token)
	f.StringVar(&v.transit, "transit", "transit", "mount of the Transit engine")
}

// server prepares for the server, which the caller closes.
func (v *vaultFlags) server() (*vault.Server, error) {
	return vault.NewServer(
		vault.Options{Address: v.address, CAFile: v.ca, Mount: v.transit, Timeout: 30 * time.Second, Log: zap.NewNop(),
			Now: time.Now})
}

func (v *vaultFlags) do(work func(*api.Client) error) error {
	token, err := files.ReadSecret(v.tokenFile, 1)
	if err != nil {
		return err
	}
	server, err := v.server()
	if err != nil {
		return err
	}
	defer server.Close()
	return work(server.Client(token))
}
