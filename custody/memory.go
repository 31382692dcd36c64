package custody

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/look"
)

// Memory is a key in this process's memory that is never written out.
type Memory struct {
	name string

	mu       sync.RWMutex // guards versions
	versions []Version
}

var _ Key = (*Memory)(nil)

// NewMemory makes a key with one version.
func NewMemory(name string) (*Memory, error) {
	m := &Memory{name: name}
	return m, m.Rotate()
}

// Rotate adds a version, which signs from now on.
func (m *Memory) Rotate() error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("custody: make key %s: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.versions) + 1
	m.versions = append(m.versions,
		NewVersion(m.name, n, public, func(_ context.Context, message []byte) ([]byte, error) {
			return ed25519.Sign(private, message), nil
		}).MadeAt(time.Now()))
	return nil
}

func (m *Memory) Name() string { return m.name }

func (m *Memory) Current(context.Context) (Version, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.versions[len(m.versions)-1], nil
}

func (m *Memory) Versions(context.Context) ([]Version, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.versions), nil
}

// Properties are true by construction: no function hands out the key.
func (m *Memory) Properties() Properties {
	return Properties{Custody: ExternalMediator, Exportable: false, Observed: []string{"keyExportable"}}
}

// Observe reports what is true by construction.
func (m *Memory) Observe(context.Context, time.Duration) []look.Observation {
	return []look.Observation{
		look.New(look.Custody, look.Holds,
			"The key "+m.name+" was made in this process's memory, and nothing hands it out."),
		look.New(look.Apart, look.Holds, "The key "+m.name+" is a key of its own, for one kind of artifact."),
	}
}
