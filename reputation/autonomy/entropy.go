package autonomy

import "math"

// samples returns the last text sample of each model; its bytes are 0 if there is none.
func (v *view) samples() []sample {
	last := make([]sample, len(v.s.models))
	v.each(func(_ int, c *call) {
		if c.model >= 0 && c.sample.bytes > 0 {
			last[c.model] = c.sample
		}
	})
	return last
}

// class returns the size class of a sample, because the entropy of words grows with the text.
func (s sample) class() int64 {
	k := int64(0)
	for size := 2 * formula.Entropy["text"].ClassBytes; size <= s.bytes; size *= 2 {
		k++
	}
	return k
}

func (v *view) wordEntropy(of *partOf) measure {
	return v.near(of, func(s sample, b *TextBaseline) bool { return b.Entropy.near(s.entropy, of.MaxZ) })
}

func (v *view) compression(of *partOf) measure {
	return v.near(of, func(s sample, b *TextBaseline) bool { return b.Compression.near(s.compression, of.MaxZ) })
}

// near returns the share of the sampled text that resembles earlier sessions.
func (v *view) near(of *partOf, is func(sample, *TextBaseline) bool) (m measure) {
	all := 0.0
	for i, s := range v.samples() {
		b := v.baseline.text(i, s)
		if b == nil {
			continue
		}
		m.n++
		all += s.bytes
		if is(s, b) {
			m.value += s.bytes
		}
	}
	if all > 0 {
		m.value /= all
	}
	m.points = of.Points * m.value
	return m
}

func (v *view) response() float64 {
	longest := sample{}
	for _, s := range v.samples() {
		if s.bytes > longest.bytes {
			longest = s
		}
	}
	return longest.entropy / 1000
}

func (d Distribution) near(x, maxZ float64) bool {
	of := formula.Entropy["text"]
	return math.Abs(x-d.Median) <= maxZ*max(of.Scale*d.Spread, of.Floor*d.Median)
}

func (v *view) length() float64 {
	first, last := math.Inf(1), math.Inf(-1)
	v.each(func(_ int, c *call) {
		first, last = min(first, c.at), max(last, c.end)
	})
	return max(0, last-first)
}

func (v *view) endurance(of *partOf) measure {
	n := float64(v.len())
	value := min(1, n/of.Calls) * min(1, v.span/of.Duration)
	return measure{n: int64(v.len()), value: value, points: of.Points * value}
}

// fatigue measures how much the agent slowed down, and whether it rests at the same hours each day. A short
// session shows no fatigue in anyone, so the points grow with its length.
func (v *view) fatigue(of *partOf) measure {
	at, gaps := v.gaps()
	n := int64(len(gaps))
	growth := 0.0
	if n > 0 && at[n-1] > at[0] {
		rise := slope(at, gaps) * (at[n-1] - at[0])
		growth = rise / max(1, median(gaps))
	}
	slowing := clamp((growth - of.GrowthNone) / (of.GrowthFull - of.GrowthNone))
	value := min(of.Points, of.Points*slowing+of.Points*v.quiet(of))
	return measure{n: n, value: value, points: (of.Points - value) * min(1, v.span/of.Duration)}
}

func (v *view) quiet(of *partOf) float64 {
	if v.span < of.RhythmMinSpan || !v.enough(int64(v.len()), of.RhythmMinCalls) {
		return 0
	}
	const hour, day = 3_600_000, 24
	var busy [day]bool
	v.each(func(_ int, c *call) { busy[int64(c.at)/hour%day] = true })
	longest, run := 0, 0
	for i := range 2 * day { // twice, for a run across midnight
		if run++; busy[i%day] {
			run = 0
		}
		longest = max(longest, min(run, day))
	}
	return clamp((float64(longest) - of.QuietNone) / (of.QuietFull - of.QuietNone))
}
