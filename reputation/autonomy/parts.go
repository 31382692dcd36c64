package autonomy

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// view is the answered calls of a session without those from index from up to to.
type view struct {
	s        *Session
	from, to int  // left out
	leaveOut bool // half of each minimum suffices
	baseline lookup
	answers  measure   // of the agreement of the whole session
	issued   outcome   // of its challenges
	span     float64   // from the first call to the last, in milliseconds
	x, y     []float64 // scratch
}

// each calls f with each call of the view and its index in the session.
func (v *view) each(f func(i int, c *call)) {
	for i := range v.s.calls {
		if i < v.from || i >= v.to {
			f(i, &v.s.calls[i])
		}
	}
}

func (v *view) len() int { return len(v.s.calls) - (v.to - v.from) }

// enough reports whether n inputs suffice for a part that needs least.
func (v *view) enough(n, least int64) bool {
	if v.leaveOut {
		n *= 2
	}
	return n >= least
}

type measure struct {
	n      int64
	value  float64
	points float64
	state  state
}

// The signals, in their order.
const (
	timing = iota
	recursion
	knowledge
	entropy
	challenge
)

var (
	signals  = [...]string{"timing", "recursion", "knowledge", "entropy", "challenge"}
	bySignal = [...]map[string]*partOf{formula.Timing, formula.Recursion, formula.Knowledge, formula.Entropy,
		formula.Challenge}
)

type part struct {
	signal  int
	name    string
	measure func(*view, *partOf) measure
}

func (p part) of() *partOf { return bySignal[p.signal][p.name] }

var allParts = []part{
	{timing, "regression", (*view).regression},
	{timing, "speed", (*view).speed},
	{timing, "regularity", (*view).regularity},
	{recursion, "chain", (*view).chain},
	{recursion, "self_references", (*view).selfReferences},
	{recursion, "depth", (*view).depth},
	{knowledge, "domains", (*view).domains},
	{knowledge, "agreement", (*view).agreement},
	{knowledge, "superhuman", (*view).superhuman},
	{entropy, "word_entropy", (*view).wordEntropy},
	{entropy, "compression", (*view).compression},
	{entropy, "endurance", (*view).endurance},
	{entropy, "fatigue", (*view).fatigue},
	{challenge, "commitments", (*view).commitments},
}

type parts []measure

// parts measures each part. One with too few inputs has no points.
func (v *view) parts() parts {
	v.span = v.length()
	p := make(parts, len(allParts))
	for i, part := range allParts {
		p[i] = part.measure(v, part.of())
		if !v.enough(p[i].n, part.of().least()) {
			p[i] = measure{n: p[i].n, state: notMeasured}
		}
	}
	return p
}

func (p parts) value(name string) (value float64) {
	for i, part := range allParts {
		if part.name == name {
			value = p[i].value
		}
	}
	return value
}

func (p parts) signal(signal int) (s Signal) {
	weakest := notMeasured
	for i, part := range allParts {
		if part.signal != signal {
			continue
		}
		m := p[i]
		s.Parts = append(s.Parts, Part{part.name, part.of().Points, m.points, m.value, m.n, m.state.String()})
		s.Score += m.points
		if m.state != notMeasured && (weakest == notMeasured || m.state > weakest) {
			weakest = m.state
		}
	}
	s.State = weakest.String()
	return s
}

func (p parts) composite() (composite, seedWeighted float64) {
	var points [len(signals)]float64
	for i, part := range allParts {
		points[part.signal] += p[i].points
	}
	for i, name := range signals {
		composite += formula.Weights[name] * points[i] / formula.Caps[name]
		seedWeighted += formula.Weights[name] * points[i]
	}
	return 100 * composite, seedWeighted
}

// interval is the delete-a-block jackknife of a composite.
func (v *view) interval(composite float64, whole parts) Interval {
	of := &formula.Interval
	out := Interval{Level: of.Level, Upper: 100, LeaveOut: []float64{}}
	n := len(v.s.calls)
	if n < of.Blocks {
		return out
	}
	left := *v
	left.leaveOut = true
	for b := range of.Blocks {
		left.from, left.to = b*n/of.Blocks, (b+1)*n/of.Blocks
		p := left.parts()
		for i := range p {
			if whole[i].state == notMeasured {
				p[i].points = 0
			}
		}
		theta, _ := p.composite()
		out.LeaveOut = append(out.LeaveOut, theta)
	}
	sum, mean := 0.0, stat.Mean(out.LeaveOut, nil)
	for _, theta := range out.LeaveOut {
		sum += (theta - mean) * (theta - mean)
	}
	blocks := float64(of.Blocks)
	margin := of.T * math.Sqrt((blocks-1)/blocks*sum)
	out.Lower, out.Upper = max(0, composite-margin), min(100, composite+margin)
	return out
}
