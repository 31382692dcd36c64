package daemon

import (
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/look"
)

// Observer observes what one process can see of its deployment: at its start and on request.
type Observer struct {
	Agent      config.Agent
	Roles      []Role
	Paths      []observe.Path     // the agent must not change them, nor read secret ones
	FromConfig []look.Observation // observations that follow from the configuration
	// Extra, if set, makes observations that only one of the processes can make.
	Extra func(ctx context.Context, maxAge time.Duration) []look.Observation
}

// lookTimeout bounds the observations that Observe makes.
const lookTimeout = 2 * time.Second

// Observe makes each observation once. It observes all keys at the same time, so a custody that does not answer costs
// one timeout. What a custody said of a key at most maxAge ago counts, because each question leaves lines in the
// custody's audit log.
func (o *Observer) Observe(ctx context.Context, maxAge time.Duration) []look.Observation {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var all []look.Observation
	ofAgent := o.ofAgent()
	ofKeys := make([][]look.Observation, len(o.Roles))
	var wait sync.WaitGroup
	for i, r := range o.Roles {
		wait.Go(func() { ofKeys[i] = r.Key.Observe(ctx, maxAge) })
	}
	if o.Extra != nil {
		wait.Go(func() { all = o.Extra(ctx, maxAge) })
	}
	wait.Wait()
	for i, r := range o.Roles {
		for _, l := range ofKeys[i] {
			all = append(all, l.For(r.Purpose))
		}
	}
	return slices.Concat(all, ofAgent, o.FromConfig)
}

// ofAgent observes which of the process's files the agent can reach, and whether the agent can reach the process.
func (o *Observer) ofAgent() (all []look.Observation) {
	if o.Agent.UID == nil {
		return nil
	}
	// mediator run gives the agent the group with its user's number.
	agent := observe.Agent{UID: *o.Agent.UID, GIDs: append(slices.Clone(o.Agent.GIDs), *o.Agent.UID)}
	// A user whom the deployment does not know may be the agent's for one run.
	users := []observe.Agent{agent, observe.Anyone()}
	process, reached := agent.Process(uint32(os.Geteuid())), observe.LookAtFiles(users, o.Paths...)
	for _, r := range o.Roles {
		all = append(all, process.For(r.Purpose), reached.For(r.Purpose))
	}
	return all
}

// CheckStart makes each observation once for a process that is about to start. It refuses the start if one of them
// contradicts a control.
func (o *Observer) CheckStart(ctx context.Context) error { return holds(o.Observe(ctx, 0)) }

// holds refuses a start if an observation contradicts a control.
func holds(all []look.Observation) error {
	for _, l := range all {
		if l.Result == look.Contradicts {
			return refusal.New("deployment_contradicted", "this process does not start: %s (%s)", l.Seen, l.ID())
		}
	}
	return nil
}

// observations answers GET /v1/looks with the observations of this process, and GET /v1/layers with its confinement.
// The parameter maxAge bounds the age of observations of a custody; without it all are made now.
func (p *Process) observations(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/looks", func(w http.ResponseWriter, r *http.Request) {
		maxAge, _ := time.ParseDuration(r.URL.Query().Get("maxAge")) // 0 if it is none
		wire.Write(w, p.Observer.Load().Observe(r.Context(), maxAge), nil)
	})
	mux.HandleFunc("GET /v1/layers", func(w http.ResponseWriter, _ *http.Request) {
		wire.Write(w, p.Confined.Layers(), nil)
	})
}

// SecretPaths lists files and folders that the agent must neither change nor read. It skips empty names.
func SecretPaths(names ...string) []observe.Path { return paths(true, names) }

// PublicPaths lists files and folders that the agent must not change, and this program. It skips empty names.
func PublicPaths(names ...string) []observe.Path { return paths(false, append(names, executable())) }

func paths(secret bool, names []string) []observe.Path {
	var out []observe.Path
	for _, n := range names {
		if n != "" {
			out = append(out, observe.Path{Name: n, Secret: secret})
		}
	}
	return out
}

// SocketPath returns the socket on which this process listens. It returns nothing for a TCP endpoint.
func SocketPath(e config.Endpoint) []observe.Path {
	if e.Unix == "" {
		return nil
	}
	return []observe.Path{{Name: e.Unix, Users: e.UIDs}}
}

// executable returns the path of the running program. An agent that can replace this file controls the next start.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return path
}
