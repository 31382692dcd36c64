package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/internal/observe"
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

	Endpoint    config.Endpoint // for sidecars or operators
	Tokens      config.Tokens   // admit operators at its TCP address
	Descriptors bool            // requests to it may pass a descriptor
	Grace       time.Duration   // how long a process that ends waits for open requests

	fields.Uses
	Move []string // folders between which the process moves files
	Proc bool     // the processes of the machine or pod

	Shown []look.Observation // observations that follow from the configuration
	// Extra makes observations that only this process can make; nil for none.
	Extra func(ctx context.Context, maxAge time.Duration) []look.Observation
}

// Grace bounds the wait of most processes for open requests when they end.
const Grace = 10 * time.Second

// PlanOf returns the plan of a configuration, to which the process adds what no key names.
func PlanOf(configuration any, file config.File, common config.Process, endpoint config.Endpoint) Plan {
	return Plan{File: file, Process: common, Endpoint: endpoint, Grace: Grace, Uses: fields.UsesOf(configuration)}
}

// Observer returns the process's observer of its deployment.
func (p Plan) Observer(roles []Role) *Observer {
	var purposes []string
	for _, r := range roles {
		purposes = append(purposes, r.Purpose)
	}
	secret := slices.Concat(p.Secret, p.Custody.SecretFiles(purposes...))
	public := append(slices.Clone(p.Public), executable(), p.File.Path)
	slices.Sort(secret)
	slices.Sort(public)
	all := slices.Concat(paths(true, slices.Compact(secret)), paths(false, slices.Compact(public)))
	if e := p.Endpoint; e.Unix != "" {
		all = append(all, observe.Path{Name: e.Unix, Users: e.UIDs})
	}
	return &Observer{p, roles, all}
}

// UseDatabase adds the ports of a PostgreSQL database to a plan. dsn is empty if there is none.
func (p *Plan) UseDatabase(dsn string) error {
	if dsn == "" {
		return nil
	}
	ports, err := postgres.Ports(dsn)
	for _, port := range ports {
		p.Connect = append(p.Connect, Port(port))
	}
	return err
}
