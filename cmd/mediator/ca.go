package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/intercept"
)

// madeCA is what ca init has made.
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
4.2.1.10); without, say --unconstrained. The embedded default needs none of this: its CA lives in memory alone.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o := intercept.CAOptions{Lifetime: lifetime, Now: time.Now}
			switch {
			case path != "":
				s, err := loadSidecar(path)
				if err != nil {
					return err
				}
				if o.Constraints, err = intercept.Constrain(s.hosts()); err != nil {
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

// openCA loads the CA that mediator ca init has made, or makes one that lives in memory alone; its certificate is written out
// for agents to trust.
func (s *sidecar) openCA() (*intercept.CA, error) {
	var ca *intercept.CA
	var err error
	if s.T.CA.Dir != "" {
		ca, err = intercept.LoadCA(s.file(s.T.CA.Dir), time.Now())
	} else {
		o := intercept.CAOptions{Now: time.Now}
		if !s.T.CA.Unconstrained {
			if o.Constraints, err = intercept.Constrain(s.hosts()); err != nil {
				return nil, err
			}
		}
		ca, err = intercept.NewCA(o)
	}
	if err != nil {
		return nil, err
	}
	return ca, os.WriteFile(s.caFile(), ca.CertificatePEM(), 0o644) //nolint:gosec // a certificate is public, and agents of other users read it
}

func (s *sidecar) caFile() string {
	if s.T.CA.CertificateFile != "" {
		return s.file(s.T.CA.CertificateFile)
	}
	return filepath.Join(s.file(s.T.State), "ca.pem")
}

// hosts returns every host that a rule names: the interception CA is good for them and for the mediator's own name.
func (s *sidecar) hosts() []string {
	hosts := []string{proxy.InternalHost}
	for _, a := range s.actions {
		hosts = append(hosts, a.Match.Host)
	}
	for _, e := range s.egress {
		hosts = append(hosts, e.Match.Host)
	}
	return hosts
}

// warnOfExpiry says in the log, once a day, that the CA is about to expire: after that no agent's handshake succeeds.
func warnOfExpiry(ctx context.Context, ca *intercept.CA, log *zap.Logger) {
	const early, period = 7 * 24 * time.Hour, 24 * time.Hour
	for wait := time.Until(ca.Expires().Add(-early)); ; wait = period {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			log.Error("the interception CA is about to expire: restart the sidecar, or make a new one with mediator ca init", zap.Time("expires", ca.Expires()))
		}
	}
}
