// Package trigger runs the trigger service: mediator trigger.
package trigger

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// source is the running trigger service, a [daemon.Service]. A reload replaces its sources of events and nothing else.
type source struct {
	*daemon.Process
	config  *config.Trigger // as read at the start
	latest  *config.Trigger // only a reload changes it
	origin  *signer.Issuer[evidence.TriggerOriginProof]
	receipt *signer.Issuer[evidence.TriggerReceipt]
	service *trigger.Service
}

// Run runs the trigger service until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	return daemon.Run(ctx, "trigger", path, stderr, new(source))
}

// Plan returns what the trigger service takes from a configuration.
func Plan(c *config.Trigger) (daemon.Plan, error) {
	p := daemon.PlanOf(c, c.File, c.Process, c.Internal)
	p.Secret = append(p.Secret, filepath.Join(c.State, "events.db"))
	var names []string
	for _, s := range c.Sources {
		names = append(names, s.Name)
		if s.Queue != nil {
			p.Move = append(p.Move, s.Queue.Dir)
		}
	}
	p.Shown = []look.Observation{look.New(look.Human, look.Holds, "This trigger service verifies its sources itself ("+
		strings.Join(names, ", ")+
		"). It signs nothing for events that its configuration lists as a human's, and nothing for "+
		"events that somebody only reported.")}
	return p, p.UseDatabase(c.Store.Postgres.ConnString())
}

func (*source) Plan(c *config.Trigger) (daemon.Plan, error) { return Plan(c) }

func (p *source) Roles(process *daemon.Process, c *config.Trigger) error {
	p.Process, p.config, p.latest = process, c, c
	origin, receipt := c.Keys.Origin, c.Keys.Receipt
	return cmp.Or(
		daemon.AddIssuer(process, &p.origin, evidence.TriggerOriginProofKind(), origin.SigningKey, origin.Audience),
		daemon.AddIssuer(process, &p.receipt, evidence.TriggerReceiptKind(), receipt.SigningKey, receipt.Audience))
}

// Open opens the event store.
func (p *source) Open(ctx context.Context) (err error) {
	c := p.config
	p.service, err = trigger.New(ctx, trigger.Options{
		Path: filepath.Join(c.State, "events.db"), DSN: c.Store.Postgres.ConnString(), Secret: c.EventSecret,
		Origin: p.origin, Receipt: p.receipt, Sources: c.SourceList,
		MaxAge: time.Duration(c.MaxAge), Budget: c.Budget,
		Retention: time.Duration(c.Retention), Now: time.Now, Log: p.Log,
	})
	if err != nil {
		return fmt.Errorf("store in %s: %w", c.Path, err)
	}
	return nil
}

// Begin also starts to take events.
func (p *source) Begin(ctx context.Context, group *errgroup.Group) (http.Handler, error) {
	if p.config.Listen != "" {
		webhooks, err := p.listenWebhooks(ctx, group)
		if err != nil {
			return nil, fmt.Errorf("webhooks: %w", err)
		}
		group.Go(func() error {
			return endpoint.Serve(ctx, webhooks, p.service.Webhooks(), endpoint.PublicLimits, daemon.Grace, p.Log)
		})
	}
	group.Go(func() error { return p.service.Run(ctx) })
	mux := p.Mux(p.service.Ready)
	mux.Handle("/", trigger.NewServer(p.service))
	return mux, nil
}

// listenWebhooks opens the address for webhooks. If they arrive over HTTPS, group follows the certificate until ctx
// ends.
func (p *source) listenWebhooks(ctx context.Context, group *errgroup.Group) (net.Listener, error) {
	c := p.config
	if c.TLSCertificate == "" {
		return net.Listen("tcp", c.Listen)
	}
	return endpoint.ListenTLS(ctx, group, c.Listen, c.TLSCertificate, c.TLSKey, p.Log)
}

// Serve implements [daemon.Service]: all is running already.
func (p *source) Serve(context.Context, *errgroup.Group, *daemon.Configured[config.Trigger]) error {
	return nil
}

func (p *source) Next(_ context.Context, next *daemon.Configured[config.Trigger]) (func() error, error) {
	return func() error {
		next.Config.ReuseSources(p.latest)
		if err := p.service.SetSources(next.Config.SourceList); err != nil {
			return err
		}
		p.latest = next.Config
		return nil
	}, nil
}

func (p *source) Close() {
	if p.service != nil {
		p.service.Close()
	}
}
