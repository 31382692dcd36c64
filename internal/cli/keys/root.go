package keys

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/pattern"
)

// rootName matches a name that can be part of a key id (NAME:v1) and of the names of files.
var rootName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// madeRoot is the result of keys root. Private is empty for a key that a custody holds.
type madeRoot struct {
	KeyID   string `json:"kid"`
	Private string `json:"private,omitempty"` // path
	Public  string `json:"public"`            // path
}

func keysRoot() *cobra.Command {
	var name, out, held string
	var postQuantum bool
	c := &cobra.Command{
		Use:   "root --name NAME --out DIR",
		Short: "Make a root key: the registry's, the auditor's, an arbiter's or the operator's", Args: cli.NoArgs,
		Example: `  mediator keys root --name registry --out roots
  mediator keys root --name auditor --out roots --post-quantum`,
		Long: `DIR/NAME.key.jwk is private (mode 0600): keep it away from where agents run. Every process and API pins the
public DIR/NAME.jwk. --post-quantum adds an ML-DSA-65 key to both files: the root then signs twice, and its verifiers
demand both signatures.

--root-key makes no key: it writes DIR/NAME.jwk for the key that the file names in Vault or in a token.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !rootName.MatchString(name) {
				return cli.Usagef("--name %q is not a name of a key: it has letters, digits, - and _, as registry or "+
					"auditor has", name)
			}
			if held != "" && postQuantum {
				return cli.Usagef("--root-key and --post-quantum exclude each other: a key in Vault or in a token " +
					"signs once")
			}
			if err := os.MkdirAll(out, 0o700); err != nil {
				return err
			}
			if held != "" {
				return pinRoot(c, held, filepath.Join(out, name+".jwk"))
			}
			made := madeRoot{Private: filepath.Join(out, name+".key.jwk"), Public: filepath.Join(out, name+".jwk")}
			var err error
			if made.KeyID, err = keyring.MakeRoot(name, made.Private, made.Public, postQuantum); err != nil {
				return err
			}
			return cli.Print(c, made,
				fmt.Sprintf("made %s in %s; keep %s.key.jwk offline and pin %s.jwk", made.KeyID, out, name, name))
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the key, such as registry or auditor (required)")
	c.Flags().StringVar(&out, "out", ".", "folder for the two files; it is made if it is not there")
	c.Flags().BoolVar(&postQuantum, "post-quantum", false,
		"make an ML-DSA-65 key beside the Ed25519 key, for a second signature")
	c.Flags().StringVar(&held, "root-key", "", "a .yaml file that names a key in Vault or in a token")
	cli.Required(c, "name")
	cli.JSONFlag(c)
	return c
}

// pinRoot writes the public file of a root key that a custody holds.
func pinRoot(c *cobra.Command, held, path string) error {
	if filepath.Ext(held) != ".yaml" {
		return cli.Usagef("--root-key takes a .yaml file that names a key in Vault or in a token")
	}
	key, err := keyring.OpenRootKey(c.Context(), held, c.ErrOrStderr(), secrets.RootPurposes...)
	if err != nil {
		return err
	}
	defer key.Close()
	public, err := key.JWK()
	if err != nil {
		return err
	}
	if err := files.WriteNew(path, public, 0o644); err != nil {
		return err
	}
	wrote := madeRoot{KeyID: key.KeyID(), Public: path}
	return cli.Print(c, wrote, fmt.Sprintf("wrote %s to %s; pin it", wrote.KeyID, path))
}
