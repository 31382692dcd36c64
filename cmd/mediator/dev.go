package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/configs"
)

func devCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "dev", Short: "Run all roles on embedded defaults, in one command", Args: noArgs,
		Long: `Starts the sidecar, the trigger service and the control plane on the configuration files in --dir, which are written there at the
first start and are yours to edit: mediator reload has them taken over while everything runs. Keys live in the processes' memories alone, and end with them. Ctrl-C ends everything.`,
		RunE: func(c *cobra.Command, _ []string) error { return dev(c.Context(), dir, c.OutOrStdout()) },
	}
	c.Flags().StringVar(&dir, "dir", ".mediator", "folder of the configuration, the state and the logs")
	return c
}

func dev(ctx context.Context, dir string, stdout io.Writer) error {
	began := time.Now()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := prepareDir(dir, configs.Dev); err != nil {
		return err
	}
	side, err := loadSidecar(filepath.Join(dir, serveFile))
	if err != nil {
		return err
	}
	s, err := startStack(ctx, dir)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Fprintf(stdout, "ready in %.1f s; configuration, state and logs are in %s\n\n", time.Since(began).Seconds(), dir)
	fmt.Fprintln(stdout, "To wire an agent up:")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		fmt.Fprintf(stdout, "  export %s=http://%s\n", name, side.T.Listen)
	}
	for _, name := range caVariables {
		fmt.Fprintf(stdout, "  export %s=%s\n", name, side.caFile())
	}
	fmt.Fprintf(stdout, `  unset NO_PROXY no_proxy

The agent waits for its event at http://mediator.internal/v1/event/next (curl http://mediator.internal/v1/event/next?wait=30s).
Webhooks arrive at the address that %s names. The record: mediator posts list --admin %s
After a change of the files: mediator reload unix:%s
`, filepath.Join(dir, triggerFile), s.admin(), s.socket("dev"))
	return s.serve(ctx)
}

// serve takes reloads until ctx ends, or a process ends by itself.
func (s *stack) serve(ctx context.Context) error {
	l, err := endpoint{unix: s.socket("dev")}.listen(zap.NewNop())
	if err != nil {
		return err
	}
	r, err := newReloader(zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	r.begin(configured{}, s.reload)
	mux := http.NewServeMux()
	r.handle(mux, func() bool { return true })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, l, mux, bounds{}, time.Second, zap.NewNop()) })
	group.Go(func() error { return s.wait(ctx) })
	return group.Wait()
}

// prepareDir makes a stack's folder and writes the files that are not there yet. The folder can be passed through by other
// users, for the CA's certificate; everything else in it is its owner's alone.
func prepareDir(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	for _, sub := range []string{"run", "state", "secrets", "events"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := writeAbsent(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails; see evidence.NewID
	return writeAbsent(filepath.Join(dir, "secrets", "webhook"), []byte("whsec_"+base64.StdEncoding.EncodeToString(secret)))
}

func writeAbsent(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
