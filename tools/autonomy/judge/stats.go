package main

import (
	"fmt"
	"math"

	"github.com/actionproof/mediator/tools/page"
)

// bands are where the bands of a score begin: the seed's.
var bands = []float64{0, 30, 60, 80}

// mean returns the mean of some numbers.
func mean(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum / float64(len(of))
}

// area is an area under the ROC curve, with the bounds of its 95 % interval.
type area struct{ at, low, high float64 }

// areaUnder returns how likely one of positive is above one of negative; where they are equal counts half. That is the
// area under the ROC curve (Hanley and McNeil 1982). The interval is Newcombe's method 5 (Statistics in Medicine 25,
// 2006, page 559): unlike others it has a width also where the groups do not overlap.
func areaUnder(positive, negative []float64) area {
	m, n := float64(len(positive)), float64(len(negative))
	if m == 0 || n == 0 {
		return area{math.NaN(), math.NaN(), math.NaN()}
	}
	above := 0.0
	for _, p := range positive {
		for _, q := range negative {
			switch {
			case p > q:
				above++
			case p == q:
				above += 0.5
			}
		}
	}
	at := above / (m * n)
	const z = 1.959964
	more := (m+n)/2 - 1
	// within reports whether an area t would make the observed one no surprise.
	within := func(t float64) bool {
		variance := t * (1 - t) * (1 + more*((1-t)/(2-t)+t/(1+t))) / (m * n)
		return (t-at)*(t-at) <= z*z*variance
	}
	bound := func(out float64) float64 { // between at, which is within, and out, which need not be
		in := at
		for range 50 {
			if middle := (in + out) / 2; within(middle) {
				in = middle
			} else {
				out = middle
			}
		}
		return in
	}
	return area{at, bound(0), bound(1)}
}

func (a area) String() string {
	if math.IsNaN(a.at) {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", a.at, a.low, a.high)
}

// spreadOf writes how many numbers there are, their median, and their first and third quartile.
func spreadOf(of []float64) []string {
	if len(of) == 0 {
		return []string{"0", "–", "–"}
	}
	return []string{fmt.Sprint(len(of)), fmt.Sprintf("%.1f", page.Quantile(of, 0.5)),
		fmt.Sprintf("%.1f–%.1f", page.Quantile(of, 0.25), page.Quantile(of, 0.75))}
}

// bandsOf writes the share of each band.
func bandsOf(of []float64) (out []string) {
	for i, from := range bands {
		n := 0
		for _, v := range of {
			if v >= from && (i == len(bands)-1 || v < bands[i+1]) {
				n++
			}
		}
		out = append(out, fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, len(of)))))
	}
	return out
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
