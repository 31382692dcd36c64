// Package launch starts an agent in a session of its own: mediator run.
//
//	launch.go     opens the session, starts the agent, closes the session
//	processes.go  keeps the agent's processes below this one, and kills those that the agent leaves behind
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/admin"
)

// DefaultUID is the user that root runs an agent as if neither the command line nor the configuration names a user.
const DefaultUID = 65534

// Values of Options.UID that are not user ids.
const (
	SameUser    = -1 // the user of this process
	SessionUser = -2 // the user that the sidecar's configuration names, if root starts the agent
)

// Options say which agent to start, and for which event.
type Options struct {
	Admin          string // the sidecar's admin endpoint, unix:PATH
	Event          string // empty: the next waiting event
	UID            int    // a user id, SameUser or SessionUser
	Args           []string
	Stdout, Stderr io.Writer
}

// ExitStatus is the exit status of an agent that did not end with 0: its own status, or 128 plus the number of the
// signal that ended it.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Run opens a session, runs the agent in it, and closes the session when the agent ends. If the agent fails, Run fails
// with an [ExitStatus].
func Run(ctx context.Context, o Options) error {
	if _, err := exec.LookPath(o.Args[0]); err != nil {
		return fmt.Errorf("the agent cannot be started, and its event still waits: %w", err)
	}
	var s admin.Session
	if err := admin.Call(ctx, o.Admin, http.MethodPost, "/v1/sessions", admin.SessionRequest{Event: o.Event, Launcher: true}, &s); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := admin.Call(end, o.Admin, http.MethodDelete, "/v1/sessions/"+url.PathEscape(s.Session), nil, nil); err != nil {
			fmt.Fprintf(o.Stderr, "mediator: end the session: %v\n", err)
		}
	}()
	uid := o.user(s)
	if uid < 0 {
		fmt.Fprintln(o.Stderr, "mediator: the agent runs as this user and can reach what this user can, the mediator's sockets included; start it as root, or as a user of its own")
	}
	cmd := command(ctx, o.Args, uid)
	cmd.Env = Environment(os.Environ(), s.ProxyURL, s.CAFile)
	err := runProcess(cmd, o.Stdout, o.Stderr)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("run the agent: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return ExitStatus(128 + int(status.Signal())) // as shells report a signal
	}
	return ExitStatus(exit.ExitCode())
}

// user returns the user to run the agent as, or -1 to keep the user.
func (o Options) user(s admin.Session) int {
	switch {
	case o.UID != SessionUser:
		return o.UID
	case os.Geteuid() != 0:
		return SameUser
	case s.Agent != nil:
		return int(*s.Agent)
	}
	return DefaultUID
}

// command makes the command of an agent. The agent runs in a process session of its own without a terminal, and its
// standard input is empty. It runs as the user uid and in the group of the same number alone; -1 keeps user and groups.
func command(ctx context.Context, args []string, uid int) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // running the operator's command is what run is for
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if uid >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// ProxyVariables are the variables from which the usual clients read the proxy.
var ProxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}

// CAVariables are the variables from which the usual clients read the CAs that they trust.
var CAVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT", "AWS_CA_BUNDLE", "PERL_LWP_SSL_CA_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile"}

// Environment returns env with the proxy and the CA set for the usual clients. It removes variables that exempt hosts
// from the proxy or name another proxy.
func Environment(env []string, proxyURL, caFile string) []string {
	set := make(map[string]string)
	for _, name := range ProxyVariables {
		set[name] = proxyURL
	}
	for _, name := range CAVariables {
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
