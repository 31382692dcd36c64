package operate

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/agentpod"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/guard"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/internal/refusal"
)

// Guard returns the command that installs and checks the rules of a pod's network.
func Guard() *cobra.Command {
	var path, forward, caFile, proxy, validate string
	var outside []string
	var print, check bool
	c := &cobra.Command{
		Use: "guard --config FILE", Short: "Leave a pod one way out: through the mediator", Args: cli.NoArgs,
		Example: `  mediator guard --config mediator.yaml --print
  mediator guard --config mediator.yaml --check
  mediator guard --validate guard
  mediator guard --forward https://10.96.0.20:8444,forwarder.yaml --ca-file ca.pem`,
		Long: `Installs nftables rules in this network namespace, from the guard section of the sidecar's configuration. Only
the mediator's users may leave. Others' connections to ports 443 and 80 reach the transparent listener; all else that
they send is refused and counted. The command replaces its earlier rules at once, and needs CAP_NET_ADMIN. Run it in an
init container of the agent's pod: on a machine's own network it would cut the machine off.
With --validate, it waits until the proxy answers, tries other ways out of the pod, and fails if one is open.
With --forward, it leads the agent's connections to a mediator in another pod instead, until it is ended.`,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen := 0
			for _, given := range []bool{print, check, forward != "", validate != ""} {
				if given {
					chosen++
				}
			}
			switch {
			case chosen > 1:
				return cli.Usagef("mediator guard takes one of --print, --check, --validate and --forward")
			case validate != "":
				return validateWays(c, validate, proxy, outside)
			case forward != "":
				return forwardAgent(c, forward, proxy, caFile)
			case path == "":
				return cli.Usagef("mediator guard needs --config")
			}
			o, err := config.LoadGuard(path)
			if err != nil {
				return err
			}
			rules, err := guard.Rules(o)
			switch {
			case err != nil:
				return err
			case print:
				_, err := fmt.Fprint(c.OutOrStdout(), rules)
				return err
			case check:
				return checkGuard(c, rules)
			}
			if err := rules.Install(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "the rules stand")
			return err
		},
	}
	c.Flags().Bool("json", false, "print what --check has counted as JSON")
	c.Flags().StringVar(&path, "config", "", "the sidecar's configuration file, as configs/mediator.yaml shows it")
	c.Flags().BoolVar(&print, "print", false, "print the rules for nft -f, and install nothing")
	c.Flags().BoolVar(&check, "check", false,
		"compare the installed rules with these and count refused packets; install nothing")
	c.Flags().StringVar(&validate, "validate", "",
		"check that the pod has no other way out than this mode leaves: guard or pod (there no DNS either)")
	c.Flags().StringSliceVar(&outside, "outside", []string{"1.1.1.1", "2606:4700:4700::1111"},
		"the addresses outside that --validate must not reach")
	c.Flags().StringVar(&forward, "forward", "", "the mediator in another pod, https://HOST:PORT,FILE")
	c.Flags().StringVar(&caFile, "ca-file", "", "the file that receives the mediator's CA with --forward")
	c.Flags().StringVar(&proxy, "proxy", "127.0.0.1:8181",
		"the agent's proxy: --forward listens there, --validate asks it")
	return c
}

// proxyWait bounds the wait for the mediator's answer: it waits for its certificates.
const proxyWait = 5 * time.Minute

func validateWays(c *cobra.Command, mode, proxy string, outside []string) error {
	if mode != evidence.EnforcedGuard && mode != evidence.EnforcedPod {
		return cli.Usagef("--validate is guard or pod, not %q", mode)
	}
	v := agentpod.Validation{Proxy: proxy, Wait: proxyWait, DNS: mode == evidence.EnforcedPod}
	for _, text := range outside {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return cli.Usagef("--outside: %q is not an IP address", text)
		}
		v.Outside = append(v.Outside, a)
	}
	if err := v.Run(c.Context()); err != nil {
		return refusal.New("deployment_contradicted", "%w", err)
	}
	_, err := fmt.Fprintln(c.OutOrStdout(), "the proxy answers, and no other way out is open")
	return err
}

func forwardAgent(c *cobra.Command, at, proxy, caFile string) error {
	to, id, err := admin.ParseEndpoint(at)
	switch {
	case err != nil:
		return err
	case id == nil || caFile == "":
		return cli.Usagef("--forward takes https://HOST:PORT,FILE, and needs --ca-file")
	}
	host, _, err := net.SplitHostPort(to.TCP)
	if err != nil {
		return err
	}
	log, err := logs.New(config.Log{}, "forwarder", c.ErrOrStderr())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", proxy)
	if err != nil {
		return err
	}
	f := agentpod.Forwarder{Listen: l, Proxy: to.TCP, Name: cmp.Or(to.Name, host), Identity: id, CAFile: caFile,
		Log: log}
	return f.Run(c.Context())
}

func checkGuard(c *cobra.Command, rules *guard.Ruleset) error {
	if err := rules.Check(); err != nil {
		return err
	}
	counted, err := rules.Count()
	if err != nil {
		return err
	}
	return cli.PrintText(c, map[string]any{"refused": counted}, func(w io.Writer) error {
		fmt.Fprintln(w, "the rules stand; packets refused:")
		for _, name := range rules.Counters() {
			fmt.Fprintf(w, "%8d %s\n", counted[name], name)
		}
		return nil
	})
}
