package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
)

// registration has this process's keys certified by the registrar, and takes the trust that the registrar delivers.
type registration struct {
	p    *Process
	plan Plan
	base string
	// Two clients: only the replica that made a nonce takes it, so nothing else uses the connection on which it came.
	registering, following wire.Peer

	lacks chan struct{} // has room for one: see lacking
	// lacking says that the trust that was delivered last lacks certificates of a key of this process: the registrar's
	// state was restored from before it registered.
	lacking atomic.Bool
	again   atomic.Int64 // when to register anew, in Unix seconds

	manifest  atomic.Pointer[string] // hash of the one that was delivered last
	delivered chan struct{}          // has room for one: there is another

	segment int // of the history, which was the last one when it was written; 0 before
}

const (
	registrarTimeout = 40 * time.Second // of a registration or a certificate: the registrar may have many to sign for
	registrarPause   = time.Second      // after an error
	longestPause     = 30 * time.Second // between reloads that were refused
	// maxTrust bounds an answer, in bytes. The bundle in it is a JSON text, and so a little longer than by itself.
	maxTrust = 2*evidence.MaxBundle + 1<<20
)

// registers keeps this process registered until ctx ends, if its configuration names a registrar.
func (p *Process) registers(ctx context.Context, group *errgroup.Group, plan Plan) {
	if plan.Registrar == nil {
		return
	}
	r := &registration{p: p, plan: plan, delivered: make(chan struct{}, 1), lacks: make(chan struct{}, 1)}
	for _, peer := range []*wire.Peer{&r.registering, &r.following} {
		*peer = wire.Peer{Name: "the registrar", Unavailable: "process_unavailable"}
		peer.HTTP, r.base = p.Client(*plan.Registrar)
	}
	group.Go(func() error { r.register(ctx); return nil })
	group.Go(func() error { r.follow(ctx); return nil })
	group.Go(func() error { r.reload(ctx); return nil })
}

// repeating calls try until ctx ends.
func (p *Process) repeating(ctx context.Context, what string, try func() error) {
	for await.Success(ctx, p.Log, registrarPause, what, try) == nil {
	}
}

// register registers at the start, whenever the versions of a key have changed, before certificates end, and if they
// are lost. Two processes with one name take each other's away, so it takes twice as long each time.
func (r *registration) register(ctx context.Context) {
	var last time.Time
	known, pause := "", registrarPause
	r.p.repeating(ctx, "this process's keys are not certified anew", func() error {
		roles := documents(ctx, r.p.Roles)
		for i := range roles { // they say nothing of the keys themselves
			roles[i].Signs, roles[i].Made = "", nil
		}
		raw, err := json.Marshal(roles)
		if err != nil {
			return err
		}
		hash := evidence.HashBytes(raw)
		due := hash != known || time.Now().Unix() > r.again.Load()
		lost, wait := !due && r.lacking.Load(), time.Until(last.Add(pause))
		switch {
		case due || lost && wait <= 0:
			in, err := r.once(ctx, roles)
			if err != nil {
				return err
			}
			if lost {
				pause *= 2
			}
			known, last = hash, time.Now()
			again := last.Add(in)
			r.again.Store(again.Unix())
			r.p.Log.Info("registered", zap.String("registrar", r.base), zap.Time("again", again))
		case lost:
			time.AfterFunc(wait, func() { every.Signal(r.lacks) })
		}
		state, err := r.p.nextState(ctx, "", nil)
		if err == nil {
			_, err = r.p.nextState(ctx, state.State, r.lacks)
		}
		return err
	})
}

// once registers the roles, and returns when to do it again.
func (r *registration) once(ctx context.Context, roles []RoleDocument) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, registrarTimeout)
	defer cancel()
	var nonce struct {
		Nonce string `json:"nonce"`
	}
	if err := r.registering.Call(ctx, r.base+"/v1/nonces", struct{}{}, &nonce); err != nil {
		return 0, err
	}
	publication, err := json.Marshal(struct {
		Roles        []RoleDocument     `json:"roles"`
		Observations []look.Observation `json:"looks"`
	}{roles, r.p.Observer.Load().Observe(ctx, time.Minute)})
	if err != nil {
		return 0, err
	}
	proofs, err := r.prove(ctx, nonce.Nonce, publication)
	if err != nil {
		return 0, err
	}
	var done struct {
		Again int64 `json:"again"`
	}
	err = r.registering.Call(ctx, r.base+"/v1/registrations", map[string]any{
		"nonce": nonce.Nonce, "publication": string(publication), "proofs": proofs,
	}, &done)
	return time.Duration(done.Again) * time.Second, err
}

// prove signs a proof of possession with each version of each key.
func (r *registration) prove(ctx context.Context, nonce string, publication []byte) (proofs []string, err error) {
	claims := evidence.Possession{PublicationHash: evidence.HashBytes(publication)}
	claims.Registered = evidence.NewRegistered(string(r.p.Identity.ID()), evidence.AudienceRegistrar, time.Now(),
		time.Minute)
	claims.ID = nonce
	for _, role := range r.p.Roles {
		versions, err := role.Key.Versions(ctx)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			proof, err := evidence.Sign(ctx, v, evidence.PossessionKind(), claims)
			if err != nil {
				return nil, err
			}
			proofs = append(proofs, proof)
		}
	}
	return proofs, nil
}

