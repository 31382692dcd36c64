package dispute

import (
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// MinPairs is the number of repeated questions needed for a decision. Good models err now and then, so one question
// decides nothing, and only a majority does.
const MinPairs = 3

func (r *Record) addKnowledge(c *interaction.Receipt) {
	if c.Model == nil || c.Model.Probe == nil || c.Model.Probe.Answer == "" {
		return
	}
	if p := c.Model.Probe; r.answers[p.ID] == "" {
		r.answers[p.ID] = p.Answer
	}
}

func (r *Record) endKnowledge() (found, doubt string) {
	both, equal := autonomy.Agreement(r.challenges, r.answers)
	differ := both - equal
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
