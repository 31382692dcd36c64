package gate

import (
	"context"
	"errors"
	"net/http"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
)

type (
	verifyRequest struct {
		Envelope  evidence.Envelope `json:"envelope"`
		Binding   evidence.Binding  `json:"binding"`
		Assurance bool              `json:"assurance,omitempty"` // asks for the report
	}
	verifyAnswer struct {
		Capability   string            `json:"capability"`
		CapabilityID string            `json:"capabilityId"`
		BindingHash  string            `json:"bindingHash"`
		ExpiresAt    int64             `json:"expiresAt"`
		Assurance    *policy.Assurance `json:"assurance,omitempty"`
	}
)

// Server has an API's endpoints and middleware. See [NewServer].
type Server struct {
	gate    func() (*Gate, error) // returns the current gate; call it once a request
	consume Consume
}

// NewServer makes an API's part of a gate. consume must be durable and shared by all replicas. See [FromFiles].
func NewServer(g *Gate, consume Consume) (*Server, error) {
	if g == nil || consume == nil {
		return nil, errors.New("gate: a server needs a gate and a Consume function")
	}
	return &Server{gate: func() (*Gate, error) { return g, nil }, consume: consume}, nil
}

// Challenge handles POST: it takes a binding and returns a challenge.
func (s *Server) Challenge() http.Handler {
	return wire.Handle(func(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
		g, err := s.gate()
		if err != nil {
			return challenge.Challenge{}, err
		}
		return g.Challenge(ctx, b)
	})
}

// Verify handles POST: it takes an envelope and a binding, and returns a capability and, with "assurance": true, the
// report on the chain.
func (s *Server) Verify() http.Handler {
	return wire.Handle(func(ctx context.Context, r verifyRequest) (verifyAnswer, error) {
		g, err := s.gate()
		if err != nil {
			return verifyAnswer{}, err
		}
		a, err := g.Admit(ctx, AdmitRequest{Envelope: r.Envelope, Binding: r.Binding})
		if err != nil {
			return verifyAnswer{}, err
		}
		if err := s.consume(ctx, a.Keys...); err != nil { // before the capability leaves
			return verifyAnswer{}, err
		}
		answer := verifyAnswer{Capability: a.Capability, CapabilityID: a.CapabilityID, BindingHash: a.BindingHash,
			ExpiresAt: a.Expires.Unix()}
		if r.Assurance {
			report := a.Assurance(true)
			answer.Assurance = &report
		}
		return answer, nil
	})
}
