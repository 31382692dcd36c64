package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/observe"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/wire"
)

// observer makes the looks of one process: at its start, and whenever it is asked.
type observer struct {
	agent agentConfig
	roles []role
	paths []observe.Path // files and folders that the agent must not change, nor read if they are secret
	more  []observe.Look // what this process's configuration shows

	secrets *vault.Secrets // nil where no credential is in Vault
}

// looks looks once. All keys are looked at at the same time: a custody that hangs costs its timeout once, and what else is seen reaches the
// sidecar in time.
func (o *observer) looks(ctx context.Context) []observe.Look {
	ctx, cancel := context.WithTimeout(ctx, ownLookTimeout)
	defer cancel()
	var all, ofAgent []observe.Look
	if o.agent.UID != nil {
		agent := observe.Agent{UID: *o.agent.UID, GIDs: o.agent.GIDs}
		ofAgent = append(ofAgent, agent.Process(uint32(os.Geteuid())), agent.Files(o.paths...))
	}
	ofKeys := make([][]observe.Look, len(o.roles))
	var wait sync.WaitGroup
	for i, r := range o.roles {
		wait.Go(func() { ofKeys[i] = r.key.Looks(ctx) })
	}
	if o.secrets != nil { // whoever holds the runtime's key holds this token too
		wait.Go(func() { all = append(all, o.secrets.Look(ctx).For(evidence.PurposeRuntimeAttestation)) })
	}
	wait.Wait()
	for i, r := range o.roles {
		for _, l := range append(slices.Clone(ofAgent), ofKeys[i]...) {
			all = append(all, l.For(r.purpose))
		}
	}
	return append(all, o.more...)
}

// start makes the looks of a process that is about to start, and refuses where one of them is against it.
func (o *observer) start(ctx context.Context) error {
	for _, l := range o.looks(ctx) {
		if l.Result == observe.Contradicts {
			return evidence.Refuse("deployment_contradicted", "this process does not start: %s (%s)", l.Seen, l.ID())
		}
	}
	return nil
}

// looksHandler answers GET /v1/looks with what the observer in force sees.
func looksHandler(mux *http.ServeMux, o *atomic.Pointer[observer]) {
	mux.HandleFunc("GET /v1/looks", func(w http.ResponseWriter, r *http.Request) { wire.Write(w, o.Load().looks(r.Context()), nil) })
}

// deploymentWatch holds the manifest against what this sidecar and the two other processes see, on a period.
type deploymentWatch struct {
	own      *observer
	more     func() []observe.Look                // what shows only once the trust is there
	sessions func(context.Context) []observe.Look // what was found in a session is over with it
	peers    []peer
	manifest *policy.Manifest
	log      *zap.Logger

	mu   sync.Mutex     // held while looking
	all  []observe.Look // of the last time
	seen atomic.Pointer[[]policy.ObservedControl]
}

// peer is another process that looks.
type peer struct {
	name string
	at   endpoint
}

// lookPeriod is how often the deployment is looked at, ownLookTimeout how long a process may look, and lookTimeout how long it may take to
// say what it saw.
const (
	lookPeriod     = 10 * time.Second
	ownLookTimeout = 2 * time.Second
	lookTimeout    = 3 * time.Second
)

// look looks once, at everything. A process that does not answer has seen nothing new.
func (d *deploymentWatch) look(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = observe.Keep(d.all, d.looks(ctx))
	controls := d.manifest.Observe(slices.Concat(d.all, d.sessions(ctx)))
	now, before := policy.Contradicted(controls), error(nil)
	if last := d.seen.Swap(&controls); last != nil {
		before = policy.Contradicted(*last)
	}
	switch {
	case now != nil && before == nil:
		d.log.Error("posts are refused until this is mended", zap.Error(now))
	case now == nil && before != nil:
		d.log.Info("what was seen contradicts the manifest no more")
	}
}

// looks has all processes look, at the same time.
func (d *deploymentWatch) looks(ctx context.Context) []observe.Look {
	of := make([][]observe.Look, 1+len(d.peers))
	var wait sync.WaitGroup
	wait.Go(func() { of[0] = append(d.own.looks(ctx), d.more()...) })
	for i, p := range d.peers {
		wait.Go(func() {
			var err error
			if of[i+1], err = p.looks(ctx); err != nil {
				d.log.Debug("what another process sees is not known", zap.String("process", p.name), zap.Error(err))
			}
		})
	}
	wait.Wait()
	return slices.Concat(of...)
}

func (d *deploymentWatch) watch(ctx context.Context) {
	for range every.Tick(ctx, lookPeriod) {
		d.look(ctx)
	}
}

