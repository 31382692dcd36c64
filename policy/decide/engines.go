package decide

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

const maxEngines = 8

// Engines hold the current engine and earlier ones until their owner retires them. A post is decided by the manifest
// that its sidecar took it by, even while sidecars have different manifests. The zero value refuses every post. It is
// safe for concurrent use.
type Engines struct {
	mu   sync.RWMutex // guards list
	list []*Engine    // the current one is last
}

// Set makes engine the current one. It replaces an engine with the same manifest. It fails, and changes nothing, if
// there are too many.
func (e *Engines) Set(engine *Engine) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(e.list), func(old *Engine) bool {
		return old.manifest() == engine.manifest()
	})
	if len(others) >= maxEngines {
		return errors.New("decide: too many manifests at the same time; earlier ones expire after some minutes")
	}
	e.list = append(others, engine)
	return nil
}

// Retire removes an engine, unless it is the current one, and reports whether it did.
func (e *Engines) Retire(engine *Engine) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.list, engine)
	if i < 0 || i == len(e.list)-1 {
		return false
	}
	e.list = slices.Delete(slices.Clone(e.list), i, i+1)
	return true
}

// Manifests returns the hashes of the accepted manifests, the current one first.
func (e *Engines) Manifests() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]string, 0, len(e.list))
	for _, engine := range slices.Backward(e.list) {
		out = append(out, engine.manifest())
	}
	return out
}

// Decide decides with the engine whose manifest the request names. Without one it refuses (deployment_mismatch).
func (e *Engines) Decide(ctx context.Context, r policy.Request) (policy.Decision, error) {
	engine, err := e.of(r.ManifestHash)
	if err != nil {
		return policy.Decision{}, err
	}
	return engine.Decide(ctx, r)
}

// Accepts returns the key versions that the engine of a manifest accepts now.
func (e *Engines) Accepts(_ context.Context, r policy.AcceptsRequest) (policy.Accepted, error) {
	engine, err := e.of(r.ManifestHash)
	if err != nil {
		return policy.Accepted{}, err
	}
	return engine.strict.AcceptedBy(engine.verifier), nil
}

func (e *Engines) of(manifest string) (*Engine, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, engine := range e.list {
		if engine.manifest() == manifest {
			return engine, nil
		}
	}
	return nil, otherManifest(manifest)
}

func otherManifest(hash string) error {
	return refusal.New("deployment_mismatch",
		"the sidecar judges this post by the manifest %.64q, which the control plane does not use", hash)
}
