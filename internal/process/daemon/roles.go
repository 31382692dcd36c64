package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Role is one signing role of this process: its purpose, its issuer and its key.
type Role struct {
	Purpose string
	Issuer  string
	Key     *signer.Rotation
}

// RoleDocument is the public data of a role, for the key registry to certify.
type RoleDocument struct {
	Purpose       string            `json:"purpose"`
	Issuer        string            `json:"issuer"`
	KeyCustody    string            `json:"keyCustody"`
	KeyExportable bool              `json:"keyExportable"`
	Observed      []string          `json:"observed"`
	Keys          []jose.JSONWebKey `json:"keys"` // every accepted version, oldest first; none if Unread is set
	Unread        *unreadKey        `json:"unread,omitempty"`

	Signs string               `json:"signs,omitempty"` // kid of the version that signs now; empty if none does
	Made  map[string]time.Time `json:"made,omitempty"`  // by kid: when the custody made the version, if it says so
}

// KeyName returns the name of the role's key, without a version. It is empty if the process names no key.
func (d RoleDocument) KeyName() string {
	switch {
	case d.Unread != nil:
		return d.Unread.Name
	case len(d.Keys) > 0:
		return evidence.KeyName(d.Keys[0].KeyID)
	default:
		return ""
	}
}

// unreadKey says why a process cannot list the versions of a role's key.
type unreadKey struct {
	Name    string `json:"name"`
	Code    string `json:"code"`
	Because string `json:"because"`
}

// AddIssuer adds a role to the process, and makes its signer.
func AddIssuer[C any](p *Process, to **signer.Issuer[C], kind evidence.Kind[C], k config.SigningKey,
	audience string) error {
	key, err := p.AddRole(kind.Purpose, k)
	if err != nil {
		return err
	}
	*to, err = signer.New(kind, key,
		signer.Options{Issuer: k.Issuer, Audience: audience, Lifetime: k.Lifetime.Or(time.Minute), Now: time.Now})
	return err
}

// AddRole adds a role to the process. Its key signs nothing before openKeys.
func (p *Process) AddRole(purpose string, k config.SigningKey) (*signer.Rotation, error) {
	name := k.Key
	if p.KeySuffix != "" {
		name += "/" + p.KeySuffix
	}
	held, err := p.Keys.Key(purpose, name)
	if err != nil {
		return nil, err
	}
	key := signer.NewRotation(held, certificateSettle, time.Now)
	p.Roles = append(p.Roles, Role{Purpose: purpose, Issuer: k.Issuer, Key: key})
	return key, nil
}

// openKeys opens the keys of all roles and makes each observation once. It is the last step before the process listens,
// because a login uses up a wrapped secret id.
func (p *Process) openKeys(ctx context.Context) error {
	if err := p.Keys.Open(ctx); err != nil {
		return err
	}
	return p.Observer.Load().CheckStart(ctx)
}

// documents describes each role. A key that cannot be read does not hide the others.
func documents(ctx context.Context, roles []Role) []RoleDocument {
	out := make([]RoleDocument, 0, len(roles))
	for _, r := range roles {
		d := RoleDocument{Purpose: r.Purpose, Issuer: r.Issuer, Keys: []jose.JSONWebKey{}}
		versions, err := r.Key.Versions(ctx)
		if err != nil {
			why := problem.DetailsOf(err)
			d.Unread = &unreadKey{Name: r.Key.Name(), Code: why.Code, Because: why.Detail}
			out = append(out, d)
			continue
		}
		p := r.Key.Properties()
		d.KeyCustody, d.KeyExportable, d.Observed, d.Made = p.Custody, p.Exportable, p.Observed,
			make(map[string]time.Time)
		for _, v := range versions {
			d.Keys = append(d.Keys, custody.JWK(v))
			if !v.Made().IsZero() {
				d.Made[v.KeyID()] = v.Made().UTC()
			}
		}
		if v, err := r.Key.Signs(ctx); err == nil {
			d.Signs = v.KeyID()
		}
		out = append(out, d)
	}
	return out
}

// RolesState identifies a state of a process's roles.
type RolesState struct {
	State string `json:"state"`
}

// RolesWait bounds a request that waits for another state. rolesPoll is the pause between checks: a custody does not
// report new versions.
const RolesWait, rolesPoll = time.Minute, time.Second

// nextState waits until the state of the roles is not known, until ctx or the process ends or wake gets something, or
// for RolesWait. It returns the state.
func (p *Process) nextState(ctx context.Context, known string, wake <-chan struct{}) (RolesState, error) {
	ctx, cancel := endpoint.UntilEnding(ctx)
	defer cancel()
	wait := time.NewTimer(RolesWait)
	defer wait.Stop()
	var look <-chan time.Time // nil for keys in memory, which never change
	if keystore.Changes(p.Keys) {
		tick := time.NewTicker(rolesPoll)
		defer tick.Stop()
		look = tick.C
	}
	for {
		raw, err := json.Marshal(documents(ctx, p.Roles))
		now := RolesState{evidence.HashBytes(raw)}
		if err != nil || now.State != known {
			return now, err
		}
		select {
		case <-look:
		case <-wait.C:
			return now, nil
		case <-wake:
			return now, nil
		case <-ctx.Done():
			return now, nil
		}
	}
}

// rolesHandler answers with public keys: GET /v1/roles for the key registry, and GET /v1/jwks as a JWK Set (RFC 7517).
// GET /v1/roles/state waits for another state of /v1/roles than the parameter unlike.
func (p *Process) rolesHandler(mux *http.ServeMux) {
	roles := p.Roles
	mux.HandleFunc("GET /v1/roles", wire.Answer(func(r *http.Request) ([]RoleDocument, error) {
		return documents(r.Context(), roles), nil
	}))
	mux.HandleFunc("GET /v1/roles/state", wire.Answer(func(r *http.Request) (RolesState, error) {
		return p.nextState(r.Context(), r.URL.Query().Get("unlike"), nil)
	}))
	mux.HandleFunc("GET /v1/jwks", wire.Answer(func(r *http.Request) (jose.JSONWebKeySet, error) {
		keys := make([]custody.Key, len(roles))
		for i, r := range roles {
			keys[i] = r.Key
		}
		return custody.JWKS(r.Context(), keys...)
	}))
}

// CheckAllowed refuses a manifest that does not allow the issuers, audience and keys of this process's roles.
func (p *Process) CheckAllowed(strict *policy.Strict, audience string) error {
	for _, r := range p.Roles {
		want := strict.Expected(r.Purpose)
		if !slices.Contains(want.Issuers, r.Issuer) || !slices.Contains(want.Audiences, audience) {
			return refusal.New("key_purpose",
				"the manifest does not allow this process to sign as the issuer %s for the audience %s (purpose: %s)",
				r.Issuer, audience, r.Purpose)
		}
		if !slices.ContainsFunc(want.KeyIDs, func(kid string) bool {
			return evidence.MatchName([]string{evidence.KeyName(kid)}, r.Key.Name())
		}) {
			return refusal.New("not_allowed",
				"the manifest does not allow the key %s, with which this process signs (%s)", r.Key.Name(), r.Purpose)
		}
	}
	return nil
}
