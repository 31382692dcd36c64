package program

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
			said := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{version, goVersion()}
			return cli.Print(c, asJSON, said, "mediator "+versions())
		},
	}
	cli.JSONFlag(c, &asJSON)
	return c
}

// versions returns the versions of the program and of Go.
func versions() string { return fmt.Sprintf("%s (%s)", version, goVersion()) }

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}
