// Package page has what commands share that measure something and write it into a page: tables, plots, and their place in the page.
package page

import (
	"bytes"
	"fmt"
	"html"
)

// Canvas is a plot in the making: SVG without a background, which can be read on light and on dark pages.
type Canvas struct {
	svg           bytes.Buffer
	width, height float64
}

// style has a class for each thing that a plot is made of.
const style = `<style>
text { fill: #24292f } .grid { stroke: #8c959f } .band { fill: #8c959f; fill-opacity: .14 }
.dot { fill: #2f7bbf; fill-opacity: .45 } .box { fill: #2f7bbf; fill-opacity: .25; stroke: #2f7bbf }
.middle { stroke: #d1602a; stroke-width: 3 } .interval { stroke: #d1602a; stroke-width: 2 } .area { fill: #d1602a }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
</style>
`

// NewCanvas begins a plot with a title, of a size in its units.
func NewCanvas(title string, width, height float64) *Canvas {
	c := &Canvas{width: width, height: height}
	fmt.Fprintf(&c.svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" font-family="sans-serif" font-size="12" role="img">`+"\n", width, height, width)
	c.svg.WriteString("<title>" + html.EscapeString(title) + "</title>\n" + style)
	return c
}

// Line draws a line between two points.
func (c *Canvas) Line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.svg, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

// Rect draws a rectangle between two corners, at least one unit wide.
func (c *Canvas) Rect(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.svg, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", class, x1, y1, max(1, x2-x1), y2-y1)
}

// Dot draws a filled circle.
func (c *Canvas) Dot(class string, x, y, radius float64) {
	fmt.Fprintf(&c.svg, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", class, x, y, radius)
}

// Text writes a text that begins, has its middle or ends at a point.
func (c *Canvas) Text(anchor string, x, y float64, text string) {
	fmt.Fprintf(&c.svg, `<text text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", anchor, x, y, html.EscapeString(text))
}

// Bytes returns the plot.
func (c *Canvas) Bytes() []byte { return append(bytes.Clone(c.svg.Bytes()), "</svg>\n"...) }
