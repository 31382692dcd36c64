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

type part struct {
	name string
	of   float64
	measure
}

// The parts, in their order.
const (
	regressionPart = iota
	speedPart
	regularityPart
	chainPart
	referencesPart
	depthPart
	domainsPart
	agreementPart
	superhumanPart
	entropyPart
	compressionPart
	endurancePart
	fatiguePart
	commitmentsPart
	partCount
)

type parts [partCount]part

// bySignal holds the first and the end index of each signal's parts.
var bySignal = [...][2]int{
	{regressionPart, chainPart}, {chainPart, domainsPart}, {domainsPart, entropyPart}, {entropyPart, commitmentsPart},
	{commitmentsPart, partCount},
}

// parts measures each part, given the session's agreement and commitments. A part with too few inputs has no points.
func (v *view) parts(agreement, commitments measure) (p parts) {
	t, r, k, e, c := &formula.Timing, &formula.Recursion, &formula.Knowledge, &formula.Entropy, &formula.Challenge
	put := func(at int, name string, of float64, least int64, m measure) {
		if !v.enough(m.n, least) {
			m = measure{n: m.n, state: notMeasured}
		}
		p[at] = part{name, of, m}
	}
	span := v.span()
	references, _ := v.selfReferences()
	entropy, compression := v.text(v.samples())
	put(regressionPart, "regression", t.Regression.Points, t.Regression.MinCalls, v.regression())
	put(speedPart, "speed", t.Speed.Points, t.Speed.MinCalls, v.speed())
	put(regularityPart, "regularity", t.Regularity.Points, t.Regularity.MinGaps, v.regularity())
	put(chainPart, "chain", r.Chain.Points, r.Chain.MinCalls, v.chain())
	put(referencesPart, "self_references", r.SelfReferences.Points, r.SelfReferences.MinCalls, references)
	put(depthPart, "depth", r.Depth.Points, r.Depth.MinCalls, v.depth())
	put(domainsPart, "domains", k.Domains.Points, k.Domains.MinCalls, v.domains())
	put(agreementPart, "agreement", k.Agreement.Points, k.Agreement.MinPairs, agreement)
	put(superhumanPart, "superhuman", k.Superhuman.Points, k.Superhuman.MinBlocks, v.superhuman())
	put(entropyPart, "word_entropy", e.WordEntropy.Points, 1, entropy)
	put(compressionPart, "compression", e.Compression.Points, 1, compression)
	put(endurancePart, "endurance", e.Endurance.Points, e.Endurance.MinCalls, v.endurance(span))
	put(fatiguePart, "fatigue", e.Fatigue.Points, e.Fatigue.MinGaps, v.fatigue(span))
	put(commitmentsPart, "commitments", c.Commitments.Points, 1, commitments)
	return p
}

func (p *parts) signal(i int) (s Signal) {
	weakest := notMeasured
	for _, part := range p[bySignal[i][0]:bySignal[i][1]] {
		s.Parts = append(s.Parts, Part{part.name, part.of, part.points, part.value, part.n, part.state.String()})
		s.Score += part.points
		if part.state != notMeasured && (weakest == notMeasured || part.state > weakest) {
			weakest = part.state
		}
	}
	s.State = weakest.String()
	return s
}

func (p *parts) composite() (composite, seedWeighted float64) {
	w, c := formula.Weights.list(), formula.Caps.list()
	for i, of := range bySignal {
		points := 0.0
		for _, part := range p[of[0]:of[1]] {
			points += part.points
		}
		composite += w[i] * points / c[i]
		seedWeighted += w[i] * points
	}
	return 100 * composite, seedWeighted
}

func (s perSignal) list() [5]float64 {
	return [5]float64{s.Timing, s.Recursion, s.Knowledge, s.Entropy, s.Challenge}
}

// interval is the delete-a-block jackknife of a composite.
func (v *view) interval(composite float64, whole *parts) Interval {
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
		p := left.parts(whole[agreementPart].measure, whole[commitmentsPart].measure)
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
