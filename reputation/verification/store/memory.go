package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
)

// Memory is a [verification.Store] that ends with its process.
type Memory struct {
	now func() time.Time

	mu       sync.Mutex // guards all below
	sessions map[string]verification.Session
	failures map[string]verification.Failures
	plugins  map[string]verification.Plugin
	agents   map[string]time.Time // since when they are registered
	passed   map[string]verification.Passed
}

// NewMemory makes an empty store.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		now: now, sessions: make(map[string]verification.Session),
		failures: make(map[string]verification.Failures), plugins: make(map[string]verification.Plugin),
		agents: make(map[string]time.Time),
		passed: make(map[string]verification.Passed),
	}
}

var _ verification.Store = (*Memory)(nil)

// Now returns the time.
func (m *Memory) Now(context.Context) (time.Time, error) { return m.now(), nil }

// Open keeps a new session: see [verification.Store].
func (m *Memory) Open(_ context.Context, s verification.Session, perSubject, total int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, mine, all := m.now(), 0, 0
	for _, other := range m.sessions {
		if !other.State.Final() && now.Before(other.Expires()) {
			all++
			if other.Caller.Subject == s.Caller.Subject {
				mine++
			}
		}
	}
	if mine >= perSubject || all >= total {
		return verification.ErrTooMany()
	}
	m.sessions[s.ID] = clone(s)
	return nil
}

// Session returns a session: see [verification.Store].
func (m *Memory) Session(_ context.Context, id string) (verification.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.sessions[id]
	if !ok {
		return verification.Session{}, verification.ErrNotFound
	}
	return clone(s), nil
}

// Sessions returns the sessions that were opened last: see [verification.Store].
func (m *Memory) Sessions(_ context.Context, limit int) (found []verification.Session, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b verification.Session) int { return later(b, a) })
	found = found[:min(len(found), limit)]
	for i, s := range found {
		found[i] = clone(s)
	}
	return found, nil
}

// later compares sessions by when they were opened.
func later(a, b verification.Session) int {
	return cmp.Or(cmp.Compare(a.Opened, b.Opened), cmp.Compare(a.ID, b.ID))
}

// Newest returns a caller's newest session: see [verification.Store].
func (m *Memory) Newest(_ context.Context, by verification.Caller) (verification.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var newest verification.Session
	for _, s := range m.sessions {
		if s.Caller.Is(by) && (newest.ID == "" || later(s, newest) > 0) {
			newest = s
		}
	}
	if newest.ID == "" {
		return verification.Session{}, verification.ErrNotFound
	}
	return clone(newest), nil
}

// Update replaces a session: see [verification.Store].
func (m *Memory) Update(_ context.Context, s verification.Session, e verification.Effects) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept, ok := m.sessions[s.ID]; !ok || kept.Version != s.Version {
		return verification.ErrConflict
	}
	if p := e.Plugin; p != nil {
		if kept, ok := m.plugins[p.DID]; ok && kept.Key != p.Key {
			return verification.ErrTaken(p.DID)
		}
		m.plugins[p.DID] = *p
	}
	for _, id := range e.Agents {
		if _, known := m.agents[id]; !known {
			m.agents[id] = e.At
		}
	}
	if p := e.Passed; p != nil {
		m.passed[p.Subject] = *p
	}
	for _, name := range e.Fail {
		f := m.failures[name]
		m.failures[name] = verification.Failures{Name: name, Count: f.Count + 1, Last: e.At}
	}
	for _, name := range e.Reset {
		delete(m.failures, name)
	}
	s.Version++
	m.sessions[s.ID] = clone(s)
	return nil
}

// Failures returns failures: see [verification.Store].
func (m *Memory) Failures(_ context.Context, names ...string) (found []verification.Failures, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if f, ok := m.failures[name]; ok {
			found = append(found, f)
		}
	}
	return found, nil
}

// Search returns plugins: see [verification.Store].
func (m *Memory) Search(_ context.Context, query string, limit int) (found []verification.Plugin, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.plugins {
		if strings.Contains(searched(p), strings.ToLower(query)) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b verification.Plugin) int {
		return cmp.Or(cmp.Compare(a.Metadata.Name, b.Metadata.Name), cmp.Compare(a.DID, b.DID))
	})
	return found[:min(len(found), limit)], nil
}

// Plugin returns a plugin: see [verification.Store].
func (m *Memory) Plugin(_ context.Context, did string) (verification.Plugin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.plugins[did]
	if !ok {
		return verification.Plugin{}, verification.ErrNotFound
	}
	return p, nil
}

// Registered returns since when an agent is registered: see [verification.Store].
func (m *Memory) Registered(_ context.Context, agent string) (since time.Time, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok = m.agents[agent]
	return since, ok, nil
}

// Passed returns what a caller has passed: see [verification.Store].
func (m *Memory) Passed(_ context.Context, subject string) (verification.Passed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.passed[subject]
	if !ok {
		return verification.Passed{}, verification.ErrNotFound
	}
	return p, nil
}

// Prune removes what is old: see [verification.Store].
func (m *Memory) Prune(_ context.Context, sessions, failures, passed time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.sessions {
		if time.UnixMilli(s.Opened).Before(sessions) {
			delete(m.sessions, id)
		}
	}
	for name, f := range m.failures {
		if f.Last.Before(failures) {
			delete(m.failures, name)
		}
	}
	for subject, p := range m.passed {
		if p.At.Before(passed) {
			delete(m.passed, subject)
		}
	}
	return nil
}

// clone returns a copy that shares nothing with s.
func clone(s verification.Session) verification.Session {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a session is plain data
	}
	var c verification.Session
	if err := json.Unmarshal(raw, &c); err != nil {
		panic(err)
	}
	return c
}

// searched is the text of a plugin in which searches look.
func searched(p verification.Plugin) string {
	return strings.ToLower(strings.Join([]string{p.Metadata.Name, p.Metadata.Description, p.DID}, "\n"))
}
