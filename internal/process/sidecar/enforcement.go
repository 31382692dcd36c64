package sidecar

import (
	"crypto/tls"
	"net"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/session"
)

// listenAgents opens the listener for agents' pods. It returns nil if there are none.
func (p *sidecar) listenAgents() (net.Listener, error) {
	e := p.config.Agents
	if e == nil {
		return nil, nil
	}
	l, err := net.Listen("tcp", e.TCP)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, p.Identity.Config()), nil
}

// agentOf names the pod at the other end of a connection by its certificate, which must be valid now: a connection can
// outlive it. A connection without TLS comes from this pod, and has no name.
func (p *sidecar) agentOf(c net.Conn) (string, error) {
	over, ok := c.(*tls.Conn)
	if !ok {
		return "", nil
	}
	state := over.ConnectionState()
	id, err := p.Identity.Peer(&state)
	switch {
	case err != nil:
		return "", refusal.New("caller_unknown", "the certificate of the agent's pod is no longer valid: %w", err)
	case !p.config.Agents.Admits(id):
		return "", refusal.New("caller_unknown", "%s is not listed in agents.callers", id)
	}
	return id.Path(), nil
}

// enforcement says what keeps the agent of a session from going around this process now.
func (p *sidecar) enforcement(s *session.Session) string {
	switch {
	case s.Run.Isolated():
		return evidence.EnforcedIsolated
	case s.Agent != "":
		return evidence.EnforcedPod
	case p.guard == nil:
		return evidence.EnforcedNone
	}
	return p.enforced().Mode
}

// enforced says what keeps agents without an isolated run from going around this process now.
func (p *sidecar) enforced() admin.Enforcement {
	switch {
	case p.guard != nil:
		if err := p.guard.check(); err != nil {
			return admin.Enforcement{Mode: evidence.EnforcedNone, Missing: true, Seen: err.Error()}
		}
		return admin.Enforcement{Mode: evidence.EnforcedGuard, Observed: true,
			Seen: "the kernel refuses what other users send past this process"}
	case p.config.Agents != nil:
		return admin.Enforcement{Mode: evidence.EnforcedPod,
			Seen: "certificates name the agents' pods; this process cannot see whether NetworkPolicies leave them " +
				"another way"}
	}
	return admin.Enforcement{Mode: evidence.EnforcedNone,
		Seen: "proxy variables alone lead to this process, except in runs that mediator run isolates"}
}
