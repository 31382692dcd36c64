package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"slices"

	"github.com/actionproof/mediator/test/autonomy"
)

// Measures of the plot, in its units.
const (
	plotLeft, plotWidth = 220, 400 // of the scores
	areaLeft, areaWidth = 670, 180 // of the areas
	plotTop, plotRow    = 50, 40
	plotTotal, halfBox  = 870, 6
)

// canvas is an SVG in the making.
type canvas struct{ svg bytes.Buffer }

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.svg, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func (c *canvas) rect(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.svg, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", class, x1, y1, max(1, x2-x1), y2-y1)
}

func (c *canvas) dot(class string, x, y, radius float64) {
	fmt.Fprintf(&c.svg, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", class, x, y, radius)
}

func (c *canvas) text(anchor string, x, y float64, text string) {
	fmt.Fprintf(&c.svg, `<text text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", anchor, x, y, html.EscapeString(text))
}

// Colours that can be read on light and on dark pages.
const plotStyle = `<style>
text { fill: #24292f } .grid { stroke: #8c959f } .band { fill: #8c959f; fill-opacity: .14 }
.dot { fill: #2f7bbf; fill-opacity: .45 } .box { fill: #2f7bbf; fill-opacity: .25; stroke: #2f7bbf }
.middle { stroke: #d1602a; stroke-width: 3 } .interval { stroke: #d1602a; stroke-width: 2 } .area { fill: #d1602a }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
</style>
`

// plot draws the scores of each group, and the areas under the curve, as SVG without a background.
func plot(w io.Writer, all []scored) error {
	c, rows := &canvas{}, groups()
	bottom := float64(plotTop + plotRow*len(rows))
	fmt.Fprintf(&c.svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" font-family="sans-serif" font-size="12" role="img">`+"\n", plotTotal, bottom+50, plotTotal)
	c.svg.WriteString("<title>Scores of each group, and the area under the curve of steady agents against it</title>\n" + plotStyle)
	along := func(v float64) float64 { return plotLeft + plotWidth*v/100 }
	area := func(v float64) float64 { return areaLeft + areaWidth*v }
	ends := append(slices.Clone(bands), 100)
	c.rect("band", along(ends[1]), plotTop, along(ends[2]), bottom)
	c.rect("band", along(ends[3]), plotTop, along(ends[4]), bottom)
	for _, v := range ends {
		c.line("grid", along(v), plotTop, along(v), bottom)
		c.text("middle", along(v), bottom+18, fmt.Sprint(v))
	}
	for _, v := range []float64{0, 0.5, 1} {
		c.line("grid", area(v), plotTop, area(v), bottom)
		c.text("middle", area(v), bottom+18, fmt.Sprint(v))
	}
	c.text("start", plotLeft, 30, "Each session, the quartiles and the median")
	c.text("middle", along(50), bottom+38, "score, with its bands")
	c.text("start", areaLeft, 30, "Steady agents against it")
	c.text("middle", area(0.5), bottom+38, "AUC, with its 95 % interval")
	steady := values(all, autonomy.Steady, "", scoreOf)
	for i, g := range rows {
		y, of := plotTop+plotRow*(float64(i)+0.5), values(all, g, "", scoreOf)
		c.text("end", plotLeft-10, y+4, g)
		if len(of) == 0 {
			continue
		}
		for j, v := range of { // beside each other, in a fixed order
			c.dot("dot", along(v), y-14+2.8*float64(j*7%11), 2.5)
		}
		c.rect("box", along(quantile(of, 0.25)), y-halfBox, along(quantile(of, 0.75)), y+halfBox)
		c.line("middle", along(quantile(of, 0.5)), y-halfBox-2, along(quantile(of, 0.5)), y+halfBox+2)
		if g != autonomy.Steady && len(steady) > 0 {
			a := areaUnder(steady, of)
			c.line("interval", area(a.low), y, area(a.high), y)
			c.dot("area", area(a.at), y, 4)
		}
	}
	c.svg.WriteString("</svg>\n")
	_, err := w.Write(c.svg.Bytes())
	return err
}
