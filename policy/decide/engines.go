package decide

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

// maxEngines bounds the engines that are honoured at the same time.
const maxEngines = 8

// Engines are the engine in force and, for as long as their owner lets them, those before it: a post is decided by the
// manifest that its sidecar took it by, also while some sidecars have another manifest than others. The zero value
// refuses every post. It is safe for concurrent use.
type Engines struct {
	mu   sync.RWMutex // guards list
	list []*Engine    // the one in force is the last
}

// Set puts e in force. An engine with the same manifest is replaced. It fails if too many are honoured; then nothing
// has changed.
func (e *Engines) Set(engine *Engine) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(e.list), func(old *Engine) bool {
		return old.manifest() == engine.manifest()
	})
	if len(others) >= maxEngines {
		return errors.New(
			"decide: too many manifests are honoured at the same time; those before are honoured for some minutes")
	}
	e.list = append(others, engine)
	return nil
}

// Retire honours engine no more and reports whether it was. The one in force stays.
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

// Manifests returns the hashes of the manifests that are honoured, the one in force first.
func (e *Engines) Manifests() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]string, 0, len(e.list))
	for _, engine := range slices.Backward(e.list) {
		out = append(out, engine.manifest())
	}
	return out
}

// Decide has the engine decide whose manifest the request names; without one it is refused as deployment_mismatch.
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

// of returns the engine that decides by a manifest.
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
		"the sidecar judges this post by the manifest %.64q, which is not in force in the control plane", hash)
}