// trust is what the registrar delivers.
type trust struct {
	State    string `json:"state"`
	Bundle   string `json:"bundle"`
	Manifest string `json:"manifest"`
}

// follow writes each trust that the registrar delivers into the files of the configuration.
func (r *registration) follow(ctx context.Context) {
	has := ""
	r.p.repeating(ctx, "the registrar's trust is not taken", func() error {
		t, err := r.next(ctx, has)
		if err != nil || t.State == "" {
			return err
		}
		if err := r.write(ctx, t); err != nil {
			return err
		}
		has = t.State
		return nil
	})
}

// next waits for a trust that is not the one that this process has. It may be empty.
func (r *registration) next(ctx context.Context, has string) (t trust, err error) {
	raw, err := r.get(ctx, "/v1/trust?unlike="+url.QueryEscape(has))
	if err != nil {
		return t, err
	}
	return t, strictjson.ParseMembers(raw, &t)
}

func (r *registration) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, registrarTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.following.Send(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, problem.Read(resp)
	}
	return files.ReadAll(resp.Body, "the registrar's answer", maxTrust)
}

// write replaces the bundle and, if the manifest is in the same folder, the manifest. It refuses a bundle that the
// pinned root keys have not signed. A changed manifest counts after a reload.
func (r *registration) write(ctx context.Context, t trust) error {
	roots, err := deployed.ReadRoots(r.plan.Trust.Registry, r.plan.Trust.Auditor)
	if err != nil {
		return err
	}
	b, err := evidence.ParseBundle([]byte(t.Bundle))
	var trusted *evidence.Trust
	if err == nil {
		trusted, err = evidence.NewTrust(roots, b, evidence.SignerPolicy{})
	}
	if err != nil {
		return fmt.Errorf("the registrar's bundle cannot be written: %w", err)
	}
	r.lacking.Store(slices.ContainsFunc(r.p.Roles, func(role Role) bool { return r.lack(ctx, trusted, role) }))
	if r.lacking.Load() {
		every.Signal(r.lacks)
	}
	if err := r.writeHistory(ctx, b.History); err != nil {
		return err
	}
	to := r.plan.Trust.Bundle
	if r.plan.Manifest == "" || filepath.Dir(r.plan.Manifest) != filepath.Dir(to) {
		return files.Replace(to, []byte(t.Bundle), 0o644)
	}
	m, err := policy.ParseManifest([]byte(t.Manifest))
	if err != nil {
		return fmt.Errorf("the registrar's manifest cannot be written: %w", err)
	}
	if before, _ := files.Read(r.plan.Manifest); string(before) != t.Manifest { // a missing one differs
		err = files.Replace(r.plan.Manifest, []byte(t.Manifest), 0o644)
	}
	if err == nil {
		err = files.Replace(to, []byte(t.Bundle), 0o644)
	}
	if err != nil {
		return err
	}
	hash := m.Hash()
	r.manifest.Store(&hash)
	every.Signal(r.delivered)
	return nil
}

// lack reports whether no certificate of a role's key lasts until this process registers anew, though another could.
func (r *registration) lack(ctx context.Context, trust *evidence.Trust, role Role) bool {
	all, err := certificates(ctx, trust, role)
	if err != nil {
		return false
	}
	revoked := 0
	for _, c := range all {
		if c.Revoked {
			revoked++
		} else if c.Certificate.Expires > r.again.Load() {
			return false
		}
	}
	versions, err := role.Key.Versions(ctx)
	return err == nil && revoked < len(versions) // for a revoked certificate there is no other
}

// reload makes this process use each delivered manifest. It tries again until it may: a sidecar uses no manifest by
// which the control plane does not decide yet.
func (r *registration) reload(ctx context.Context) {
	var again <-chan time.Time
	pause := registrarPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.delivered:
			pause = registrarPause
		case <-again:
		}
		again = nil
		uses := r.p.Reloader.current.Load() // nil before the start, which reads the files
		if uses != nil && uses.Manifest == *r.manifest.Load() {
			continue
		}
		if uses != nil {
			if _, err := r.p.Reloader.Reload(ctx); err == nil { // it logs its result
				continue
			}
		}
		again, pause = time.After(pause), min(2*pause, longestPause)
	}
}

// writeHistory writes the history up to end beside the bundle, if this process reads it. Only the last file grows.
func (r *registration) writeHistory(ctx context.Context, end *evidence.HistoryEnd) error {
	if !r.plan.History || end == nil {
		return nil
	}
	for n := max(r.segment, 1); n <= end.Segment; n++ {
		raw, err := r.get(ctx, "/v1/history/"+strconv.Itoa(n))
		if err != nil {
			return err
		}
		if err := files.Replace(archive.SegmentFile(r.plan.Trust.Bundle, n), raw, 0o644); err != nil {
			return err
		}
		r.segment = n
	}
	return nil
}
