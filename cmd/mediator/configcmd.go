package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/policy"
)

func configCommand() *cobra.Command {
	return group("config", "Configuration files", configCheck(), configSchema())
}

// configKinds are the files that config check knows. It recognises each by a key that no other has.
var configKinds = []struct {
	name  string
	key   string
	check func(path string, raw []byte) error
}{
	{"sidecar (mediator serve)", "runtime:", func(path string, _ []byte) error { _, err := config.LoadSidecar(path); return err }},
	{"trigger service (mediator trigger)", "sources:", func(path string, _ []byte) error { _, err := config.LoadTrigger(path); return err }},
	{"control plane (mediator control)", "policy:", func(path string, _ []byte) error { _, err := config.LoadControl(path); return err }},
	{"root key", "purpose:", checkRootKey},
	{"policy file", "rules:", func(path string, _ []byte) error { _, err := config.ReadRules(path); return err }},
	{"deployment manifest", "deploymentId:", checkManifest},
}

func checkManifest(path string, raw []byte) error {
	m, err := policy.ParseManifest(raw)
	if err == nil {
		_, err = m.Strict()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func checkRootKey(path string, _ []byte) error {
	_, err := config.LoadRootKey(path)
	return err
}

// checkedFile is the result of config check for one file.
type checkedFile struct {
	File    string `json:"file"`
	Kind    string `json:"kind,omitempty"`
	Correct bool   `json:"correct"`
	Error   string `json:"error,omitempty"`
}

func configCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check FILE ...", Short: "Check configuration, policy and manifest files as the processes would read them",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes at least one file", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			failed, all := false, []checkedFile{}
			for _, path := range args {
				kind, err := checkConfigFile(path)
				file := checkedFile{File: path, Kind: kind, Correct: err == nil}
				switch {
				case err != nil:
					failed, file.Error = true, err.Error()
					fmt.Fprintln(c.ErrOrStderr(), err)
				case !asJSON:
					fmt.Fprintf(c.OutOrStdout(), "%s: a correct %s\n", path, kind)
				}
				all = append(all, file)
			}
			if asJSON {
				if err := printJSON(c.OutOrStdout(), all); err != nil {
					return err
				}
			}
			if failed {
				return errRefused
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func checkConfigFile(path string) (string, error) {
	raw, err := files.Read(path)
	if err != nil {
		return "", err
	}
	for _, k := range configKinds {
		if bytes.HasPrefix(raw, []byte(k.key)) || bytes.Contains(raw, []byte("\n"+k.key)) {
			return k.name, k.check(path, raw)
		}
	}
	return "", fmt.Errorf("%s: it is no configuration, policy or manifest file: none of their top-level keys is there", path)
}

func configSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema serve|trigger|control|root", Short: "Print the JSON Schema of a configuration file", Args: exactArgs(1, "one of serve, trigger, control, root"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := config.Schema(args[0])
			if err != nil {
				return usageError{err}
			}
			return printJSON(c.OutOrStdout(), s)
		},
	}
}
