package dispute

import "github.com/actionproof/mediator/evidence/interaction"

// MinPairs is how many questions have to be answered twice in a session until they can decide. A good model errs now and then, and some
// models never answer with the figure alone: so a single question decides nothing, and only most of them do.
const MinPairs = 3

// knowledgeRules find questions that were answered both ways.
type knowledgeRules struct{}

func (knowledgeRules) add(r *Record, c *interaction.Receipt) {
	if c.Model == nil || c.Model.Probe == nil || c.Model.Probe.Answer == "" {
		return
	}
	if p := c.Model.Probe; r.answers[p.ID] == "" {
		r.answers[p.ID] = p.Answer
	}
}

func (knowledgeRules) end(r *Record) (found, doubt string) {
	both, differ := 0, 0
	for _, c := range r.challenges {
		for _, pair := range c.Probes {
			one, other := r.answers[pair[0]], r.answers[pair[1]]
			if one == "" || other == "" {
				continue
			}
			both++
			if one != other {
				differ++
			}
		}
	}
	switch {
	case both < MinPairs:
		return "", ReasonProbesUnanswered
	case 2*differ > both:
		return ReasonProbesDisagree, ""
	case differ > 0:
		return "", ReasonProbesDivided
	}
	return "", ""
}
