package autonomy

import "math"

func (c *call) hasTokens() bool {
	return c.duration.measured() && c.duration.value >= 1 && c.tokens.measured() && c.tokens.value >= 1
}

func (c *call) tokenSpeed(least float64) (float64, bool) {
	if !c.hasTokens() || c.tokens.value < least {
		return 0, false
	}
	return 1000 * c.tokens.value / c.duration.value, true
}

func (v *view) regression(of *partOf) (m measure) {
	sum := 0.0
	for model := range v.s.models {
		v.x, v.y = v.x[:0], v.y[:0]
		state := observed
		v.each(func(_ int, c *call) {
			if c.model == model && c.hasTokens() {
				v.x, v.y = append(v.x, c.tokens.value), append(v.y, c.duration.value)
				state = max(state, c.tokens.state, c.duration.state)
			}
		})
		n := int64(len(v.x))
		if n == 0 || !v.enough(n, of.MinCalls) {
			continue
		}
		m.n += n
		m.state = max(m.state, state)
		sum += float64(n) * determination(v.x, v.y)
	}
	if m.n > 0 {
		m.value = sum / float64(m.n)
	}
	m.points = of.Points * m.value
	return m
}

// speed is the share of calls whose speed resembles earlier sessions.
func (v *view) speed(of *partOf) (m measure) {
	inside := 0.0
	v.each(func(_ int, c *call) {
		speed, ok := c.tokenSpeed(of.MinTokens)
		if !ok || c.model < 0 {
			return
		}
		b := v.baseline[c.model]
		if b == nil || b.Speed == nil || b.Speed.N < formula.Baseline.MinSessions {
			return
		}
		m.n++
		m.state = max(m.state, c.tokens.state, c.duration.state)
		if math.Abs(speed-b.Speed.Median) <= max(of.Width*b.Speed.Spread, of.Floor*b.Speed.Median) {
			inside++
		}
	})
	if m.n > 0 {
		m.value = inside / float64(m.n)
	}
	m.points = of.Points * m.value
	return m
}

func (v *view) gaps() (at, gaps []float64) {
	v.x, v.y = v.x[:0], v.y[:0]
	v.each(func(_ int, c *call) {
		if c.gap.measured() {
			v.x, v.y = append(v.x, c.at), append(v.y, c.gap.value)
		}
	})
	return v.x, v.y
}

func (v *view) regularity(of *partOf) measure {
	_, gaps := v.gaps()
	value := variation(gaps)
	return measure{n: int64(len(gaps)), value: value, points: of.Points * clamp((of.None-value)/(of.None-of.Full))}
}

func (v *view) latency() (middle, speed, spread float64) {
	v.x = v.x[:0]
	tokens, duration := 0.0, 0.0
	v.each(func(_ int, c *call) {
		if c.duration.measured() {
			v.x = append(v.x, c.duration.value)
		}
		if c.hasTokens() {
			tokens += c.tokens.value
			duration += c.duration.value
		}
	})
	if duration > 0 {
		speed = 1000 * tokens / duration
	}
	spread = variance(v.x)
	return median(v.x), speed, spread
}
