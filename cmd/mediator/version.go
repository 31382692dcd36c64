package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
)

// version is set by the release build.
var version = "dev"

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			goVersion := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			said := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{version, goVersion}
			return cli.Print(c, asJSON, said, fmt.Sprintf("mediator %s (%s)", version, goVersion))
		},
	}
	cli.JSONFlag(c, &asJSON)
	return c
}
