package proxy

import (
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
)

// kindModel is the kind of an endpoint of a model API whose calls are observed.
const kindModel = "model"

// modelJudge reads calls to models.
type modelJudge struct {
	p   *Pipeline
	run func(read func()) // see [inference.Options]
}

func (j modelJudge) read(c *call, rules []rule) (rule, error) {
	if c.held == nil {
		return rule{}, refusal.New("model_request_malformed", "the request to the model: it has no body")
	}
	measure := j.p.o.Receipts.Measure(c.r.Context(), c.session.Chain)
	request, err := inference.ReadMeasured(*rules[0].egress.Observe, c.held.Text, c.session.Content[:], measure)
	if err != nil {
		return rule{}, err
	}
	budget := j.p.bodies.Answers()
	c.model = inference.Observe(request, c.record.Started, inference.Options{
		Key: c.session.Content[:], Now: j.p.o.Now, Go: j.run,
		Take: func(n int) bool { return budget.Take(n) == nil }, Free: budget.Free,
		Measure: measure, Sample: j.p.o.Receipts.Wants(c.session.Chain, c.record.Host, request.Model), Ended: func() { c.receipt.Ending() },
	})
	c.asked = request
	return rules[0], nil
}
