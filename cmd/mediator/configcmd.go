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
	check func(path string, raw []byte) ([]config.Warning, error)
}{
	{"sidecar (mediator serve)", "runtime:", checkSidecar},
	{"trigger service (mediator trigger)", "sources:", func(path string, _ []byte) ([]config.Warning, error) {
		_, err := config.LoadTrigger(path)
		return nil, err
	}},
	{"control plane (mediator control)", "policy:", func(path string, _ []byte) ([]config.Warning, error) {
		_, err := config.LoadControl(path)
		return nil, err
	}},
	{"root key", "purpose:", func(path string, _ []byte) ([]config.Warning, error) {
		_, err := config.LoadRootKey(path)
		return nil, err
	}},
	{"policy file", "rules:", func(path string, _ []byte) ([]config.Warning, error) {
		_, err := config.ReadRules(path)
		return nil, err
	}},
	{"deployment manifest", "deploymentId:", func(path string, raw []byte) ([]config.Warning, error) { return nil, checkManifest(path, raw) }},
}

func checkSidecar(path string, _ []byte) ([]config.Warning, error) {
	c, err := config.LoadSidecar(path)
	if err != nil {
		return nil, err
	}
	return c.Warnings, nil
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

// checkedFile is the result of config check for one file.
type checkedFile struct {
	File     string           `json:"file"`
	Kind     string           `json:"kind,omitempty"`
	Correct  bool             `json:"correct"`
	Error    string           `json:"error,omitempty"`
	Warnings []config.Warning `json:"warnings,omitempty"` // what the process says in its log, and goes on
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
				kind, warnings, err := checkConfigFile(path)
				file := checkedFile{File: path, Kind: kind, Correct: err == nil, Warnings: warnings}
				for _, w := range warnings {
					fmt.Fprintf(c.ErrOrStderr(), "%s: warning: %v\n", path, w)
				}
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

func checkConfigFile(path string) (kind string, warnings []config.Warning, err error) {
	raw, err := files.Read(path)
	if err != nil {
		return "", nil, err
	}
	for _, k := range configKinds {
		if bytes.HasPrefix(raw, []byte(k.key)) || bytes.Contains(raw, []byte("\n"+k.key)) {
			warnings, err = k.check(path, raw)
			return k.name, warnings, err
		}
	}
	return "", nil, fmt.Errorf("%s: it is no configuration, policy or manifest file: none of their top-level keys is there", path)
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
