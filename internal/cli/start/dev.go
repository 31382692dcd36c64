package start

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
)

// Dev returns the command that runs all roles on embedded defaults.
func Dev() *cobra.Command {
	var dir, ports string
	var quiet bool
	c := &cobra.Command{
		Use: "dev", Short: "Run all roles on embedded defaults, in one command", Args: cli.NoArgs,
		Example: `  mediator dev
  mediator dev --dir other --ports auto`,
		Long: `Starts the sidecar, the trigger service, the control plane, the node and the console with the configuration
files in --dir. The first start writes these files; mediator reload applies your edits. Signing keys exist only in
memory. --dir keeps the record, the interception CA (ca), and the public files that verify the records of earlier starts
(earlier). Ctrl-C ends everything.

Each call is shown as it ends: as text on a terminal, and elsewhere as lines of JSON. --quiet shows none. NO_COLOR turns
colours off.`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch ports {
			case "":
				return dev(c, dir, configs.Dev, quiet)
			case "auto":
				files, err := withFreePorts(configs.Dev)
				if err != nil {
					return err
				}
				return dev(c, dir, files, quiet)
			}
			return cli.Usagef("%s --ports takes auto", c.CommandPath())
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "show no calls")
	c.Flags().StringVar(&ports, "ports", "",
		"auto: the files of a first start name free ports, in place of 8181, 8182 and 8184, for a second stack on the "+
			"machine")
	c.Flags().StringVar(&dir, "dir", devstack.DefaultFolder, "folder of the configuration, the state and the logs")
	return c
}

func withFreePorts(files map[string][]byte) (map[string][]byte, error) {
	files = maps.Clone(files)
	for own, name := range map[string]string{"127.0.0.1:8181": devstack.SidecarFile,
		"127.0.0.1:8182": devstack.TriggerFile, "127.0.0.1:8184": devstack.SidecarFile} {
		free, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		files[name] = bytes.Replace(files[name], []byte(own), []byte(free), -1)
	}
	return files, nil
}

func dev(c *cobra.Command, dir string, files map[string][]byte, quiet bool) error {
	ctx := c.Context()
	began := time.Now()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	release, err := devstack.Hold(dir)
	if err != nil {
		return err
	}
	defer release() // last, when nothing runs any more
	if err := devstack.Prepare(dir, files); err != nil {
		return err
	}
	if _, err := config.Load[config.Sidecar](filepath.Join(dir, devstack.SidecarFile)); err != nil {
		return err
	}
	s, err := devstack.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Stop()
	login, end, err := startConsole(dir) // while the others get ready
	if err != nil {
		return err
	}
	defer end()
	if err := s.Ready(ctx); err != nil {
		return err
	}
	about := c.OutOrStdout()
	if !quiet && !cli.IsTerminal(about) { // which is for JSON then
		about = c.ErrOrStderr()
	}
	fmt.Fprintf(about, "ready in %.1f s; configuration, state and logs are in %s\n\n", time.Since(began).Seconds(), dir)
	fmt.Fprintf(about, `In the agent's shell:        eval "$(mediator env --dir %[1]s)"
The agent waits for events:  curl 'http://mediator.internal/v1/event/next?wait=30s'
Deliver an event, signed:    mediator events send github FILE --dir %[1]s
The record:                  mediator posts list --dir %[1]s
After a change of a file:    mediator reload --dir %[1]s
The console, in a browser:   %[2]s
`, cli.ShellQuote(dir), login)
	if quiet {
		return s.Serve(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		if err := showCalls(ctx, s.Admin(), c.OutOrStdout()); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "mediator: calls are shown no more: %v\n", err)
		}
	}()
	err = s.Serve(ctx)
	cancel()
	select {
	case <-followed: // before the sidecar ends
	case <-time.After(time.Second): // its reader does not read
	}
	return err
}

// startConsole starts the console of the stack in dir, in a process of its own because this one has the root keys. It
// returns the URL that logs in the first browser, or where to read why there is none. end ends the process.
func startConsole(dir string) (login string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	name := filepath.Join(dir, "console.log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", nil, err
	}
	defer log.Close()
	p := exec.Command(self, "console", "--dir", dir) //nolint:gosec // this program itself
	p.Stderr = log
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return "", nil, err
	}
	if login, _ = bufio.NewReader(out).ReadString('\n'); login == "" {
		login = "none, see " + name
	}
	return strings.TrimSpace(login), func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	}, nil
}

func showCalls(ctx context.Context, at string, w io.Writer) error {
	show := func(r ledger.Record) error { return cli.WriteJSONLine(w, r) }
	if cli.IsTerminal(w) {
		colour := cli.Coloured(w)
		show = func(r ledger.Record) error {
			if r.Code == problem.CallDenied {
				return nil
			}
			return records.PrintCall(w, r, colour)
		}
	}
	return records.Follow(ctx, at, ledger.Query{}, 0, show, func() {})
}
