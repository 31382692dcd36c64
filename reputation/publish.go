package reputation

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

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

const (
	StatusProvisional = "provisional"
	StatusFinal       = "final"
)

// Publish publishes a signal. Publishing the same signal again is allowed.
func (s *Service) Publish(ctx context.Context, from Spoken) (answer Signal, err error) {
	defer s.refuses(from, &err)
	if s.o.Disputes == nil {
		return answer, errOff
	}
	signal, err := dispute.ParseSignal(from.Document)
	if err != nil {
		return answer, err
	}
	author, document, err := s.said(from, interaction.StatesSignal, signal)
	if err != nil {
		return answer, err
	}
	p := dispute.Publication{Signal: signal}
	if p.By, err = s.by(ctx, author); err != nil {
		return answer, err
	}
	if err := s.look(ctx, author, &p); err != nil {
		return answer, err
	}
	err = s.step(ctx, func(t *turn) error {
		e, err := t.Publish(s.o.Disputes.Rules, p, t.now)
		if err != nil || e == nil {
			return err
		}
		next, err := t.Next(*e)
		if err != nil {
			return err
		}
		// Reading this again would double the work of the node and its database.
		answer = Signal{next.Log.Entries, StatusProvisional, json.RawMessage(document), next.Text}
		return t.Take(next, store.Document{ID: signalDocument + signal.SignalID, Text: document})
	}, dispute.RowsOf(signal.SignalID, "", signal.AgentID)...)
	if err != nil {
		return Signal{}, err
	}
	if answer.Number == 0 { // it had been published before
		return s.Signal(ctx, signal.SignalID)
	}
	return answer, nil
}

// Kinds of documents, the first parts of their ids.
const (
	signalDocument     = "signal/"
	filingDocument     = "filing/"
	appealDocument     = "appeal/"
	resolutionDocument = "resolution/"
)

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
func (s *Service) Signal(ctx context.Context, id string) (answer Signal, err error) {
	book, err := s.openBook(ctx)
	if err != nil {
		return answer, err
	}
	state, ok := book.Signal(id)
	if !ok {
		return answer, cmp.Or(book.Err(), error(refusal.New("not_found", "there is no signal %.128q", id)))
	}
	answer = Signal{Number: state.Number, Status: StatusProvisional}
	if state.Final {
		answer.Status = StatusFinal
	}
	if answer.Signal, err = s.document(ctx, signalDocument+id); err != nil {
		return answer, err
	}
	answer.Entry, err = s.entry(ctx, state.Number)
	return answer, err
}

func (s *Service) document(ctx context.Context, id string) (json.RawMessage, error) {
	text, err := s.o.Store.Document(ctx, id)
	return json.RawMessage(text), err
}

func (s *Service) entry(ctx context.Context, number int64) (json.RawMessage, error) {
	texts, err := s.o.Store.Steps(ctx, number, 1)
	return json.RawMessage(strings.Join(texts, "")), err
}
