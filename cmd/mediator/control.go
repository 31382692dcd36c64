package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/problem"
	"github.com/actionproof/mediator/wire"
)

func controlCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "control --config FILE", Short: "Run the control plane: policy decisions and action grants", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return control(c.Context(), path, c.ErrOrStderr()) },
	}
	configFlag(c, &path, "control.yaml")
	return c
}

// controlPlane is the validated form of controlConfig.
type controlPlane struct {
	loaded[controlConfig]
	internal endpoint
	rules    *policy.Rules
}

func loadControl(path string) (*controlPlane, error) {
	l, err := load[controlConfig](path)
	if err != nil {
		return nil, err
	}
	c, f := l.T, findings{}
	f.need("audience", c.Audience, "manifest", c.Manifest, "policy", c.Policy,
		"trust.registry", c.Trust.Registry, "trust.auditor", c.Trust.Auditor, "trust.bundle", c.Trust.Bundle)
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Keys.Decision.check("keys.decision", &f)
	c.Keys.Grant.check("keys.grant", &f)
	p := &controlPlane{loaded: l, internal: c.Internal.endpoint("internal", &f, l.file)}
	if c.Policy != "" {
		if p.rules, err = readRules(l.file(c.Policy)); err != nil {
			f.add("policy", "%v", err)
		}
	}
	return p, f.err(path)
}

func readRules(path string) (*policy.Rules, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	rules, err := policy.ParseRules(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rules, nil
}

// control runs the control plane until ctx ends.
func control(ctx context.Context, path string, stderr io.Writer) error {
	p, err := loadControl(path)
	if err != nil {
		return err
	}
	c := p.T
	log, err := newLogger(c.Log, "control", stderr)
	if err != nil {
		return err
	}
	keys, err := c.Custody.open(p.file, log)
	if err != nil {
		return err
	}
	defer keys.Close()
	var roles []role
	decision, err := newIssuer(ctx, &roles, keys, nil, evidence.PolicyDecisionKind, c.Keys.Decision, c.Audience)
	if err != nil {
		return err
	}
	grant, err := newIssuer(ctx, &roles, keys, nil, evidence.ActionGrantKind, c.Keys.Grant, c.Audience)
	if err != nil {
		return err
	}
	observer := p.observer(roles)
	if err := observer.start(ctx); err != nil {
		return err
	}
	confined, err := p.reach(observer).confine(c.Confine, p.file, log)
	if err != nil {
		return err
	}
	l, err := p.internal.listen(log)
	if err != nil {
		return err
	}
	var service lateHandler
	mux := http.NewServeMux()
	rolesHandler(mux, roles)
	handleLayers(mux, confined)
	observer.handle(mux)
	healthHandlers(mux, service.ready)
	metricsHandler(mux, newMetrics())
	mux.Handle("/", &service)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, l, p.internal.guard(mux), 10*time.Second, log) })
	group.Go(func() error {
		_, strict, err := waitForManifest(ctx, log, p.file(c.Manifest))
		if err != nil {
			return err
		}
		trust, err := openTrust(ctx, c.Trust, nil, p.file, strict, log)
		if err != nil {
			return err
		}
		certified, err := openCertificates(ctx, c.Trust, p.file, roles, log)
		if err != nil {
			return err
		}
		group.Go(func() error { certified.watch(ctx); return nil })
		engine, err := policy.NewEngine(p.rules, trust.verifier, strict, decision, grant, policy.EngineOptions{Now: time.Now, Log: log})
		if err != nil {
			return err
		}
		service.set(policy.NewServer(engine))
		log.Info("ready", zap.String("policyHash", p.rules.Hash()))
		trust.watch(ctx)
		return nil
	})
	return group.Wait()
}

// lateHandler answers "not ready" until its handler is there: a process publishes its keys before it can be certified.
type lateHandler struct{ h atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.h.Store(&h) }
func (l *lateHandler) ready() bool        { return l.h.Load() != nil }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := l.h.Load()
	if h == nil {
		problem.Write(w, evidence.Refuse("not_ready", "the service is not ready: it waits for its manifest or its trust bundle"))
		return
	}
	(*h).ServeHTTP(w, r)
}

// healthHandlers answers /healthz and /readyz.
func healthHandlers(mux *http.ServeMux, ready func() bool) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { wire.Write(w, map[string]bool{"healthy": true}, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			problem.Write(w, evidence.Refuse("not_ready", "the process is not ready: it waits for its manifest, its trust bundle or a port"))
			return
		}
		wire.Write(w, map[string]bool{"ready": true}, nil)
	})
}
