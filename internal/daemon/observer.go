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
)

// Observer sees what one process can see of its deployment: at its start, and whenever it is asked.
type Observer struct {
	Agent config.Agent
	Roles []Role
	Paths []observe.Path // files and folders that the agent must not change, nor read if they are secret
	Known []observe.Look // what this process's configuration shows
	// More, if set, looks at what only one process has.
	More func(context.Context) []observe.Look
}

// lookTimeout is how long a process may look.
const lookTimeout = 2 * time.Second

// Look looks once. All keys are looked at at the same time: a custody that hangs costs its timeout once, and the rest is seen in time.
func (o *Observer) Look(ctx context.Context) []observe.Look {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var all, ofAgent []observe.Look
	if o.Agent.UID != nil {
		// mediator run gives the agent the group with its user's number.
		agent := observe.Agent{UID: *o.Agent.UID, GIDs: append(slices.Clone(o.Agent.GIDs), *o.Agent.UID)}
		ofAgent = append(ofAgent, agent.Process(uint32(os.Geteuid())), agent.Files(o.Paths...))
	}
	ofKeys := make([][]observe.Look, len(o.Roles))
	var wait sync.WaitGroup
	for i, r := range o.Roles {
		wait.Go(func() { ofKeys[i] = r.Key.Looks(ctx) })
	}
	if o.More != nil {
		wait.Go(func() { all = o.More(ctx) })
	}
	wait.Wait()
	for i, r := range o.Roles {
		for _, l := range append(slices.Clone(ofAgent), ofKeys[i]...) {
			all = append(all, l.For(r.Purpose))
		}
	}
	return append(all, o.Known...)
}

// CheckStart looks once for a process that is about to start, and refuses where something is against the start.
func (o *Observer) CheckStart(ctx context.Context) error {
	for _, l := range o.Look(ctx) {
		if l.Result == observe.Contradicts {
			return refusal.New("deployment_contradicted", "this process does not start: %s (%s)", l.Seen, l.ID())
		}
	}
	return nil
}

// observations answers GET /v1/looks with what the observer in force sees, and GET /v1/layers with what holds this process.
func (p *Process) observations(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/looks", func(w http.ResponseWriter, r *http.Request) { wire.Write(w, p.Observer.Load().Look(r.Context()), nil) })
	mux.HandleFunc("GET /v1/layers", func(w http.ResponseWriter, _ *http.Request) { wire.Write(w, p.Confined.Layers(), nil) })
}

// SecretPaths lists files and folders that the agent must neither change nor read; empty names are left out.
func SecretPaths(names ...string) []observe.Path { return paths(true, names) }

// PublicPaths lists files and folders that the agent must not change, this program among them; empty names are left out.
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

// SocketPath is where this process listens; nothing where that is no socket.
func SocketPath(e config.Endpoint) []observe.Path {
	if e.Unix == "" {
		return nil
	}
	return []observe.Path{{Name: e.Unix, Users: e.UIDs}}
}

// executable is the program that runs; the agent could put another one in its place for the next start.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return path
}

// purposes are the purposes of roles.
func purposes(roles []Role) []string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = r.Purpose
	}
	return out
}

// CustodySecrets are the secret files of a custody, for the roles of this process.
func CustodySecrets(c config.Custody, roles []Role) []string { return c.Secrets(purposes(roles)...) }
