package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/actionproof/mediator/tools/autonomy"
	"github.com/actionproof/mediator/tools/page"
)

// Measures of the plot, in its units.
const (
	plotLeft, plotWidth = 220, 400 // of the scores
	areaLeft, areaWidth = 670, 180 // of the areas
	plotTop, plotRow    = 50, 40
	plotTotal, halfBox  = 870, 6
)

// plot draws the scores of each group, and the areas under the curve, as SVG without a background.
func plot(w io.Writer, all []scored) error {
	rows := groups()
	bottom := float64(plotTop + plotRow*len(rows))
	c := page.NewCanvas("Scores of each group, and the area under the curve of steady agents against it", plotTotal,
		bottom+50)
	along := func(v float64) float64 { return plotLeft + plotWidth*v/100 }
	area := func(v float64) float64 { return areaLeft + areaWidth*v }
	ends := append(slices.Clone(bands), 100)
	c.Rect("band", along(ends[1]), plotTop, along(ends[2]), bottom)
	c.Rect("band", along(ends[3]), plotTop, along(ends[4]), bottom)
	for _, v := range ends {
		c.Line("grid", along(v), plotTop, along(v), bottom)
		c.Text("middle", along(v), bottom+18, fmt.Sprint(v))
	}
	for _, v := range []float64{0, 0.5, 1} {
		c.Line("grid", area(v), plotTop, area(v), bottom)
		c.Text("middle", area(v), bottom+18, fmt.Sprint(v))
	}
	c.Text("start", plotLeft, 30, "Each session, the quartiles and the median")
	c.Text("middle", along(50), bottom+38, "score, with its bands")
	c.Text("start", areaLeft, 30, "Steady agents against it")
	c.Text("middle", area(0.5), bottom+38, "AUC, with its 95 % interval")
	steady := values(all, autonomy.Steady, scoreOf)
	for i, g := range rows {
		y, of := plotTop+plotRow*(float64(i)+0.5), values(all, g, scoreOf)
		c.Text("end", plotLeft-10, y+4, g)
		if len(of) == 0 {
			continue
		}
		for j, v := range of { // beside each other, in a fixed order
			c.Dot("dot", along(v), y-14+2.8*float64(j*7%11), 2.5)
		}
		c.Rect("box", along(page.Quantile(of, 0.25)), y-halfBox, along(page.Quantile(of, 0.75)), y+halfBox)
		c.Line("middle", along(page.Quantile(of, 0.5)), y-halfBox-2, along(page.Quantile(of, 0.5)), y+halfBox+2)
		if g != autonomy.Steady && len(steady) > 0 {
			a := areaUnder(steady, of)
			c.Line("interval", area(a.low), y, area(a.high), y)
			c.Dot("area", area(a.at), y, 4)
		}
	}
	_, err := w.Write(c.Bytes())
	return err
}
