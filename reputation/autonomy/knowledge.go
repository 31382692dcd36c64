package autonomy

import "slices"

func (v *view) domains(of *partOf) measure {
	left := make([]bool, len(v.s.domains))
	hosts, tools := 0.0, 0.0
	for _, t := range v.s.touches {
		if t.call >= v.from && t.call < v.to || left[t.domain] {
			continue
		}
		left[t.domain] = true
		if v.s.domains[t.domain].tool {
			tools++
		} else {
			hosts++
		}
	}
	m := measure{n: int64(v.len()), value: hosts + tools, points: of.Points * min(1, (hosts+tools)/of.Full)}
	if hosts < of.Full && tools > 0 {
		m.state = declared
	}
	return m
}

// sorted returns a sorted copy of names, never nil.
func sorted(names []string) []string {
	out := append([]string{}, names...)
	slices.Sort(out)
	return out
}

// Agreement counts the pairs of probes with two answers, and returns the answers on which both agree.
func Agreement(challenges []Challenge, answers map[string]string) (both int64, equal []string) {
	for _, c := range challenges {
		for _, pair := range c.Probes {
			one, other := answers[pair[0]], answers[pair[1]]
			if one == "" || other == "" {
				continue
			}
			both++
			if one == other {
				equal = append(equal, one)
			}
		}
	}
	return both, equal
}

// agreement is the share of repeated questions that a model answered the same way. An answer to several questions
// counts once: one sentence that is said to all of them shows nothing.
func (s *Session) agreement(challenges []Challenge) (m measure) {
	both, equal := Agreement(challenges, s.answers)
	slices.Sort(equal)
	if m.n = both; both > 0 {
		m.value = float64(len(slices.Compact(equal))) / float64(both)
	}
	return m
}

func (v *view) agreement(of *partOf) measure {
	m := v.answers
	m.points = of.Points * m.value
	return m
}

// superhuman counts the stretches of answers that were followed by the next request faster than a person can read.
func (v *view) superhuman(of *partOf) (m measure) {
	words, ms := 0.0, 0.0
	v.each(func(_ int, c *call) {
		if !c.read.measured() {
			return
		}
		words += c.read.value
		ms += c.gap.value
		if words < of.Words {
			return
		}
		m.n++
		if words*60000 > of.WordsPerMinute*ms {
			m.value++
		}
		words, ms = 0, 0
	})
	m.points = of.Points * min(1, m.value/of.Full)
	return m
}
