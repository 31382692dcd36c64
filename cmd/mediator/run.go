package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// nobody is the user that an agent runs as when mediator run is started by root and told nothing else.
const nobody = 65534

func runCommand() *cobra.Command {
	var admin, event string
	var uid int
	c := &cobra.Command{
		Use:   "run [--event ID] [flags] -- CMD [ARG ...]",
		Short: "Start an agent in a session of its own, opened by one event",
		Long: `Opens a session for the event, starts CMD with the proxy environment, without a terminal and with an empty standard input,
and ends the session when CMD ends, and whatever CMD has left behind. The exit status is CMD's, or 128 and the number of the signal that
ended it. The sidecar looks at CMD's processes as long as the session is open, where it can see them.

Started by root, CMD runs as an unprivileged user (see --uid), so that the mediator's sockets and files are out of its reach.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("mediator run needs the command to start, after --")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !c.Flags().Changed("uid"):
			case uid < -1 || uid >= math.MaxUint32: // whose lower 32 bits could be those of root; the last of 32 bits is nobody's (setuid(2))
				return usagef("mediator run --uid %d: that is no user", uid)
			}
			return runAgent(c.Context(), agentRun{admin: admin, event: event, uid: uid, args: args, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()})
		},
	}
	adminFlag(c, &admin)
	c.Flags().StringVar(&event, "event", "", "the event that opens the session; empty takes the next one that waits")
	c.Flags().IntVar(&uid, "uid", userOfSession, "the user to run CMD as, -1 for this one; default when started by root the configuration's agent.uid, or "+fmt.Sprint(nobody)+", else this one")
	c.Flags().Lookup("uid").DefValue = "0" // prints no number
	return c
}

// userOfSession stands for the user that the sidecar's configuration names, if root starts the agent.
const userOfSession = -2

// userOf returns the user to run the agent as, or -1 to keep the user.
func (r agentRun) userOf(s sessionOpened) int {
	switch {
	case r.uid != userOfSession:
		return r.uid
	case os.Geteuid() != 0:
		return -1
	case s.Agent != nil:
		return int(*s.Agent)
	}
	return nobody
}

type agentRun struct {
	admin, event   string
	uid            int // -1 keeps the user; or userOfSession
	args           []string
	stdout, stderr io.Writer
}

func runAgent(ctx context.Context, r agentRun) error {
	if _, err := exec.LookPath(r.args[0]); err != nil {
		return fmt.Errorf("the agent cannot be started, and its event still waits: %w", err)
	}
	var s sessionOpened
	if err := callJSON(ctx, r.admin, http.MethodPost, "/v1/sessions", sessionAsked{Event: r.event, Launcher: true}, &s); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := callJSON(end, r.admin, http.MethodDelete, "/v1/sessions/"+url.PathEscape(s.Session), nil, nil); err != nil {
			fmt.Fprintf(r.stderr, "mediator: end the session: %v\n", err)
		}
	}()
	uid := r.userOf(s)
	if uid < 0 {
		fmt.Fprintln(r.stderr, "mediator: the agent runs as this user and can reach what this user can, the mediator's sockets included; start it as root, or as a user of its own")
	}
	cmd := agentCommand(ctx, r.args, uid)
	cmd.Env = proxyEnvironment(os.Environ(), s.ProxyURL, s.CAFile)
	err := launch(cmd, r.stdout, r.stderr)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("run the agent: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitStatus(128 + int(status.Signal())) // as a shell says it
	}
	return exitStatus(exit.ExitCode())
}

// agentCommand makes the command of an agent: in a session of its own without a terminal, its standard input empty, as the given user
// (-1 keeps the user) and in the group of the same number alone.
func agentCommand(ctx context.Context, args []string, uid int) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // running the operator's command is what run is for
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if uid >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// caVariables are what the usual clients read their trusted CAs from.
var caVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT", "AWS_CA_BUNDLE", "PERL_LWP_SSL_CA_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile"}

// proxyEnvironment returns env with the proxy and the CA in it, in the spellings that the usual clients read, and without
// exceptions from the proxy.
func proxyEnvironment(env []string, proxyURL, caFile string) []string {
	set := make(map[string]string)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		set[name] = proxyURL
	}
	for _, name := range caVariables {
		set[name] = caFile
	}
	set["NODE_USE_ENV_PROXY"] = "1" // Node 24 and later follow the proxy variables only when told to
	drop := map[string]bool{"NO_PROXY": true, "no_proxy": true, "ALL_PROXY": true, "all_proxy": true}
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := set[name]; !ours && !drop[name] {
			out = append(out, kv)
		}
	}
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}
