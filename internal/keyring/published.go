package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/look"
)

// Publication has the roles of a process with their keys, and its observations.
type Publication struct {
	Roles        []daemon.RoleDocument `json:"roles"`
	Observations []look.Observation    `json:"looks"`
}

// Published joins the publications of several processes.
type Published struct {
	Publication
	RolesByEndpoint map[string][]string // see signsAs
}

// ReadPublished asks processes for their publications, or reads them from files (file:PATH) with the output of mediator
// keys list --publication.
func ReadPublished(ctx context.Context, from []string) (Published, error) {
	p := Published{Publication{[]daemon.RoleDocument{}, []look.Observation{}}, make(map[string][]string)}
	for _, at := range from {
		one, err := readPublication(ctx, at, true)
		if err != nil {
			return Published{}, err
		}
		one.KeepOwn()
		p.Roles, p.Observations, p.RolesByEndpoint[at] = append(p.Roles, one.Roles...),
			append(p.Observations, one.Observations...), signsAs(one.Roles)
	}
	return p, nil
}

// KeepOwn drops the observations about roles of others: a process has no say in their keys.
func (p *Publication) KeepOwn() {
	p.Observations = slices.DeleteFunc(p.Observations, func(l look.Observation) bool {
		return !slices.ContainsFunc(p.Roles, func(r daemon.RoleDocument) bool { return r.Purpose == l.Purpose })
	})
}

func readPublication(ctx context.Context, at string, looks bool) (p Publication, err error) {
	if path, ok := PublishedFile(at); ok {
		return readPublishedFile(path)
	}
	if err = admin.Get(ctx, at, "/v1/roles", &p.Roles); err == nil && looks {
		err = admin.Get(ctx, at, "/v1/looks", &p.Observations)
	}
	return p, err
}

func readPublishedFile(path string) (p Publication, err error) {
	raw, err := files.Read(path)
	if err != nil {
		return p, err
	}
	if err = strictjson.Parse(raw, &p); err == nil && (len(p.Roles) == 0 || p.Observations == nil) {
		err = errors.New("it has no roles or no observations")
	}
	if err != nil {
		return p, fmt.Errorf("%s is not the output of mediator keys list --publication: %w", path, err)
	}
	return p, nil
}

// PublishedFile returns the path in file:PATH.
func PublishedFile(at string) (string, bool) { return strings.CutPrefix(at, "file:") }

// signsAs lists the roles, issuers and key names of a process. A role that it publishes twice is there twice.
func signsAs(roles []daemon.RoleDocument) []string {
	var as []string
	for _, r := range roles {
		var names []string
		if r.Unread != nil {
			names = append(names, r.Unread.Name)
		}
		for _, k := range r.Keys {
			names = append(names, evidence.KeyName(k.KeyID))
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			as = append(as, fmt.Sprintf("%s as %s with %s", r.Purpose, r.Issuer, name))
		}
	}
	slices.Sort(as)
	return as
}

// ReadRoles is [ReadPublished] for roles alone.
func ReadRoles(ctx context.Context, from ...string) (all []daemon.RoleDocument, err error) {
	for _, at := range from {
		p, err := readPublication(ctx, at, false)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Roles...)
	}
	return all, nil
}
