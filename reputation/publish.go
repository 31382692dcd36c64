package reputation

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

// Signal is a signal and its state.
type Signal struct {
	Number int64           `json:"number"`
	Status string          `json:"status"` // provisional, or final after its window
	Signal json.RawMessage `json:"signal"` // with its signature
	Entry  json.RawMessage `json:"entry"`
}

// Statuses of signals.
const (
	StatusProvisional = "provisional"
	StatusFinal       = "final"
)

// Publish publishes a signal. Publishing the same signal again is allowed.
func (s *Service) Publish(ctx context.Context, from Spoken) (Signal, error) {
	id, err := s.publish(ctx, from)
	if err != nil {
		return Signal{}, s.refused(from, err)
	}
	return s.Signal(ctx, id)
}

func (s *Service) publish(ctx context.Context, from Spoken) (id string, err error) {
	if s.o.Disputes == nil {
		return "", errOff
	}
	signal, err := dispute.ParseSignal(from.Document)
	if err != nil {
		return "", err
	}
	author, document, err := s.said(from, interaction.StatesSignal, signal)
	if err != nil {
		return "", err
	}
	p := dispute.Publication{Signal: signal}
	if p.By, err = s.by(ctx, author); err != nil {
		return "", err
	}
	if err := s.look(ctx, author, &p); err != nil {
		return "", err
	}
	return signal.SignalID, s.step(ctx, func(book *dispute.Book, now time.Time) error {
		e, err := book.Publish(s.o.Disputes.Rules, p, now)
		if err != nil || e == nil {
			return err
		}
		n := &store.Signal{ID: signal.SignalID, Agent: signal.AgentID, Document: document}
		err = s.proceed(ctx, book, *e, store.Step{Signal: n})
		if errors.Is(err, store.ErrDuplicate) {
			return refusal.New("id_taken", "another signal had the id %s", signal.SignalID) // forgotten by the book
		}
		return err
	})
}

// by describes an author. One without a sidecar must be registered; otherwise anyone could make unlimited agents.
func (s *Service) by(ctx context.Context, agent accrual.Agent) (by dispute.By, err error) {
	since, ok, err := s.o.Disputes.Registered(ctx, agent)
	if err != nil {
		return by, err
	}
	switch {
	case ok:
		by.Registered = since
	case agent.Owner == "":
		return by, refusal.New("dispute_refused", "the agent %.80s has no owner and has passed no verification lately", agent)
	}
	return by, nil
}

func (s *Service) look(ctx context.Context, author accrual.Agent, p *dispute.Publication) error {
	on := p.Signal.RestsOn
	if on == nil || len(on.Receipts) == 0 {
		return nil
	}
	held, err := s.held(ctx, on.Receipts)
	if err != nil {
		return err
	}
	hosts := s.believed.Load().hosts
	p.Observed = len(held) == len(on.Receipts)
	for _, r := range held {
		if r.agent() != author {
			p.Observed, p.Cites = false, append(p.Cites, r.agent().String())
			continue
		}
		if r.forked {
			p.Observed = false
			continue
		}
		answered := r.Outcome == interaction.OutcomeCompleted || r.Outcome == interaction.OutcomeUnfinished
		p.Sources = p.Sources || r.Model != nil && answered && slices.Contains(hosts, r.Model.Host)
	}
	return nil
}

// Signal returns a signal by id.
func (s *Service) Signal(ctx context.Context, id string) (Signal, error) {
	n, err := s.o.Store.Signal(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Signal{}, refusal.New("not_found", "there is no signal %.128q", id)
	}
	if err != nil {
		return Signal{}, err
	}
	return signalOf(n)
}

func signalOf(n store.Signal) (Signal, error) {
	status := StatusProvisional
	if n.Final {
		status = StatusFinal
	}
	return Signal{Number: n.Number, Status: status, Signal: json.RawMessage(n.Document), Entry: json.RawMessage(n.Step)},
		nil
}
