package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/tools/page"
)

// Measures of the plots, in their units.
const (
	plotTop, plotHeight = 50, 300
	groupsLeft, column  = 50, 66
	dayLeft, dayWidth   = 430, 260
	ownLeft, ownWidth   = 880, 200
	plotTotal           = 1230
	bottom              = plotTop + plotHeight
)

// up is where a rating stands.
func up(r float64) float64 { return bottom - plotHeight*r/100 }

// plot draws R of each kind of agents, over the days, and against the owners that an attack needs.
func (s study) plot() []byte {
	c := page.NewCanvas("The rating R of each kind of agents, over the days, and against how many owners collude",
		plotTotal, bottom+60)
	for _, area := range []struct{ left, right float64 }{{groupsLeft, groupsLeft + column*float64(len(groups))},
		{dayLeft, dayLeft + dayWidth}, {ownLeft, ownLeft + ownWidth}} {
		for _, r := range []float64{0, 40, 55, 70, 85, 100} {
			c.Line("grid", area.left, up(r), area.right, up(r))
			c.Text("end", area.left-6, up(r)+4, fmt.Sprint(r))
		}
	}
	plotGroups(c, s.world)
	plotDays(c, s.courses)
	plotCollusions(c, s.collusions)
	return c.Bytes()
}

func plotGroups(c *page.Canvas, w *world) {
	c.Text("start", groupsLeft, 30, "R after a month: each agent, quartiles, median")
	for i, k := range groups {
		x, of := groupsLeft+column*(float64(i)+0.5), []float64(nil)
		for _, r := range w.results(k) {
			if r.Measured {
				of = append(of, r.R)
			}
		}
		c.Text("middle", x, bottom+18, k.name)
		if len(of) == 0 {
			continue
		}
		for j, v := range of { // beside each other, in a fixed order
			c.Dot("dot", x-22+4.4*float64(j*7%11), up(v), 1.5)
		}
		c.Rect("box", x-14, up(page.Quantile(of, 0.75)), x+14, up(page.Quantile(of, 0.25)))
		c.Line("middle", x-18, up(page.Quantile(of, 0.5)), x+18, up(page.Quantile(of, 0.5)))
	}
}

// plotDays draws R over the month.
func plotDays(c *page.Canvas, all []course) {
	c.Text("start", dayLeft, 30, "R over the days")
	for d := 0; d <= days; d += 10 {
		c.Text("middle", dayLeft+dayWidth*float64(d)/days, bottom+18, fmt.Sprint(d))
	}
	curves(c, all, dayLeft, dayWidth)
}

// plotCollusions draws what colluding owners gain, each number as far from the next.
func plotCollusions(c *page.Canvas, all []collusion) {
	c.Text("start", ownLeft, 30, "R against other owners that help")
	for i, n := range colluders {
		c.Text("middle", ownLeft+ownWidth*float64(i)/float64(len(colluders)-1), bottom+18, fmt.Sprint(n))
	}
	var gains []course
	for i, name := range []string{"let it win", "lose to it", "cite it", "all three"} {
		gains = append(gains, course{name, all[i].r})
	}
	curves(c, gains, ownLeft, ownWidth)
}

// lineHeight keeps the names of curves apart.
const lineHeight = 14

// curves draws ratings from left to right, each with its name at its end: the highest one first, so that a name moves
// down where another is.
func curves(c *page.Canvas, all []course, left, width float64) {
	byEnd := slices.SortedFunc(slices.Values(all), func(a, b course) int {
		return cmp.Compare(b.r[len(b.r)-1], a.r[len(a.r)-1])
	})
	name := 0.0
	for _, one := range byEnd {
		step := width / float64(len(one.r)-1)
		for i := range one.r[1:] {
			c.Line("interval", left+step*float64(i), up(one.r[i]), left+step*float64(i+1), up(one.r[i+1]))
		}
		name = max(up(one.r[len(one.r)-1]), name+lineHeight)
		c.Text("start", left+width+4, name+4, one.name)
	}
}
