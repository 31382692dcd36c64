package main

import (
	"fmt"

	"github.com/actionproof/mediator/test/page"
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
func plot(w *world) []byte {
	c := page.NewCanvas("The rating R of each kind of agents, over the days, and against how many owners collude", plotTotal, bottom+60)
	for _, area := range []struct{ left, right float64 }{{groupsLeft, groupsLeft + column*float64(len(groups))}, {dayLeft, dayLeft + dayWidth}, {ownLeft, ownLeft + ownWidth}} {
		for _, r := range []float64{0, 40, 55, 70, 85, 100} {
			c.Line("grid", area.left, up(r), area.right, up(r))
			c.Text("end", area.left-6, up(r)+4, fmt.Sprint(r))
		}
	}
	plotGroups(c, w)
	plotDays(c)
	plotOwners(c)
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

// plotDays draws courses over the month.
func plotDays(c *page.Canvas) {
	c.Text("start", dayLeft, 30, "R over the days")
	for d := 0; d <= days; d += 10 {
		c.Text("middle", dayLeft+dayWidth*float64(d)/days, bottom+18, fmt.Sprint(d))
	}
	for _, line := range []struct {
		name string
		of   course
	}{
		{"a perfect agent", alone(perfect, nil)}, {"honest", alone(honest, nil)}, {"honest, loses on day 12", alone(honest, on(middle, 1, lost))},
		{"and takes another name", alone(honest, join(on(middle, 1, lost), on(middle, 1, anew)))}, {"replays a script", alone(scripted, nil)},
	} {
		for d := range days {
			c.Line("interval", dayLeft+dayWidth*float64(d)/days, up(line.of[d]), dayLeft+dayWidth*float64(d+1)/days, up(line.of[d+1]))
		}
		c.Text("start", dayLeft+dayWidth+4, up(line.of.end())+4, line.name)
	}
}

// owners are how many owners collude in the plot.
var owners = []int{0, 1, 2, 3, 5, 10, 20, 50, 100}

// plotOwners draws what colluding owners gain, each number as far from the next.
func plotOwners(c *page.Canvas) {
	c.Text("start", ownLeft, 30, "R against owners that collude")
	x := func(i int) float64 { return ownLeft + ownWidth*float64(i)/float64(len(owners)-1) }
	for i, n := range owners {
		c.Text("middle", x(i), bottom+18, fmt.Sprint(n))
	}
	for _, line := range []struct {
		name string
		of   func(int) act
	}{{"both", both}, {"let it win when accused", loses}, {"lose on purpose", sacrificed}} {
		last := alone(colluding, nil).end()
		for i, n := range owners[1:] {
			next := alone(colluding, line.of(n)).end()
			c.Line("interval", x(i), up(last), x(i+1), up(next))
			last = next
		}
		c.Text("start", ownLeft+ownWidth+4, up(last)+4, line.name)
	}
}
