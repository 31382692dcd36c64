package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
)

func keysCommand() *cobra.Command {
	return group("keys", "Signing keys", keysListCommand(), keysJWKSCommand(), keysPublishCommand(), keysRootCommand(), keysCertifyCommand(),
		keysRotateCommand(), keysRetireCommand(), keysRevokeCommand())
}

// orFile ends the help of a flag that takes a process or a file.
const orFile = ", or file:PATH of what mediator keys publish has printed there"

func fromFlag(c *cobra.Command, from *[]string, or string) {
	c.Flags().StringArrayVar(from, "from", nil, "internal endpoint of a process that holds keys, unix:PATH"+or+"; once for each process (required)")
	required(c, "from")
}

func keysListCommand() *cobra.Command {
	var from []string
	var asJSON bool
	c := &cobra.Command{
		Use: "list --from unix:PATH", Short: "List the roles and keys of running processes", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			roles, err := keyring.ReadRoles(c.Context(), from)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), roles)
			}
			for _, r := range roles {
				for _, k := range r.Keys {
					fmt.Fprintf(c.OutOrStdout(), "%-24s %-32s %s, custody %s, exportable %t\n", r.Purpose, k.KeyID, r.Issuer, r.KeyCustody, r.KeyExportable)
				}
			}
			return nil
		},
	}
	fromFlag(c, &from, orFile)
	jsonFlag(c, &asJSON)
	return c
}

func keysJWKSCommand() *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use: "jwks --from unix:PATH", Short: "Print the public keys as a JWKS, for verifiers", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			roles, err := keyring.ReadRoles(c.Context(), from)
			if err != nil {
				return err
			}
			var set jose.JSONWebKeySet
			for _, r := range roles {
				set.Keys = append(set.Keys, r.Keys...)
			}
			return printJSON(c.OutOrStdout(), set)
		},
	}
	fromFlag(c, &from, orFile)
	return c
}

func keysPublishCommand() *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use: "publish --from unix:PATH", Short: "Print what running processes say of their keys, to certify on another machine", Args: noArgs,
		Long: `Prints roles, public keys and what the processes have seen of them, as JSON: what mediator keys certify would ask for. Carry it to
where the registry's key is, and give it to keys certify --from file:PATH. Nothing in it is secret; but whoever can change it on its way has a
key of his own certified, so compare what mediator keys jwks prints of the processes there and of the file here.`,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := keyring.ReadPublished(c.Context(), from)
			if err != nil {
				return err
			}
			return printJSON(c.OutOrStdout(), p.Publication)
		},
	}
	fromFlag(c, &from, "")
	return c
}

// rootName matches a name that can be part of a key id (NAME:v1) and of the names of files.
var rootName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// madeRoot is the result of keys root. Private is empty for a key that a custody holds.
type madeRoot struct {
	KeyID   string `json:"kid"`
	Private string `json:"private,omitempty"` // path
	Public  string `json:"public"`            // path
}

func keysRootCommand() *cobra.Command {
	var name, out, held string
	var postQuantum, asJSON bool
	c := &cobra.Command{
		Use: "root --name NAME --out DIR", Short: "Make a root key of the security team: the registry's or the auditor's", Args: noArgs,
		Long: `Makes an Ed25519 key for the key registry or the deployment auditor: DIR/NAME.key.jwk (private, mode 0600, to be kept away from
where agents run) and DIR/NAME.jwk (public, which every process and every API pins). With --post-quantum both files hold an
ML-DSA-65 key too: the root then signs twice, and whoever pins the public file demands both signatures.
With --root-key it makes no key: it writes DIR/NAME.jwk for the key that the file names in Vault or in a token.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !rootName.MatchString(name) {
				return usagef("--name %q is no name of a key: it has letters, digits, - and _, as registry or auditor has", name)
			}
			if held != "" && postQuantum {
				return usagef("--root-key and --post-quantum exclude each other: a key in Vault or in a token signs once")
			}
			if err := os.MkdirAll(out, 0o700); err != nil {
				return err
			}
			if held != "" {
				return pinRoot(c, asJSON, held, filepath.Join(out, name+".jwk"))
			}
			key, secret, err := keyring.GenerateRoot(name, postQuantum)
			if err != nil {
				return err
			}
			public, err := key.JWK()
			if err != nil {
				return err
			}
			made := madeRoot{key.KeyID(), filepath.Join(out, name+".key.jwk"), filepath.Join(out, name+".jwk")}
			if err := files.WriteNew(made.Private, secret, 0o600); err != nil {
				return err
			}
			if err := files.WriteNew(made.Public, public, 0o644); err != nil {
				return err
			}
			return printResult(c, asJSON, made, fmt.Sprintf("made %s in %s; keep %s.key.jwk offline and pin %s.jwk", made.KeyID, out, name, name))
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the key, such as registry or auditor (required)")
	c.Flags().StringVar(&out, "out", ".", "folder for the two files; it is made if it is not there")
	c.Flags().BoolVar(&postQuantum, "post-quantum", false, "make an ML-DSA-65 key beside the Ed25519 key, for a second signature")
	c.Flags().StringVar(&held, "root-key", "", "a .yaml file that names a key in Vault or in a token")
	required(c, "name")
	jsonFlag(c, &asJSON)
	return c
}

// pinRoot writes the public file of a root key that a custody holds.
func pinRoot(c *cobra.Command, asJSON bool, held, path string) error {
	if filepath.Ext(held) != ".yaml" {
		return usagef("--root-key takes a .yaml file that names a key in Vault or in a token")
	}
	key, err := keyring.OpenRootKey(c.Context(), held, c.ErrOrStderr(), config.RootPurposes...)
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
	return printResult(c, asJSON, wrote, fmt.Sprintf("wrote %s to %s; pin it", wrote.KeyID, path))
}
