package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/trigger"
)

func triggerCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "trigger --config FILE", Short: "Run the trigger service: events in, origin proofs and receipts out", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runTrigger(c.Context(), path, c.ErrOrStderr()) },
	}
	configFlag(c, &path, "trigger.yaml")
	return c
}

// triggerService is the validated form of triggerConfig.
type triggerService struct {
	loaded[triggerConfig]
	internal endpoint
	sources  []trigger.Source
}

func loadTrigger(path string) (*triggerService, error) {
	l, err := load[triggerConfig](path)
	if err != nil {
		return nil, err
	}
	c, f := l.T, findings{}
	f.need("state", c.State, "trust.registry", c.Trust.Registry, "trust.auditor", c.Trust.Auditor, "trust.bundle", c.Trust.Bundle,
		"keys.origin.audience", c.Keys.Origin.Audience, "keys.receipt.audience", c.Keys.Receipt.Audience)
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Keys.Origin.check("keys.origin", &f)
	c.Keys.Receipt.check("keys.receipt", &f)
	if (c.TLSCertificate == "") != (c.TLSKey == "") {
		f.add("tlsCertificate", "goes together with tlsKey")
	}
	if c.Budget < 0 {
		f.add("budget", "%d is less than 0", c.Budget)
	}
	t := &triggerService{loaded: l, internal: c.Internal.endpoint("internal", &f, l.file)}
	for i, s := range c.Sources {
		source, err := t.source(s)
		if err != nil {
			f.add(fmt.Sprintf("sources[%d] (%s)", i, s.Name), "%v", err)
			continue
		}
		t.sources = append(t.sources, source)
	}
	return t, f.err(path)
}

// source makes one source of events; exactly one kind must be set.
func (t *triggerService) source(s sourceConfig) (trigger.Source, error) {
	kinds := 0
	for _, set := range []bool{s.GitHub != nil, s.StandardWebhooks != nil, s.Engine != nil, s.Schedule != nil, s.Queue != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 || s.Name == "" {
		return nil, fmt.Errorf("needs a name and exactly one of github, standardWebhooks, engine, schedule, queue")
	}
	switch {
	case s.GitHub != nil:
		secrets, err := t.secrets(s.GitHub.SecretFiles)
		if err != nil {
			return nil, err
		}
		return trigger.NewGitHub(s.Name, secrets, s.GitHub.Events, s.GitHub.Human)
	case s.StandardWebhooks != nil:
		secrets, err := t.secrets(s.StandardWebhooks.SecretFiles)
		if err != nil {
			return nil, err
		}
		return trigger.NewStandard(s.Name, secrets)
	case s.Engine != nil:
		secrets, err := t.secrets(s.Engine.SecretFiles)
		if err != nil {
			return nil, err
		}
		return trigger.NewEngine(s.Name, secrets)
	case s.Schedule != nil:
		return newSchedule(s.Name, s.Schedule)
	default:
		q, err := trigger.NewQueue(s.Name, t.file(s.Queue.Dir), time.Duration(s.Queue.Poll))
		if err != nil {
			return nil, err
		}
		q.Owners = s.Queue.Owners
		return q, nil
	}
}

func newSchedule(name string, c *scheduleConfig) (*trigger.Schedule, error) {
	s, err := trigger.NewSchedule(name, c.Cron, c.Timezone, c.Payload)
	switch {
	case err != nil:
		return nil, err
	case c.Missed == "latest":
		s.Missed = trigger.FireLatest
	case c.Missed != "" && c.Missed != "skip":
		return nil, fmt.Errorf("missed: %q is neither skip nor latest", c.Missed)
	}
	return s, nil
}

func (t *triggerService) secrets(files []string) ([]string, error) {
	var out []string
	for _, name := range files {
		s, err := readSecret(t.file(name), 16)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// runTrigger runs the trigger service until ctx ends.
func runTrigger(ctx context.Context, path string, stderr io.Writer) error {
	t, err := loadTrigger(path)
	if err != nil {
		return err
	}
	c := t.T
	log, err := newLogger(c.Log, "trigger", stderr)
	if err != nil {
		return err
	}
	keys, err := c.Custody.open(t.file, log)
	if err != nil {
		return err
	}
	defer keys.Close()
	var roles []role
	origin, err := newIssuer(ctx, &roles, keys, nil, evidence.TriggerOriginProofKind, c.Keys.Origin.keyConfig, c.Keys.Origin.Audience)
	if err != nil {
		return err
	}
	receipt, err := newIssuer(ctx, &roles, keys, nil, evidence.TriggerReceiptKind, c.Keys.Receipt.keyConfig, c.Keys.Receipt.Audience)
	if err != nil {
		return err
	}
	observer := t.observer(roles)
	if err := observer.start(ctx); err != nil {
		return err
	}
	service, err := trigger.New(ctx, trigger.Options{
		Path: filepath.Join(t.file(c.State), "events.db"), Origin: origin, Receipt: receipt, Sources: t.sources,
		MaxAge: time.Duration(c.MaxAge), Budget: c.Budget, Now: time.Now, Log: log,
	})
	if err != nil {
		return err
	}
	defer service.Close()
	confined, err := t.reach(observer).confine(c.Confine, t.file, log)
	if err != nil {
		return err
	}
	internal, err := t.internal.listen(log)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	handleLayers(mux, confined)
	rolesHandler(mux, roles)
	observer.handle(mux)
	var ready atomic.Bool
	healthHandlers(mux, ready.Load)
	metricsHandler(mux, newMetrics())
	mux.Handle("/", trigger.NewServer(service))
	group, ctx := errgroup.WithContext(ctx)
	const grace = 10 * time.Second
	group.Go(func() error { return serveHTTP(ctx, internal, t.internal.guard(mux), grace, log) })
	group.Go(func() error { return service.Run(ctx) })
	if c.Listen != "" {
		l, err := t.listenWebhooks()
		if err != nil {
			return err
		}
		group.Go(func() error { return serveHTTP(ctx, l, service.Webhooks(), grace, log) })
	}
	group.Go(func() error {
		certified, err := openCertificates(ctx, c.Trust, t.file, roles, log)
		if err != nil {
			return err
		}
		ready.Store(true)
		log.Info("ready")
		certified.watch(ctx)
		return nil
	})
	return group.Wait()
}

func (t *triggerService) listenWebhooks() (net.Listener, error) {
	l, err := net.Listen("tcp", t.T.Listen)
	if err != nil || t.T.TLSCertificate == "" {
		return l, err
	}
	cert, err := tls.LoadX509KeyPair(t.file(t.T.TLSCertificate), t.file(t.T.TLSKey))
	if err != nil {
		l.Close()
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), nil
}
