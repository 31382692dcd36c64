package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
)

// Plan lists what a process uses under one configuration. Confinement leaves it nothing else.
type Plan struct {
	File config.File
	config.Process

	Manifest      string                     // path of the deployment manifest; empty for a process that reads none
	History       bool                       // read beside the trust bundle
	CheckManifest func(*policy.Strict) error // refuses a manifest under which callers would be refused
	Environment   string                     // the hash of a sidecar's environment
	Policy        string                     // the hash of a control plane's rules

	Key         string           // of the endpoint: internal or admin
	Endpoint    config.Endpoint  // for sidecars or operators
	Tokens      config.Tokens    // admit operators at its TCP address
	Descriptors bool             // requests to it may pass a descriptor
	Listens     []endpoint.Place // further addresses
	Grace       time.Duration    // how long a process that ends waits for open requests

	Secret  []string // further files that the agent must neither read nor change
	Public  []string // further files that the agent must not change
	Write   []string // folders
	Move    []string // folders between which the process moves files
	Proc    bool     // the processes of the machine or pod
	Connect []string // further ports, addresses or URLs

	Shown []look.Observation // observations that follow from the configuration
	// Extra makes observations that only this process can make; nil for none.
	Extra func(ctx context.Context, maxAge time.Duration) []look.Observation
}

// Observer returns the process's observer of its deployment.
func (p Plan) Observer(roles []Role) *Observer {
	var purposes []string
	for _, r := range roles {
		purposes = append(purposes, r.Purpose)
	}
	secret := slices.Concat(p.Secret, []string{p.Tokens.Read, p.Tokens.Operate}, p.Custody.SecretFiles(purposes...))
	public := slices.Concat(p.Public, p.Custody.PublicFiles(),
		[]string{executable(), p.File.Path, p.Manifest, p.Trust.Registry, p.Trust.Auditor, p.Trust.Bundle})
	if t := p.TLS; t != nil {
		secret, public = append(secret, t.Key, t.Token), append(public, t.Certificate, t.Authorities)
	}
	if t := p.Tracing; t != nil {
		secret, public = append(secret, t.HeadersFile), append(public, t.CA)
	}
	slices.Sort(secret)
	slices.Sort(public)
	all := slices.Concat(paths(true, slices.Compact(secret)), paths(false, slices.Compact(public)))
	if e := p.Endpoint; e.Unix != "" {
		all = append(all, observe.Path{Name: e.Unix, Users: e.UIDs})
	}
	return &Observer{p, roles, all}
}

// DNS is the port on which names are resolved over TCP.
const DNS = "53"

// UseDatabase adds a PostgreSQL database to a plan. db is nil if there is none.
func (p *Plan) UseDatabase(db *config.Postgres, dsn string) error {
	if db == nil {
		return nil
	}
	ports, err := postgres.Ports(dsn)
	for _, port := range ports {
		p.Connect = append(p.Connect, Port(port))
	}
	p.Connect, p.Secret = append(p.Connect, DNS), append(p.Secret, db.DSNFile)
	return err
}

func (p *Plan) places() []endpoint.Place {
	all := append([]endpoint.Place{{Key: p.Key, Address: p.Endpoint.TCP, Unix: p.Endpoint.Unix}}, p.Listens...)
	if p.Probes != nil {
		all = append(all, endpoint.Place{Key: "probes.listen", Address: p.Probes.Listen})
	}
	return all
}
