package verification

import (
	"errors"
	"slices"
)

// ModelCalls says how many calls to models the agent's sidecar has seen end with a whole answer between the turns. It says neither what they were
// about nor that a turn came of one: an agent can make calls for nothing.
type ModelCalls struct {
	// Basis is observed, or not_measured where no sidecar named the caller, or where turns have overtaken each other.
	Basis string `json:"basis"`
	// BeforeTurn has a count for each turn: since the turn before, or since the verification was asked for.
	BeforeTurn []int64 `json:"beforeTurn,omitempty"`
}

// BasisNotMeasured says that nothing is known.
const BasisNotMeasured = "not_measured"

// modelCalls compares what the sidecar said when it named the caller of each turn.
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
		return errors.New("modelCalls are neither not_measured nor one count for each turn of a caller that a sidecar named")
	}
	if slices.Min(m.BeforeTurn) < 0 { // there are turns: see checkResult
		return errors.New("modelCalls has what is no count")
	}
	return nil
}
