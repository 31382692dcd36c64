package console

import (
	"fmt"
	"strconv"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
)

// chart is a drawing of bars. About describes it in a sentence.
type chart struct {
	Width, Height int
	About         string
	Bars          []bar
	Labels        []caption
}

// The widths of charts, as wide as a page and as one of its columns.
const full, half = 720, 480

// bar is one rectangle. Class names its colour and pattern, Title what it says.
type bar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

type caption struct {
	X, Y         float64
	Anchor, Text string
}

func (c *chart) bar(x, y, width, height float64, class, format string, args ...any) {
	c.Bars = append(c.Bars, bar{x, y, max(width, 1), height, class, fmt.Sprintf(format, args...)})
}

func (c *chart) label(x, y float64, anchor, format string, args ...any) {
	c.Labels = append(c.Labels, caption{x, y, anchor, fmt.Sprintf(format, args...)})
}

// draw makes SVG of the chart, or nothing without bars.
func (c chart) draw() Node {
	if len(c.Bars) == 0 {
		return nil
	}
	return Div(Class("scroll"), TabIndex("0"), Role("group"), label(c.About),
		SVG(If(c.Width == half, Class("half")), Attr("viewBox", fmt.Sprintf("0 0 %d %d", c.Width, c.Height)),
			Role("img"), label(c.About), Map(c.Bars, bar.draw), Map(c.Labels, caption.draw)))
}

func (b bar) draw() Node {
	return El("rect", Class(b.Class), figure("x", b.X), figure("y", b.Y), figure("width", b.Width),
		figure("height", b.Height), El("title", text(b.Title)))
}

func (l caption) draw() Node {
	return El("text", figure("x", l.X), figure("y", l.Y), Attr("text-anchor", l.Anchor), text(l.Text))
}

func figure(name string, v float64) Node { return Attr(name, strconv.FormatFloat(v, 'f', 1, 64)) }

// callsOverTime draws the calls of each interval, with the refused at the bottom.
func callsOverTime(s admin.Summary) chart {
	c := chart{Width: full, Height: 120}
	if len(s.Spans) == 0 {
		return c
	}
	most := 4 // few calls make no high bars
	for _, span := range s.Spans {
		n := 0
		for _, calls := range span.States {
			n += calls
		}
		most = max(most, n)
	}
	step := float64(c.Width) / float64(len(s.Spans))
	const floor, height = 100.0, 96.0
	for i, span := range s.Spans {
		y := floor
		for _, state := range states {
			if n := span.States[state]; n > 0 {
				h := height * float64(n) / float64(most)
				y -= h
				c.bar(float64(i)*step, y, step-2, h, string(state), "%s: %d %s", span.Start.UTC().Format(time.TimeOnly),
					n, state)
			}
		}
	}
	c.label(0, 115, "start", "%s", stamp(s.First))
	c.label(float64(c.Width), 115, "end", "%s UTC", s.Last.UTC().Format("15:04:05"))
	c.About = fmt.Sprintf("%d calls from %s to %s, at most %d in one of %d intervals", s.Calls,
		s.First.UTC().Format(time.RFC3339), s.Last.UTC().Format(time.RFC3339), most, len(s.Spans))
	return c
}

const stepRow = 22 // the height of a row of steps

func stepTimes(steps []admin.Latency) chart {
	c := chart{Width: full, Height: stepRow*len(steps) + 4, About: "the median and the 95th percentile of each step"}
	longest := int64(1)
	for _, s := range steps {
		longest = max(longest, s.P95)
	}
	const left, right = 130.0, 150.0
	scale := (float64(c.Width) - left - right) / float64(longest)
	for i, s := range steps {
		y := float64(i*stepRow) + 4
		c.label(left-8, y+11, "end", "%s", s.Step)
		c.bar(left, y, float64(s.P95)*scale, 14, "p95", "%s: 95 %% take at most %s", s.Step, millis(s.P95))
		c.bar(left, y, float64(s.Median)*scale, 14, "median", "%s: half take at most %s", s.Step, millis(s.Median))
		c.label(left+float64(s.P95)*scale+8, y+11, "start", "%s · %s", millis(s.Median), millis(s.P95))
	}
	return c
}

// waterfall draws the steps of one call one after the other.
func waterfall(r ledger.Record) chart {
	c := chart{Width: half, Height: stepRow*len(r.Steps) + 4, About: "the steps of the call, one after the other"}
	total := int64(1)
	for _, s := range r.Steps {
		total += s.Micros
	}
	const left, right = 90.0, 70.0
	scale := (float64(c.Width) - left - right) / float64(total)
	began := int64(0)
	for i, s := range r.Steps {
		y := float64(i*stepRow) + 4
		class := "median"
		if r.Code != "" && s.Name == r.Step {
			class = string(ledger.StateRefused)
		}
		c.label(left-8, y+11, "end", "%s", s.Name)
		c.bar(left+float64(began)*scale, y, float64(s.Micros)*scale, 14, class, "%s: %s", s.Name, millis(s.Micros))
		c.label(left+float64(began+s.Micros)*scale+8, y+11, "start", "%s", millis(s.Micros))
		began += s.Micros
	}
	return c
}

// rotations draws the life of each version of a key: certified from its making to the end of its certificate, and in
// it from the first to the last post that it signed for.
func rotations(versions []keyring.Version, now time.Time) chart {
	c := chart{Width: half, Height: stepRow*len(versions) + 20, About: "when each version was made, signed and ends"}
	from, to := now, now
	for _, v := range versions {
		for _, t := range []*time.Time{v.Created, v.Until} {
			if t != nil && t.Before(from) {
				from = *t
			}
			if t != nil && t.After(to) {
				to = *t
			}
		}
	}
	const left, right = 40.0, 8.0
	scale := (float64(c.Width) - left - right) / max(1, float64(to.Sub(from)))
	at := func(t time.Time) float64 { return left + float64(t.Sub(from))*scale }
	for i, v := range versions {
		y := float64(i*stepRow) + 4
		begin, end := from, to
		if v.Created != nil {
			begin = *v.Created
		}
		if v.Until != nil {
			end = *v.Until
		}
		class := "ended"
		if v.State == keyring.Certified {
			class = "certified"
		}
		c.label(left-8, y+11, "end", "v%d", evidence.KeyVersion(v.KeyID))
		c.bar(at(begin), y, at(end)-at(begin), 14, class, "%s, %s, until %s", v.KeyID, v.State,
			end.UTC().Format(time.RFC3339))
		if u := v.Use; u != nil && u.Posts > 0 {
			c.bar(at(u.First), y+3, at(u.Last)-at(u.First), 8, "used", "%d posts from %s to %s", u.Posts,
				u.First.UTC().Format(time.RFC3339), u.Last.UTC().Format(time.RFC3339))
		}
	}
	c.bar(at(now), 0, 1, float64(stepRow*len(versions)+4), "today", "now")
	c.label(left, float64(c.Height)-3, "start", "%s", from.UTC().Format("2006-01-02 15:04"))
	c.label(float64(c.Width)-right, float64(c.Height)-3, "end", "%s UTC", to.UTC().Format("2006-01-02 15:04"))
	return c
}
