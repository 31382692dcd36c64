package autonomy

import "math"

// chain is the longest run of model, tool and model, linked by call ids that a model made and that came back.
func (v *view) chain(of *partOf) measure {
	v.x = append(v.x[:0], make([]float64, len(v.s.calls))...) // the length of the run ending at each call
	longest := 0.0
	v.each(func(i int, c *call) {
		for _, l := range c.links {
			if l.maker >= v.from && l.maker < v.to {
				continue
			}
			length := v.x[l.maker]
			if l.fresh {
				length++
			}
			v.x[i] = max(v.x[i], length)
		}
		longest = max(longest, v.x[i])
	})
	return measure{n: int64(v.len()), value: longest, points: of.Points * min(1, math.Log(1+longest)/math.Log(1+of.Full))}
}

// selfReferences measures how often earlier answers came back, per call after the first.
func (v *view) selfReferences(of *partOf) (m measure) {
	n, sum := v.references()
	m.n = n
	if turns := v.len(); turns > 1 {
		m.value = sum / float64(turns-1)
	}
	m.points = of.Points * min(1, m.value)
	return m
}

// references returns the number of calls with measured references to earlier answers, and the number of references.
func (v *view) references() (n int64, sum float64) {
	v.each(func(_ int, c *call) {
		if c.references.measured() {
			n++
			sum += c.references.value
		}
	})
	return n, sum
}

// depth is the longest path of values from results into arguments.
func (v *view) depth(of *partOf) (m measure) {
	v.each(func(_ int, c *call) {
		if c.depth.measured() {
			m.n++
			m.value = max(m.value, c.depth.value)
		}
	})
	m.points = of.Points * min(1, m.value/of.Full)
	return m
}
