package verification

import (
	"errors"
	"slices"
)

// ModelCalls counts the model calls with a whole answer that the agent's sidecar saw between the turns. It does not
// show that a turn came of one: an agent can make calls for nothing.
type ModelCalls struct {
	// Basis is observed, or not_measured without a sidecar or if turns overtook each other.
	Basis string `json:"basis"`
	// BeforeTurn counts, for each turn, the calls since the turn before, or since the start.
	BeforeTurn []int64 `json:"beforeTurn,omitempty"`
}

// BasisNotMeasured says that nothing is known.
const BasisNotMeasured = "not_measured"

func (s *Session) modelCalls() ModelCalls {
	out, before := ModelCalls{Basis: BasisObserved}, s.Caller.ModelCalls
	for _, t := range s.Turns {
		if s.Caller.Session == "" || t.ModelCalls < before {
			return ModelCalls{Basis: BasisNotMeasured}
		}
		out.BeforeTurn = append(out.BeforeTurn, t.ModelCalls-before)
		before = t.ModelCalls
	}
	return out
}

func (r *Result) checkModelCalls() error {
	m := r.ModelCalls
	if m.Basis == BasisNotMeasured && m.BeforeTurn == nil {
		return nil
	}
	if m.Basis != BasisObserved || r.SubjectBasis != BasisObserved || int64(len(m.BeforeTurn)) != r.Turns {
		return errors.New("modelCalls are neither not_measured nor one count for each turn of a caller named by a sidecar")
	}
	if slices.Min(m.BeforeTurn) < 0 { // there are turns: see checkResult
		return errors.New("modelCalls has a negative count")
	}
	return nil
}
