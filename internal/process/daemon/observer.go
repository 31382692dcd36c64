package daemon

import (
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/look"
)

// Observer makes a process's observations of its own deployment.
type Observer struct {
	Plan  Plan
	Roles []Role
	Paths []observe.Path // the agent must not change them, nor read secret ones
}

// lookTimeout bounds the observations for a caller that waits. At the start startTimeout does: a busy custody answers
// late what refuses the start.
const lookTimeout, startTimeout = 2 * time.Second, 30 * time.Second

// Observe makes each observation once, those of all keys at the same time. A custody's answer counts for maxAge,
// because each question leaves lines in its audit log.
func (o *Observer) Observe(ctx context.Context, maxAge time.Duration) []look.Observation {
	return o.within(ctx, lookTimeout, maxAge)
}

func (o *Observer) within(ctx context.Context, timeout, maxAge time.Duration) []look.Observation {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var all []look.Observation
	ofAgent := o.ofAgent()
	ofKeys := make([][]look.Observation, len(o.Roles))
	var wait sync.WaitGroup
	for i, r := range o.Roles {
		wait.Go(func() { ofKeys[i] = r.Key.Observe(ctx, maxAge) })
	}
	if o.Plan.Extra != nil {
		wait.Go(func() { all = o.Plan.Extra(ctx, maxAge) })
	}
	wait.Wait()
	for i, r := range o.Roles {
		for _, l := range ofKeys[i] {
			all = append(all, l.For(r.Purpose))
		}
	}
	return slices.Concat(all, ofAgent, o.Plan.Shown)
}

// ofAgent observes which of the process's files the agent can reach, and whether the agent can reach the process.
func (o *Observer) ofAgent() (all []look.Observation) {
	a := o.Plan.Agent
	if a.UID == nil {
		return nil
	}
	agent := observe.Agent{UID: *a.UID, GIDs: append(slices.Clone(a.GIDs), *a.UID)} // and the group of mediator run
	users := []observe.Agent{agent, observe.Anyone()}                               // a run may have its own user
	process, reached := agent.Process(uint32(os.Geteuid())), observe.LookAtFiles(users, o.Paths...)
	for _, r := range o.Roles {
		all = append(all, process.For(r.Purpose), reached.For(r.Purpose))
	}
	return all
}

// CheckStart makes each observation once, and refuses the start if one contradicts a control. It reuses what the custody
// reported when the keys were opened.
func (o *Observer) CheckStart(ctx context.Context) error {
	return holds(o.within(ctx, startTimeout, startTimeout))
}

func holds(all []look.Observation) error {
	for _, l := range all {
		if l.Result == look.Contradicts {
			return refusal.New("deployment_contradicted", "this process does not start: %s (%s)", l.Seen, l.ID())
		}
	}
	return nil
}

// observations answers GET /v1/looks with the observations of this process, and GET /v1/layers with its confinement.
// Without the parameter maxAge, all observations are made now.
func (p *Process) observations(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/looks", wire.Answer(func(r *http.Request) ([]look.Observation, error) {
		maxAge, _ := time.ParseDuration(r.URL.Query().Get("maxAge")) // 0 if it is none
		return p.Observer.Load().Observe(r.Context(), maxAge), nil
	}))
	mux.HandleFunc("GET /v1/layers", wire.Answer(func(*http.Request) ([]confine.Layer, error) {
		return p.Confined.Layers(), nil
	}))
}

// paths lists files and folders that the agent must not change, nor read if they are secret. It skips empty names.
func paths(secret bool, names []string) []observe.Path {
	var out []observe.Path
	for _, n := range names {
		if n != "" {
			out = append(out, observe.Path{Name: n, Secret: secret})
		}
	}
	return out
}

// executable returns the path of the running program. An agent that can replace this file controls the next start.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return path
}
