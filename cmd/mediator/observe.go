package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// check adds what is wrong with the agent's user, and with a socket of this process that admits him.
func (c agentConfig) check(f *findings, socket string, admitted []uint32) {
	switch {
	case c.UID == nil && len(c.GIDs) > 0:
		f.add("agent.gids", "has no meaning without agent.uid")
	case c.UID == nil:
	case slices.Contains(admitted, *c.UID):
		f.add(socket+".uids", "%d is agent.uid: the agent is what the socket is kept from", *c.UID)
	}
}

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
		agent := observe.Agent{UID: *o.agent.UID, GIDs: append(slices.Clone(o.agent.GIDs), *o.agent.UID)} // see agentCommand
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
			return refusal.New("deployment_contradicted", "this process does not start: %s (%s)", l.Seen, l.ID())
		}
	}
	return nil
}

// looksHandler answers GET /v1/looks with what the observer in force sees.
func looksHandler(mux *http.ServeMux, o *atomic.Pointer[observer]) {
	mux.HandleFunc("GET /v1/looks", func(w http.ResponseWriter, r *http.Request) { wire.Write(w, o.Load().looks(r.Context()), nil) })
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
	human := observe.Made(observe.Human, observe.Holds, "This trigger service verifies its sources itself ("+strings.Join(names, ", ")+") and signs nothing for an event that its configuration lists as a human's, or that somebody only reported.")
	secret = append(secret, c.Custody.secrets(roles)...)
	open := append(c.Custody.public(), executable(), t.path, c.TLSCertificate, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	return &observer{
		agent: c.Agent, roles: roles, paths: slices.Concat(paths(t.file, true, secret...), paths(t.file, false, open...), socket(t.file, c.Internal)),
		more: []observe.Look{human},
	}
}
