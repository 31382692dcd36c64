package autonomy

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Scorer makes a score of the receipts of a session, which are a whole chain: from 0 to 100, with a lower bound of it, and with its parts by
// their names. It believes the models behind these hosts and no others.
type Scorer func(receipts []interaction.Receipt, challenges []Challenge, believedHosts []string) (score, lower float64, parts map[string]float64)

// Believed is the group [Fake] as a verifier sees it who believes its hosts.
const Believed = Fake + ", believed"

// Scored is a session with its score.
type Scored struct {
	Session
	Score, Lower float64
	Parts        map[string]float64
}

// Score scores sessions. Those of the group [Fake] it scores twice, the second time as [Believed].
func Score(all []Session, by Scorer) ([]Scored, error) {
	var out []Scored
	for _, s := range all {
		scored, err := scoreOne(s, by, BelievedHosts)
		if err != nil {
			return nil, err
		}
		if out = append(out, scored); s.Group != Fake {
			continue
		}
		s.Group = Believed
		if scored, err = scoreOne(s, by, append(slices.Clone(BelievedHosts), FakeHosts...)); err != nil {
			return nil, err
		}
		out = append(out, scored)
	}
	return out, nil
}

func scoreOne(s Session, by Scorer, believed []string) (Scored, error) {
	score, lower, parts := by(s.Receipts, slices.Clone(s.Challenges), believed)
	for _, n := range []float64{score, lower} {
		if !(n >= 0 && n <= 100) { // nor a number that is none
			return Scored{}, fmt.Errorf("autonomy: the score of %s (%s) is %v, and its lower bound %v: both have to be from 0 to 100", s.ID, s.Kind, score, lower)
		}
	}
	return Scored{s, score, lower, parts}, nil
}

// groupsOf returns the groups in the order in which they are shown.
func groupsOf() []string {
	at := slices.Index(Groups, Fake) + 1
	return slices.Insert(slices.Clone(Groups), at, Believed)
}

// partsOf returns the names of all parts.
func partsOf(all []Scored) (names []string) {
	for _, s := range all {
		for name := range s.Parts {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// values returns a number of each session of a group, and of a kind unless that is empty. A session without it is left out.
func values(all []Scored, group, kind string, of func(Scored) (float64, bool)) (out []float64) {
	for _, s := range all {
		if s.Group != group || kind != "" && s.Kind != kind {
			continue
		}
		if v, ok := of(s); ok {
			out = append(out, v)
		}
	}
	return out
}

func scoreOf(s Scored) (float64, bool) { return s.Score, true }
func lowerOf(s Scored) (float64, bool) { return s.Lower, true }

func partOf(name string) func(Scored) (float64, bool) {
	return func(s Scored) (float64, bool) {
		v, ok := s.Parts[name]
		return v, ok
	}
}
