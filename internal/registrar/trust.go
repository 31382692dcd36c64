package registrar

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/actionproof/mediator/evidence"
)

// Trust is what a process needs to verify the others: the trust bundle with its deployment's certificate, and the
// manifest of the deployment, both as files.
type Trust struct {
	State    string `json:"state"` // identifies the content
	Bundle   string `json:"bundle"`
	Manifest string `json:"manifest"`

	json string // empty if it is to be made
}

// JSON returns the trust in JSON.
func (t Trust) JSON() string {
	if t.json == "" {
		raw, _ := json.Marshal(t) // texts never fail
		t.json = string(raw)
	}
	return t.json
}

type delivered struct {
	version string
	rules   *Rules
	trusts  map[string]Trust // by the hash of the manifest
	over    chan struct{}    // closed once there is another
}

// TrustOf returns the trust of a caller that a rule allows, and a channel that is closed once it may have changed.
func (r *Registrar) TrustOf(c Caller) (Trust, <-chan struct{}, error) {
	a, err := r.current()
	if err != nil {
		return Trust{}, nil, err
	}
	rule, err := a.rules.For(c)
	if err != nil {
		return Trust{}, nil, err
	}
	d := r.delivered.Load()
	return d.trusts[rule.DeploymentHash], d.over, nil
}

// Refresh makes TrustOf return what rules and store say now. Call it after each change of them, also by other replicas.
func (r *Registrar) Refresh(ctx context.Context) error {
	r.refresh.Lock() // another refresh may have read an older state
	defer r.refresh.Unlock()
	a, old := r.active.Load(), r.delivered.Load()
	if a == nil {
		return nil
	}
	version, err := r.o.Store.Version(ctx)
	if err != nil || old.version == version && old.rules == a.rules {
		return err
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	raw, err := r.o.Store.Read(ctx, BundleFile)
	if err != nil {
		return err
	}
	b, err := evidence.ParseBundle(raw)
	if err != nil {
		return err
	}
	kept, err := r.o.Store.Read(ctx, deploymentsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	signed, err := parseDeployments(kept)
	if err != nil {
		return err
	}
	next := &delivered{version: version, rules: a.rules, trusts: make(map[string]Trust), over: make(chan struct{})}
	for hash, d := range a.rules.deployments {
		if b.DeploymentCertificate = d.certificate; until(signed[hash]) > until(d.certificate) {
			b.DeploymentCertificate = signed[hash]
		}
		text, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			return err
		}
		t := Trust{State: evidence.HashBytes([]byte(string(text) + d.text)), Bundle: string(text), Manifest: d.text}
		t.json = t.JSON()
		next.trusts[hash] = t
	}
	r.delivered.Store(next)
	close(old.over)
	return nil
}

func until(token string) int64 {
	c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token)
	if err != nil {
		return 0
	}
	return c.Expires
}
