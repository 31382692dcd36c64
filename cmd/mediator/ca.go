package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/proxy/intercept"
)

// madeCA is the result of ca init.
type madeCA struct {
	Dir   string    `json:"dir"`
	Until time.Time `json:"until"`
}

func caCommand() *cobra.Command {
	var path, dir string
	var lifetime time.Duration
	var unconstrained, asJSON bool
	create := &cobra.Command{
		Use: "init --dir DIR", Short: "Make an interception CA that outlives a restart", Args: noArgs,
		Long: `Makes a CA in DIR: ca.pem, which agents trust, and ca-key.pem (mode 0600), which only the sidecar's user may read.
With --config its certificate is good for the hosts that the configuration's rules name and for no other (RFC 5280 section
4.2.1.10); without, say --unconstrained. The embedded default needs none of this: mediator dev makes and keeps its own.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o := intercept.CAOptions{Lifetime: lifetime, Now: time.Now}
			switch {
			case path != "":
				c, err := config.LoadSidecar(path)
				if err != nil {
					return err
				}
				if o.Constraints, err = intercept.Constrain(c.Hosts()); err != nil {
					return err
				}
			case !unconstrained:
				return usagef("mediator ca init needs --config, for the hosts that the CA is good for, or --unconstrained")
			}
			ca, err := intercept.CreateCA(dir, o)
			if err != nil {
				return err
			}
			until := ca.Expires().UTC()
			return printResult(c, asJSON, madeCA{dir, until}, fmt.Sprintf("made a CA in %s, good until %s", dir, until.Format(time.RFC3339)))
		},
	}
	jsonFlag(create, &asJSON)
	create.Flags().StringVar(&path, "config", "", "the sidecar's configuration file")
	create.Flags().BoolVar(&unconstrained, "unconstrained", false, "make a CA that is good for every host")
	create.Flags().DurationVar(&lifetime, "lifetime", 30*24*time.Hour, "how long the CA is good for")
	show := &cobra.Command{
		Use: "show --dir DIR", Short: "Print the CA's certificate, for agents to trust", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ca, err := intercept.LoadCA(dir, time.Now())
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(ca.CertificatePEM())
			return err
		},
	}
	for _, c := range []*cobra.Command{create, show} {
		c.Flags().StringVar(&dir, "dir", "", "the CA's folder (required)")
		required(c, "dir")
	}
	return group("ca", "The interception CA", create, show)
}
