// Package trigger runs the trigger service: mediator trigger.
package trigger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/trigger"
)

// process is the running trigger service. A reload replaces its sources of events; everything else stays.
type process struct {
	*daemon.Process
	config  *config.Trigger // as read at the start
	service *trigger.Service
	inForce *config.Trigger // only a reload changes it
}

// grace is how long a process that ends waits for open requests.
const grace = 10 * time.Second

// Run runs the trigger service until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	c, err := config.LoadTrigger(path)
	if err != nil {
		return err
	}
	s := daemon.Start{File: path, Name: "trigger", Log: c.Log, Custody: c.Custody, Places: []daemon.Place{
		daemon.PlaceOf("internal", c.Internal), {Key: "listen", Address: c.Listen},
	}}
	return daemon.Run(ctx, s, stderr, func(ctx context.Context, p *daemon.Process) error {
		return (&process{Process: p, config: c, inForce: c}).run(ctx)
	})
}

// run makes the parts of the process and serves until ctx ends.
func (p *process) run(ctx context.Context) error {
	c := p.config
	if err := p.openService(ctx); err != nil {
		return err
	}
	defer p.service.Close()
	if err := p.Confine(Resources(c, p.Observer.Load()), c.Confine); err != nil {
		return err
	}
	if err := p.OpenKeys(ctx); err != nil {
		return err
	}
	internal, err := daemon.Listen(c.Internal, p.Log)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	mux := p.Mux(ready.Load, p.service.Ready)
	mux.Handle("/", trigger.NewServer(p.service))
	group, ctx := errgroup.WithContext(ctx)
	var webhooks net.Listener
	if c.Listen != "" {
		if webhooks, err = p.listenWebhooks(ctx, group); err != nil {
			return errors.Join(fmt.Errorf("webhooks: %w", err), internal.Close())
		}
	}
	group.Go(func() error {
		return daemon.Serve(ctx, internal, daemon.RequireToken(c.Internal, mux), daemon.Limits{}, grace, p.Log)
	})
	group.Go(func() error { p.Reloader.Watch(ctx); return nil })
	group.Go(func() error { return p.service.Run(ctx) })
	if webhooks != nil {
		group.Go(func() error {
			return daemon.Serve(ctx, webhooks, p.service.Webhooks(), daemon.PublicLimits, grace, p.Log)
		})
	}
	group.Go(func() error { return p.start(ctx, &ready) })
	return group.Wait()
}

// openService checks the files of the deployment and opens the event store.
func (p *process) openService(ctx context.Context) error {
	c := p.config
	origin, err := daemon.NewIssuer(p.Process, evidence.TriggerOriginProofKind, c.Keys.Origin.SigningKey, c.Keys.Origin.Audience)
	if err != nil {
		return err
	}
	receipt, err := daemon.NewIssuer(p.Process, evidence.TriggerReceiptKind, c.Keys.Receipt.SigningKey, c.Keys.Receipt.Audience)
	if err != nil {
		return err
	}
	p.Observer.Store(Observer(c, p.Roles))
	if err := p.CheckFiles(c.Trust, "", nil); err != nil {
		return err
	}
	p.service, err = trigger.New(ctx, trigger.Options{
		Path: filepath.Join(c.State, "events.db"), Origin: origin, Receipt: receipt, Sources: c.SourceList,
		MaxAge: time.Duration(c.MaxAge), Budget: c.Budget,
		Retention: c.Retention.Or(trigger.DefaultRetention, trigger.Forever), Now: time.Now, Log: p.Log,
	})
	if err != nil {
		return fmt.Errorf("state in %s: %w", c.Path, err)
	}
	return nil
}

// start waits for the trust bundle. Then the process is ready.
func (p *process) start(ctx context.Context, ready *atomic.Bool) error {
	if err := p.WaitForRoots(ctx, p.config.Trust); err != nil {
		return err
	}
	certified, err := p.WaitForCertificates(ctx, p.config.Trust)
	if err != nil {
		return err
	}
	p.Reloader.Start(status(p.config), p.reload)
	ready.Store(true)
	p.Log.Info("ready")
	certified.Watch(ctx)
	return nil
}

func status(c *config.Trigger) daemon.ConfigStatus {
	return daemon.ConfigStatus{Configuration: evidence.HashBytes(c.Raw)}
}

// reload reads the files again and makes events come from the sources that they name now. If it fails, nothing has
// changed.
func (p *process) reload(ctx context.Context) (daemon.ConfigStatus, error) {
	next, err := config.LoadTrigger(p.config.Path)
	if err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := p.CheckBound(*p.config, *next, next.Trust); err != nil {
		return daemon.ConfigStatus{}, err
	}
	o := Observer(next, p.Roles)
	if err := p.CheckConfined(Resources(next, o), next.Confine); err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := o.CheckStart(ctx); err != nil {
		return daemon.ConfigStatus{}, err
	}
	next.ReuseSources(p.inForce)
	if err := p.service.SetSources(next.SourceList); err != nil {
		return daemon.ConfigStatus{}, err
	}
	p.Observer.Store(o)
	p.inForce = next
	return status(next), nil
}

// Resources lists what the trigger service uses while it serves.
func Resources(c *config.Trigger, o *daemon.Observer) daemon.Resources {
	n := daemon.Resources{
		Named: o.Paths, Write: []string{c.State}, Socket: c.Internal.Unix, Bind: []string{c.Listen, c.Internal.TCP}, Connect: c.Custody.Addresses(),
	}
	for _, s := range c.Sources {
		if s.Queue != nil {
			n.Move = append(n.Move, s.Queue.Dir)
		}
	}
	return n
}

// Observer returns the observer for what the trigger service can see of its deployment.
func Observer(c *config.Trigger, roles []daemon.Role) *daemon.Observer {
	secret := []string{c.TLSKey, c.Internal.TokenFile, filepath.Join(c.State, "events.db")}
	var names []string
	for _, s := range c.Sources {
		names = append(names, s.Name)
		switch {
		case s.GitHub != nil:
			secret = append(secret, s.GitHub.SecretFiles...)
		case s.StandardWebhooks != nil:
			secret = append(secret, s.StandardWebhooks.SecretFiles...)
		case s.Engine != nil:
			secret = append(secret, s.Engine.SecretFiles...)
		case s.Queue != nil:
			secret = append(secret, s.Queue.Dir)
		}
	}
	human := look.New(look.Human, look.Holds, "This trigger service verifies its sources itself ("+strings.Join(names, ", ")+") and signs nothing for an event that its configuration lists as a human's, or that somebody only reported.")
	secret = append(secret, daemon.CustodySecrets(c.Custody, roles)...)
	public := append(c.Custody.PublicFiles(), c.Path, c.TLSCertificate, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	return &daemon.Observer{
		Agent: c.Agent, Roles: roles, FromConfig: []look.Observation{human},
		Paths: slices.Concat(daemon.SecretPaths(secret...), daemon.PublicPaths(public...), daemon.SocketPath(c.Internal)),
	}
}

// listenWebhooks opens the address for webhooks. If they arrive over HTTPS, group follows the certificate until ctx ends.
func (p *process) listenWebhooks(ctx context.Context, group *errgroup.Group) (net.Listener, error) {
	c := p.config
	if c.TLSCertificate == "" {
		return net.Listen("tcp", c.Listen)
	}
	certificate, err := daemon.OpenServerCertificate(c.TLSCertificate, c.TLSKey, p.Log)
	if err != nil {
		return nil, err
	}
	l, err := certificate.Listen(c.Listen)
	if err == nil {
		group.Go(func() error { certificate.Watch(ctx); return nil })
	}
	return l, err
}
