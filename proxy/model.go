package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/inference/failure"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/rules"
)

// settleTimeout bounds how long a call waits until the session's earlier answers are read.
const settleTimeout = time.Second

func beginModel(c *call) conversation {
	ctx, cancel := context.WithTimeout(c.r.Context(), settleTimeout)
	defer cancel()
	c.session.Kept.Settle(ctx)
	measure := c.receipts().Measure(c.r.Context(), c.session.Chain)
	if prompt, ok := c.conversation.(*promptCall); ok { // the call to a model that a prompt became
		prompt.measure = measure
		return prompt
	}
	return &modelCall{plain: plain{c}, measure: measure}
}

type modelCall struct {
	plain
	measure  *inference.Measure // nil for a call without a receipt
	observer *inference.Observer
	api      inference.Dialect
	probe    string // id of the probe in the prompt, or empty
	counted  bool   // counted in its session already
}

func (m *modelCall) refuse(w http.ResponseWriter, d problem.Details, err error) {
	if m.api == "" {
		m.plain.refuse(w, d, err)
		return
	}
	failure.Write(w, m.api, d)
}

func (m *modelCall) choose(among []rules.Rule) (rules.Rule, error) {
	m.api = among[0].Egress.Observe.Dialect
	if m.held == nil {
		return rules.Rule{}, refusal.New("message_malformed", "a request to the model must have a body")
	}
	key := m.session.Content[:]
	request, err := inference.Read(*among[0].Egress.Observe, inference.Call{
		Host: m.record.Host, Path: m.r.URL.EscapedPath(), Body: m.held.Text, Key: key, Kept: &m.session.Kept,
		Measure: m.measure,
	})
	if err != nil {
		return rules.Rule{}, err
	}
	budget := m.p.bodies.Answers(m.session.Party())
	m.observer = inference.Observe(request, m.record.Started, inference.Options{
		Key: key, Now: m.p.o.Now, Go: m.p.follow,
		Take: func(n int) bool { return budget.Take(n) == nil }, Free: budget.Free,
		Measure: m.measure, Sample: m.session.Chain.Wants(m.record.Host, request.Model),
		Ended: func() { m.receipt.Ending() },
	})
	return among[0], nil
}

// sent stores the call as open.
func (m *modelCall) sent(out *http.Request) (*http.Request, error) {
	asked := m.observer.Request()
	receipt := m.receipts().Model(m.session.Chain, receipts.ModelRequest{
		Record: m.record, Ahead: intercept.CameAhead(m.r.Context()), Rule: m.record.Rule, Probe: m.probe,
		Request: asked, Body: m.held.Text,
	})
	asked.Asked = nil // drop it: the answer can take long
	m.receipt = receipt
	// The outcome of the write must be known even if the agent leaves now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.r.Context()), m.p.o.Timeouts.Step)
	defer cancel()
	if err := receipt.Send(ctx); err != nil {
		m.receipt = nil
		return nil, err
	}
	return m.observer.Prepare(out), nil
}

func (m *modelCall) answer(ctx context.Context, resp *http.Response) error {
	m.observer.Begin(resp)
	return m.relay(ctx, resp)
}

// codeClientGone marks a call whose agent left before it had the whole answer.
const codeClientGone = "client_gone"

func (m *modelCall) end(handed time.Time) {
	sent := m.record.State != ledger.StateRefused
	var said inference.Interaction
	if m.observer != nil && (sent || m.receipt != nil) {
		said = m.observer.Interaction()
		if said.Outcome == inference.OutcomeCut && m.record.Code == codeClientGone {
			said.Outcome = inference.OutcomeLeft
		}
		if sent {
			m.record.Model = receipts.ModelRecord(said)
		}
	}
	if !m.counted {
		m.count(true)
	}
	m.receipt.EndModel(m.record.State, said, handed)
}
