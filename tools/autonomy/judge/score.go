package main

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/tools/autonomy"
)

// Scorer makes a score of a session: from 0 to 100, with a lower bound of it, and with its parts by their names. It
// believes the models behind these hosts and no others.
type Scorer func(s autonomy.Session, believedHosts []string) (score, lower float64, parts map[string]part)

// believed is the group [autonomy.Fake] as a verifier sees it who believes its hosts.
const (
	believed    = autonomy.Fake + andBelieved
	andBelieved = ", believed"
)

// part is what a score says of one of its parts.
type part struct {
	points   float64 // 0 if it was not measured
	measured bool
}

// scored is a session with its score.
type scored struct {
	autonomy.Session
	score, lower float64
	parts        map[string]part
}

// score scores sessions. Those of the group [autonomy.Fake] it scores twice, the second time as believed.
func score(all []autonomy.Session, by Scorer) ([]scored, error) {
	var out []scored
	for _, s := range all {
		result, err := scoreOne(s, by, slices.Clone(autonomy.BelievedHosts))
		if err != nil {
			return nil, err
		}
		if out = append(out, result); s.Group != autonomy.Fake {
			continue
		}
		s.Group = believed
		if result, err = scoreOne(s, by, append(slices.Clone(autonomy.BelievedHosts), autonomy.FakeHosts...)); err != nil {
			return nil, err
		}
		out = append(out, result)
	}
	return out, nil
}

func scoreOne(s autonomy.Session, by Scorer, hosts []string) (scored, error) {
	score, lower, parts := by(s, hosts)
	for _, n := range []float64{score, lower} {
		if !(n >= 0 && n <= 100) { // nor a number that is none
			return scored{},
				fmt.Errorf("judge: the score of %s (%s) is %v, and its lower bound %v: both have to be from 0 to 100", s.ID, s.Kind,
					score, lower)
		}
	}
	return scored{s, score, lower, parts}, nil
}

// groups returns the groups in the order in which they are shown.
func groups() []string {
	at := slices.Index(autonomy.Groups, autonomy.Fake) + 1
	return slices.Insert(slices.Clone(autonomy.Groups), at, believed)
}

// values returns a number of each session of a group. It leaves out a session without one.
func values(all []scored, group string, of func(scored) (float64, bool)) (out []float64) {
	for _, s := range all {
		if s.Group != group {
			continue
		}
		if v, ok := of(s); ok {
			out = append(out, v)
		}
	}
	return out
}

func scoreOf(s scored) (float64, bool) { return s.score, true }

// pointsOf returns the points of a part.
func pointsOf(name string) func(scored) (float64, bool) {
	return func(s scored) (float64, bool) {
		p, ok := s.parts[name]
		return p.points, ok
	}
}

// measuredOf returns 1 if a part was measured, else 0.
func measuredOf(name string) func(scored) (float64, bool) {
	return func(s scored) (float64, bool) {
		p, ok := s.parts[name]
		return float64(one(p.measured)), ok
	}
}
