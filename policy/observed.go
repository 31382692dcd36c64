package policy

import (
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
)

// What observations add to the manifest's declaration of a control.
const (
	ObservedTrue  = "observed true"  // all observations agree with it
	ObservedFalse = "observed false" // an observation contradicts it
	DeclaredOnly  = "only declared"
)

// ObservedControl compares a declared control with observations.
type ObservedControl struct {
	Control  string   `json:"control"`
	Declared bool     `json:"declared"` // by the manifest
	State    string   `json:"state"`
	Evidence []string `json:"evidence"`          // a sentence for each observation
	Against  string   `json:"against,omitempty"` // the one that contradicts
}

// certified is the control that an observation against any role's key contradicts: the key's certificate is then wrong.
const certified = "signerCustodyCertificatesRequired"

func refuted(seen []look.Observation) []string {
	var out []string
	for _, l := range seen {
		if l.Purpose != "" && l.Result == look.Contradicts && !slices.Contains(out, l.Seen) {
			out = append(out, l.Seen)
		}
	}
	return out
}

// Observe compares each control with the processes' observations, in the manifest's order. Confirming a control takes
// every observation from every process; one contradiction refutes it.
func (m *Manifest) Observe(seen []look.Observation) []ObservedControl {
	var out []ObservedControl
	for _, c := range controls {
		o := ObservedControl{Control: c.name, Declared: c.got(&m.Controls), State: DeclaredOnly}
		var result look.Result
		result, o.Evidence, o.Against = judge(c.seen, c.doubts, seen)
		if refuted := refuted(seen); c.name == certified && len(refuted) > 0 {
			result, o.Evidence, o.Against = look.Contradicts, append(o.Evidence, refuted...), refuted[0]
		}
		// All observations together confirm the strict value. One confirms the other value.
		switch value := c.want == (result == look.Holds); {
		case result == look.NotObserved:
		case value == o.Declared:
			o.State = ObservedTrue
		default:
			o.State = ObservedFalse
		}
		out = append(out, o)
	}
	return out
}

// judge combines the observations with these ids, and their sentences. Those in doubts can only contradict.
func judge(ids, doubts []string, seen []look.Observation) (result look.Result, evidence []string, against string) {
	evidence = []string{}
	holds := len(ids) > 0
	for i, id := range slices.Concat(ids, doubts) {
		found := i >= len(ids)
		for _, l := range seen {
			if l.ID() != id {
				continue
			}
			found = true
			evidence = append(evidence, l.Seen)
			holds = holds && (i >= len(ids) || l.Result == look.Holds)
			if l.Result == look.Contradicts {
				result, against = look.Contradicts, l.Seen
			}
		}
		holds = holds && found
	}
	if holds {
		result = look.Holds
	}
	return result, evidence, against
}

// OutOfReach judges whether the agent cannot reach a role's key.
func OutOfReach(purpose string, seen []look.Observation) (result look.Result, against string) {
	result, _, against = judge(keyObservations(purpose), nil, seen)
	return result, against
}

// Apart judges whether the holder of a role's key can use no other key.
func Apart(purpose string, seen []look.Observation) (result look.Result, against string) {
	result, _, against = judge([]string{look.Apart + ":" + purpose}, nil, seen)
	return result, against
}

// Contradicted refuses a deployment if an observation contradicts its manifest.
func Contradicted(controls []ObservedControl) error {
	for _, c := range controls {
		if c.State == ObservedFalse {
			return refusal.New("deployment_contradicted",
				"the manifest sets %s to %t, but an observation contradicts that (%s); run mediator doctor to "+
					"see all observations", c.Control, c.Declared, c.Against)
		}
	}
	return nil
}
