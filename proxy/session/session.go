// Package session holds the agents' sessions. Each is one run, opened by one event.
package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/inference/kept"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/trigger"
)

const maxSessions = 4096

// Session is one agent run, opened by exactly one trigger event.
type Session struct {
	ID      string
	Runtime string
	Event   trigger.Event
	Opened  time.Time
	// Agent is the path of the SPIFFE id of the agent's pod; empty unless its connections come from another pod.
	Agent string
	// Learning marks a session that posts nothing and has no event. It never changes.
	Learning bool
	// CAPEM is the certificate of a learning session's own CA.
	CAPEM []byte
	// Run observes the agent's processes; nil if mediator run did not start the agent.
	Run *observe.Run

	// Memory is what MCP servers asked and showed, and whether a human may have answered one.
	Memory mcp.Memory

	// Chain is the session's chain of interaction receipts.
	Chain *receipts.Chain

	// Kept has what providers keep because of the session's calls to models.
	Kept kept.Set

	// Content is the key that hashes blocks of content; it never leaves the process.
	Content [inference.MinKey]byte

	secret [sha256.Size]byte // hash of the proxy password; zero if connections name the session
	life   context.Context   //nolint:containedctx // ends with the session
	end    context.CancelFunc
	// enforcement is [Set.Enforcement].
	enforcement func(*Session) string
	node        *rate.Limiter // see Node

	mu         sync.Mutex    // guards all below
	transcript string        // see Note
	bucket     *rate.Limiter // see Bucket
	refusals   []Refusal     // oldest first
	records    *flood.Quota  // see Records
	unfit      string        // see Unfit
}

// Life returns a context that ends with the session.
func (s *Session) Life() context.Context { return s.life }

// Party names the party that the session's calls count for where something is bounded: the agent's pod, because each
// event gives it a new session while calls of earlier ones go on, or else the session. It is empty for no session.
func (s *Session) Party() string {
	if s == nil {
		return ""
	}
	return cmp.Or(s.Agent, s.ID)
}

// Enforcement returns what keeps the agent from going around the mediator now, as [evidence.Enforcements] names it.
func (s *Session) Enforcement() string { return s.enforcement(s) }

// Note appends one call to the transcript, a hash chain with which a receipt names everything before it.
func (s *Session) Note(entry string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transcript = evidence.HashBytes([]byte(s.transcript + "\n" + entry))
}

// Transcript returns the hash chain over the session's calls so far.
func (s *Session) Transcript() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transcript
}

// Look observes the run now and returns all findings of the session so far.
func (s *Session) Look(ctx context.Context) (look.Report, error) {
	_, err := s.Run.Look(ctx)
	return s.Report(), err
}

// Report returns the findings: about the run, and about what went out.
func (s *Session) Report() look.Report {
	r := s.Run.Report()
	if s.Memory.Prompted() {
		r.Found = append(r.Found, look.Finding{Kind: look.Answer})
	}
	return r
}

// Bucket returns the session's token bucket, full at first use. A change of rate keeps its tokens. Buckets live as long
// as their sessions.
func (s *Session) Bucket(perSecond rate.Limit, burst int, now time.Time) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.bucket == nil:
		s.bucket = rate.NewLimiter(perSecond, burst)
	case s.bucket.Limit() != perSecond || s.bucket.Burst() != burst:
		s.bucket.SetLimitAt(now, perSecond)
		s.bucket.SetBurstAt(now, burst)
	}
	return s.bucket
}

// Records is the quota for records of calls on which nothing depends, such as refusals. The first call makes it.
func (s *Session) Records(first func() *flood.Quota) *flood.Quota {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		s.records = first()
	}
	return s.records
}

// Unfit notes why the session is unfit to learn rules from, unless code is empty, and returns the first code noted, and
// whether it is this one.
func (s *Session) Unfit(code string) (first string, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now = s.unfit == "" && code != ""; now {
		s.unfit = code
	}
	return s.unfit, now
}

// Node is the bucket for requests to the node.
func (s *Session) Node() *rate.Limiter { return s.node }