// last returns what was seen the last time.
func (d *deploymentWatch) last() []observe.Look {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

// contradicted is nil unless the last look contradicts the manifest; look comes first.
func (d *deploymentWatch) contradicted() error {
	return policy.Contradicted(*d.seen.Load())
}

func (p peer) looks(ctx context.Context) ([]observe.Look, error) {
	var looks []observe.Look
	err := p.ask(ctx, "/v1/looks", &looks)
	return looks, err
}

// ask asks the process for what it saw, into out.
func (p peer) ask(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	client, base := p.at.client()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", p.name, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, wire.MaxAnswer)).Decode(out)
}

// gateLook is what the sidecar's own configuration shows of its gate.
func (s *sidecar) gateLook() observe.Look {
	var local, remote []string
	for _, a := range s.actions {
		if _, ok := s.apis[a.Name]; ok {
			remote = append(remote, a.Name)
		} else {
			local = append(local, a.Name)
		}
	}
	if len(remote) > 0 {
		return observe.Made(observe.Gate, observe.Unseen, "These actions are judged by their APIs, which this sidecar does not see: "+strings.Join(remote, ", ")+".")
	}
	return observe.Made(observe.Gate, observe.Holds,
		fmt.Sprintf("All %d actions pass this sidecar's own gate, which demands the whole chain and consumes it in the transaction of the post's intent.", len(local)))
}

// keysLook holds the certified keys against each other.
func keysLook(trust *evidence.Trust) observe.Look {
	purposes := make(map[string]string)
	for _, c := range trust.Certified() {
		public := string(c.Public)
		for _, purpose := range c.Certificate.Purposes {
			if other, ok := purposes[public]; ok && other != purpose {
				return observe.Made(observe.Keys, observe.Contradicts, fmt.Sprintf("One key is certified for %s and for %s.", other, purpose))
			}
			purposes[public] = purpose
		}
	}
	return observe.Made(observe.Keys, observe.Holds, fmt.Sprintf("%d keys are certified, each for one purpose.", len(purposes)))
}

// paths lists files and folders of a configuration, secret or not; empty names are left out.
func paths(file func(string) string, secret bool, names ...string) []observe.Path {
	var out []observe.Path
	for _, n := range names {
		if n != "" {
			out = append(out, observe.Path{Name: file(n), Secret: secret})
		}
	}
	return out
}

// executable is the program that runs; the agent could put another one in its place for the next start.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return path
}

// socket is where this process listens.
func socket(file func(string) string, c endpointConfig) []observe.Path {
	if c.Unix == "" {
		return nil
	}
	return []observe.Path{{Name: file(c.Unix), Users: c.UIDs}}
}

// observer makes the sidecar's looks.
func (s *sidecar) observer(roles []role) *observer {
	c := s.T
	secret := []string{c.CA.Dir, c.Gate.SecretFile, c.Admin.TokenFile, c.Trigger.TokenFile, c.Control.TokenFile, filepath.Join(c.State, "ledger.db")}
	if c.Ledger.Postgres != nil {
		secret = append(secret, c.Ledger.Postgres.DSNFile)
	}
	for _, a := range c.Actions {
		if a.Credential != nil {
			secret = append(secret, a.Credential.File) // empty for one in Vault
		}
	}
	if len(s.vaultSecrets) > 0 {
		secret = append(secret, c.Custody.Vault.secretsOf(credentialRole)...)
	}
	for _, e := range c.Egress {
		if e.Credential != nil {
			secret = append(secret, e.Credential.File)
		}
	}
	secret = append(secret, c.Custody.secrets(roles)...)
	open := append(c.Custody.public(), executable(), s.path, c.Manifest, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle, c.Trigger.Unix, c.Control.Unix)
	for _, u := range c.Upstreams {
		open = append(open, u.CA)
	}
	return &observer{
		agent: c.Agent, roles: roles, paths: slices.Concat(paths(s.file, true, secret...), paths(s.file, false, open...), socket(s.file, c.Admin)),
		more: []observe.Look{s.gateLook()},
	}
}

// observer makes the control plane's looks.
func (p *controlPlane) observer(roles []role) *observer {
	c := p.T
	secret := append(c.Custody.secrets(roles), c.Internal.TokenFile)
	open := append(c.Custody.public(), executable(), p.path, c.Manifest, c.Policy, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	return &observer{agent: c.Agent, roles: roles, paths: slices.Concat(paths(p.file, true, secret...), paths(p.file, false, open...), socket(p.file, c.Internal))}
}

// observer makes the trigger service's looks.
func (t *triggerService) observer(roles []role) *observer {
	c := t.T
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
	human := observe.Made(observe.Human, observe.Holds, "This trigger service verifies its sources itself ("+strings.Join(names, ", ")+") and signs nothing for an event that a human asked for or somebody only reported.")
	secret = append(secret, c.Custody.secrets(roles)...)
	open := append(c.Custody.public(), executable(), t.path, c.TLSCertificate, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	return &observer{
		agent: c.Agent, roles: roles, paths: slices.Concat(paths(t.file, true, secret...), paths(t.file, false, open...), socket(t.file, c.Internal)),
		more: []observe.Look{human},
	}
}
