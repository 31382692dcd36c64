package start

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/chain"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/console"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/logs"
)

// Console returns the command that shows pages about a deployment in a browser.
func Console() *cobra.Command {
	o := console.Options{Now: time.Now}
	var judge chain.JudgeFlags
	var socket, at, team string
	c := &cobra.Command{
		Use: "console", Short: "Show what the mediator does, as pages for a browser on this machine", Args: cli.NoArgs,
		Example: `  mediator console
  mediator console --admin unix:/run/mediator/admin.sock --from unix:/run/mediator/trigger.sock \
      --registry registry.jwk --auditor auditor.jwk --bundle trust.json
  mediator console --config console.yaml --url https://console.example.com`,
		Long: `Serves read-only pages: what happens now, each call as it ends, each post with its evidence, sessions, agents,
keys and the manifest. It listens at the address that the sidecar's configuration names (console), and prints a URL that
logs in one browser, once, within ten minutes. With --config, members of an OpenID provider's groups log in too, and the
address need not be on loopback. If a console runs at --socket already, as with mediator dev, it prints a URL of that
one and ends.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if login, ok := running(c.Context(), socket); ok {
				return cli.Print(c, nil, login)
			}
			all := append([]string{o.Admin, o.Node}, o.Processes...)
			for i, at := range all {
				if at == "" {
					continue
				}
				var err error
				if all[i], err = admin.WithClient(at); err != nil { // a confined console does not read the contexts
					return err
				}
			}
			o.Admin, o.Node, o.Processes = all[0], all[1], all[2:]
			var listen string
			if err := admin.Get(c.Context(), o.Admin, "/v1/console", &listen); err != nil {
				return err
			}
			_, port, err := net.SplitHostPort(listen)
			if err != nil {
				return err
			}
			if team != "" {
				if o.Team, err = config.Load[config.Console](team); err != nil {
					return err
				}
				if !strings.HasPrefix(at, "https://") {
					return cli.Usagef("--config needs a --url that begins with https")
				}
			}
			if at == "" {
				at = "http://" + strings.ToLower(rand.Text()[:10]) + ".localhost:" + port
			}
			if o.URL, err = url.Parse(at); err != nil || o.URL.Host == "" {
				return cli.Usagef("--url is not a URL: %.80q", at)
			}
			if o.Log, err = logs.New(config.Log{}, "console", c.ErrOrStderr()); err != nil {
				return err
			}
			o.Trust, o.Judge = judge.Trust(), judge.Judge
			s := console.New(o)
			return s.Run(c.Context(), listen, socket, judge.Files(), func(login string) {
				fmt.Fprintln(c.OutOrStdout(), login)
			})
		},
	}
	cli.AdminFlag(c, &o.Admin)
	c.Flags().StringArrayVar(&o.Processes, "from", nil,
		"internal endpoint of a process whose keys are shown, "+cli.Endpoint+"; once for each process")
	cli.Default(c, "from", func(dir string) []string { return devstack.New(dir).Endpoints() }, (*config.Context).All)
	c.Flags().StringVar(&o.Node, "node", "", "the node's internal endpoint, "+cli.Endpoint)
	cli.Default(c, "node",
		func(dir string) []string { return []string{"unix:" + devstack.New(dir).Socket("reputation")} },
		func(of *config.Context) []string { return append(of.Named(of.Reputation), "")[:1] }) // it may have none
	c.Flags().StringVar(&socket, "socket", "/run/mediator/console.sock",
		"the console's unix socket, at which mediator console asks for a URL")
	cli.Default(c, "socket", func(dir string) []string { return []string{devstack.New(dir).Socket("console")} },
		contextSocket)
	c.Flags().StringVar(&team, "config", "",
		"a file with the groups of an OpenID provider that may log in, and the TLS certificate")
	c.Flags().StringVar(&at, "url", "",
		"the console's address for browsers, with --config or if a server with TLS is in front of it; by default a "+
			"name below localhost, so that no other server on this machine gets its cookie")
	judge.Add(c)
	return c
}

// contextSocket returns the socket of a context's console, which must not be that of another deployment.
func contextSocket(of *config.Context) []string {
	return []string{filepath.Join(cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), "/run/mediator"),
		"mediator-console-"+url.PathEscape(of.Name)+".sock")}
}

func running(ctx context.Context, socket string) (login string, ok bool) {
	var answer console.Login
	ctx, cancel := context.WithTimeout(ctx, time.Second*10)
	defer cancel()
	err := admin.Call(ctx, "unix:"+socket, http.MethodPost, console.LoginPath, nil, &answer)
	return answer.URL, err == nil
}
