package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/rules"
)

// generateTimeout bounds a model call for a prompt, from start to end of answer.
const generateTimeout = 10 * time.Minute

// promptCall is the model call made from an agent's prompt. From step 2 on it is like any other call.
type promptCall struct {
	modelCall
	generate generate.Call
	cancel   context.CancelFunc
	budget   *body.Share
}

func isPrompt(c *call) bool {
	return c.target.Host == InternalHost && c.r.Method == http.MethodPost && c.r.URL.Path == generate.Path
}

// prompt turns the agent's call into a model call.
func (c *call) prompt() error {
	c.record.Flow = flowInternal
	held, err := c.readBody(generate.MaxRequest, rules.ContentJSON)
	if err != nil {
		c.closeAfter()
		return err
	}
	defer held.Close()
	asked, err := generate.Read(held.Text)
	if err != nil {
		return err
	}
	if asked.Probe != "" {
		prompt, err := c.session.Chain.Probe(asked.Probe)
		if err != nil {
			return err
		}
		asked.Put(prompt)
	}
	model, err := c.p.o.Rules.Model(asked.Model)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), generateTimeout)
	request, err := model.Request(ctx, asked, c.r)
	if err != nil {
		cancel()
		return err
	}
	m := &promptCall{modelCall: modelCall{plain: plain{c}, probe: asked.Probe}, cancel: cancel}
	m.budget = c.p.bodies.Answers(c.session.Party())
	m.generate = generate.Call{
		Record: c.record.ID, Key: c.session.Content[:], Take: m.budget.Take, Receipt: m.made,
	}
	if m.probe != "" {
		m.generate.Said = func(text string) { c.receipt.Answered(text) }
	}
	c.conversation, c.r = m, request
	c.route(model.Target)
	c.record.Flow, c.record.Message = flowEgress, "generate"
	return nil
}

func (m *promptCall) answer(ctx context.Context, resp *http.Response) error {
	m.observer.Begin(resp)
	if err := m.generate.Answer(resp, m.observer.Request()); err != nil {
		return err
	}
	return m.relay(ctx, resp)
}

func (m *promptCall) made() (*generate.Receipt, error) {
	if m.receipt == nil {
		return nil, nil
	}
	m.count(true)
	m.counted = true
	// The answer carries the receipt, which therefore cannot tell when the agent had it.
	m.receipt.EndModel(m.record.State, m.observer.Interaction(), time.Time{})
	ctx, cancel := context.WithTimeout(m.r.Context(), m.p.o.Timeouts.Step)
	defer cancel()
	token, err := m.receipt.Receipt(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := evidence.UnverifiedClaims(interaction.Kind, token) // this sidecar has just signed it
	if err != nil {
		return nil, err
	}
	return &generate.Receipt{
		Token: token, Hash: evidence.HashToken(token),
		Timing: claims.Timing, Chain: claims.Chain, Challenge: claims.Challenge,
	}, nil
}

func (m *promptCall) refuse(w http.ResponseWriter, d problem.Details, err error) {
	var failed *generate.Failure
	if errors.As(err, &failed) {
		d.Upstream = failed.Document()
	}
	m.plain.refuse(w, d, err)
}

func (m *promptCall) end(handed time.Time) {
	m.modelCall.end(handed)
	m.cancel()
	m.budget.Free()
}
