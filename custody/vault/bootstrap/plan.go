package bootstrap

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
)

// Options describe a plan. Exactly one of AppRole and Kubernetes is set.
type Options struct {
	Transit    string // mount of the Transit engine
	Roots      bool   // the root keys are in Vault too
	AppRole    *AppRole
	Kubernetes *Kubernetes
}

// AppRole gives each role a secret id.
type AppRole struct {
	Mount string        // of the auth method
	Dir   string        // for PURPOSE.role-id and PURPOSE.secret-id, mode 0600
	Wrap  time.Duration // lifetime of a wrapped secret id
}

// Kubernetes lets the roles of a process log in with its pod's service account. A process without one gets no login; a
// root without one gets a token and a file that names its key, for the people who sign with it.
type Kubernetes struct {
	Mount    string              // of the auth method
	Audience string              // aud of the pods' tokens
	Accounts map[string][]string // service accounts by process, NAMESPACE/NAME
	Dir      string              // for the roots' public keys, and the files for people
	CA       string              // a path, for the file for people; empty without one
}

const (
	tokenTTL    = "15m"
	tokenMaxTTL = "24h"
)

// Plan lists what to make in Vault, in order.
type Plan struct{ steps []step }

type step interface {
	command() string // as a shell command
	// apply makes the thing if it is missing, and says what it did.
	apply(ctx context.Context, c *api.Client) (Done, error)
}

// Done is the result of one step.
type Done struct {
	What string `json:"what"` // a path in Vault, a policy or a file
	Did  string `json:"did"`  // such as made, or is there
}

// String returns it as one line.
func (d Done) String() string { return d.What + ": " + d.Did }

var (
	mountName   = regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$`)
	accountName = regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9.-]+$`)
	audience    = regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`)
)

// Deliver makes a plan that replaces the secret ids of one process.
func Deliver(o Options, process string) (*Plan, error) {
	if o.AppRole == nil {
		return nil, fmt.Errorf("secret ids are delivered for AppRole; with Kubernetes there are none")
	}
	if err := o.AppRole.check(); err != nil {
		return nil, err
	}
	p := &Plan{}
	for _, r := range o.roles() {
		if r.Process == process {
			p.steps = append(p.steps, o.AppRole.credentials(r, true))
		}
	}
	if len(p.steps) == 0 {
		return nil, o.process(process)
	}
	return p, nil
}

// New makes a plan.
func New(o Options) (*Plan, error) {
	if !mountName.MatchString(o.Transit) {
		return nil, fmt.Errorf("%q is not the name of a mount", o.Transit)
	}
	owners, err := policyFor(owner, o.Transit)
	if err != nil {
		return nil, err
	}
	p := &Plan{steps: []step{enabled{"secrets", o.Transit, "transit"}, owners}}
	for _, r := range o.roles() {
		own, err := policyFor(r.Purpose, o.Transit)
		if err != nil {
			return nil, err
		}
		if r.Key != "" {
			p.steps = append(p.steps, key{o.Transit, r.Key})
		}
		p.steps = append(p.steps, own)
	}
	var logins []step
	switch {
	case (o.AppRole != nil) == (o.Kubernetes != nil):
		return nil, fmt.Errorf("a plan is for exactly one of AppRole and Kubernetes")
	case o.AppRole != nil:
		logins, err = o.appRoles()
	default:
		logins, err = o.serviceAccounts()
	}
	p.steps = append(p.steps, logins...)
	return p, err
}

func (o Options) appRoles() ([]step, error) {
	a := o.AppRole
	if err := a.check(); err != nil {
		return nil, err
	}
	steps := []step{enabled{"auth", a.Mount, "approle"}}
	for _, r := range o.roles() {
		steps = append(steps, login{a.path(r), append(token(r), "bind_secret_id=true")}, a.credentials(r, false))
	}
	return steps, nil
}

func (a *AppRole) check() error {
	if !mountName.MatchString(a.Mount) || a.Dir == "" || a.Wrap < time.Second {
		return fmt.Errorf("AppRole needs the name of a mount, a folder, and a second or more for unwrapping")
	}
	return nil
}

func (a *AppRole) path(r Role) string { return "auth/" + a.Mount + "/role/" + r.name() }

func (a *AppRole) credentials(r Role, again bool) credentials {
	return credentials{path: a.path(r), dir: a.Dir, purpose: r.Purpose, process: r.Process, wrap: a.Wrap, again: again}
}

func (o Options) serviceAccounts() ([]step, error) {
	k := o.Kubernetes
	if !mountName.MatchString(k.Mount) || !audience.MatchString(k.Audience) || len(k.Accounts) == 0 {
		return nil, fmt.Errorf("kubernetes needs the name of a mount, an audience and a service account")
	}
	bound := make(map[string][]string) // fields of a login, by process
	for process, accounts := range k.Accounts {
		if err := o.process(process); err != nil {
			return nil, err
		}
		namespaces, names, err := split(accounts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", process, err)
		}
		bound[process] = []string{"bound_service_account_namespaces=" + strings.Join(namespaces, ","),
			"bound_service_account_names=" + strings.Join(names, ","), "audience=" + k.Audience}
	}
	steps := []step{enabled{"auth", k.Mount, "kubernetes"}}
	for _, r := range o.roles() {
		fields, root := bound[r.Process], slices.Contains(Roots, r)
		if root {
			steps = append(steps, pinned{k.Dir, o.Transit, r})
		}
		switch {
		case fields != nil:
			steps = append(steps, login{"auth/" + k.Mount + "/role/" + r.name(), append(token(r), fields...)})
		case root:
			steps = append(steps, signers{k, o.Transit, r})
		}
	}
	return steps, nil
}

// split returns the namespaces and the names of service accounts. Vault lets each name of a role in from each of its
// namespaces, so all these pairs must be meant.
func split(accounts []string) (namespaces, names []string, err error) {
	for _, account := range accounts {
		if !accountName.MatchString(account) {
			return nil, nil, fmt.Errorf("%q is not a service account: write NAMESPACE/NAME", account)
		}
		namespace, name, _ := strings.Cut(account, "/")
		namespaces, names = append(namespaces, namespace), append(names, name)
	}
	slices.Sort(namespaces)
	slices.Sort(names)
	namespaces, names = slices.Compact(namespaces), slices.Compact(names)
	for _, namespace := range namespaces {
		for _, name := range names {
			if pair := namespace + "/" + name; !slices.Contains(accounts, pair) {
				return nil, nil, fmt.Errorf(
					"the service account %s would also be admitted: use the same names in all namespaces", pair)
			}
		}
	}
	return namespaces, names, nil
}

func token(r Role) []string {
	return []string{"token_policies=" + r.name(), "token_no_default_policy=true", "token_ttl=" + tokenTTL,
		"token_max_ttl=" + tokenMaxTTL, "token_period=0"}
}

// Commands returns the plan as commands for a shell with a Vault login.
func (p *Plan) Commands() []string {
	out := make([]string, len(p.steps))
	for i, s := range p.steps {
		out[i] = s.command()
	}
	return out
}

// Apply carries out the plan and keeps what is right. It stops at the first failure, and returns the steps before it.
func (p *Plan) Apply(ctx context.Context, c *api.Client) ([]Done, error) {
	done := []Done{}
	for _, s := range p.steps {
		did, err := s.apply(ctx, c)
		if err != nil {
			return done, err
		}
		done = append(done, did)
	}
	return done, nil
}
