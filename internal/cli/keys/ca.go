package keys

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/proxy/intercept"
)

type madeCA struct {
	Dir   string    `json:"dir"`
	Until time.Time `json:"until"`
}

// CA returns the commands about the interception CA.
func CA() *cobra.Command {
	return cli.Group("ca", "The interception CA", caInit())
}

func caInit() *cobra.Command {
	var path, dir string
	var lifetime time.Duration
	var unconstrained bool
	c := &cobra.Command{
		Use: "init --dir DIR", Short: "Make an interception CA that outlives a restart", Args: cli.NoArgs,
		Example: `  mediator ca init --dir ca --config mediator.yaml`,
		Long: `Makes a CA in DIR: ca.pem, which agents trust, and ca-key.pem (mode 0600), which only the sidecar's user may
read. With --config the CA is valid only for the hosts of the configuration's rules and of its ca.permit (RFC 5280
section 4.2.1.10), unless ca.unconstrained is set there. Without --config it needs --unconstrained. mediator dev makes
its own.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o := intercept.CAOptions{Lifetime: lifetime, Now: time.Now}
			switch {
			case path != "":
				c, err := config.Load[config.Sidecar](path)
				if err != nil {
					return err
				}
				if o.Constraints, err = c.Constraints(); err != nil {
					return err
				}
			case !unconstrained:
				return cli.Usagef("mediator ca init needs --config, for the hosts that the CA is good for, or " +
					"--unconstrained")
			}
			ca, err := intercept.CreateCA(dir, o)
			if err != nil {
				return err
			}
			until := ca.Expires().UTC()
			return cli.Print(c, madeCA{dir, until},
				fmt.Sprintf("made a CA in %s, good until %s", dir, until.Format(time.RFC3339)))
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "the CA's folder (required)")
	cli.Required(c, "dir")
	cli.JSONFlag(c)
	c.Flags().StringVar(&path, "config", "", "the sidecar's configuration file")
	c.Flags().BoolVar(&unconstrained, "unconstrained", false, "make a CA that is good for every host")
	c.Flags().DurationVar(&lifetime, "lifetime", 30*24*time.Hour, "how long the CA is good for")
	return c
}
