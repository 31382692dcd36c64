package rating_test

import (
	"math"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
	"github.com/actionproof/mediator/test/check"
)

func TestWorkedExample(t *testing.T) {
	check.WantEqual(t, rating.Factors{C: 0.82, T: 0.90, P: 0.62, V: 0.55, Q: 0.30}.R(), 19.358308)
	check.WantEqual(t, rating.Factors{C: 0.82, T: 0.90, P: 0.62, V: 0.80, Q: 0.10}.R(), 33.277091)
	check.WantEqual(t, accrual.RatingTier(19.358308), "D")
}

func TestR(t *testing.T) {
	for name, row := range map[string]struct {
		of   rating.Factors
		want float64
	}{
		"nothing":                        {rating.Factors{}, 0},
		"everything":                     {rating.Factors{C: 1, T: 1, P: 1, V: 1}, 100},
		"one factor of nothing":          {rating.Factors{C: 1, T: 1, P: 0, V: 1}, 0},
		"the largest penalty":            {rating.Factors{C: 1, T: 1, P: 1, V: 1, Q: 3}, 25},
		"no more than all":               {rating.Factors{C: 2, T: 1, P: 1, V: 1}, 100},
		"no less than nothing":           {rating.Factors{C: -1, T: 1, P: 1, V: 1}, 0},
		"what is no number is nothing":   {rating.Factors{C: math.NaN(), T: 1, P: 1, V: 1}, 0},
		"each factor counts":             {rating.Factors{C: 0.5, T: 0.5, P: 0.5, V: 0.5}, 6.25},
		"a third, rounded at six places": {rating.Factors{C: 1, T: 1, P: 1, V: 1, Q: 2}, 33.333333},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, row.of.R(), row.want) })
	}
}

func TestFactors(t *testing.T) {
	half := rating.Inputs{Adoption: 0.5, Survival: 0.5, Helpfulness: 0.5}
	with := func(edit func(*rating.Inputs)) rating.Inputs {
		i := half
		edit(&i)
		return i
	}
	for name, row := range map[string]struct {
		of   rating.Inputs
		want rating.Factors
	}{
		"nothing against it": {half, rating.Factors{C: 1, P: 0.5, V: 0.5}},
		"a spread": {with(func(i *rating.Inputs) {
			i.Sigma = 0.2
		}), rating.Factors{C: 0.818731, P: 0.5, V: 0.5}},
		"a fall": {with(func(i *rating.Inputs) {
			i.Drawdown = 0.2
		}), rating.Factors{C: 0.740818, P: 0.5, V: 0.5}},
		"a fall to nothing": {with(func(i *rating.Inputs) {
			i.Drawdown = 1
		}), rating.Factors{C: 0.22313, P: 0.5, V: 0.5}},
		"both": {with(func(i *rating.Inputs) {
			i.Sigma, i.Drawdown = 0.2, 0.2
		}), rating.Factors{C: 0.606531, P: 0.5, V: 0.5}},
		"a good performance": {with(func(i *rating.Inputs) {
			i.RAP = 1
		}), rating.Factors{C: 1, P: 0.768525, V: 0.5}},
		"a bad one": {with(func(i *rating.Inputs) {
			i.RAP = -1
		}), rating.Factors{C: 1, P: 0.231475, V: 0.5}},
		"transparent": {with(func(i *rating.Inputs) {
			i.Transparency = 0.9
		}), rating.Factors{C: 1, T: 0.9, P: 0.5, V: 0.5}},
		"adopted": {with(func(i *rating.Inputs) {
			i.Adoption = 1
		}), rating.Factors{C: 1, P: 0.5, V: 0.675}},
		"never refuted": {with(func(i *rating.Inputs) {
			i.Survival = 1
		}), rating.Factors{C: 1, P: 0.5, V: 0.725}},
		"helpful": {with(func(i *rating.Inputs) {
			i.Helpfulness = 1
		}), rating.Factors{C: 1, P: 0.5, V: 0.6}},
		"each penalty ends at one": {with(func(i *rating.Inputs) {
			i.Instability, i.BandAbuse, i.Spam = 2, 3, 4
		}), rating.Factors{C: 1, P: 0.5, V: 0.5, Q: 3}},
		"penalties add up": {with(func(i *rating.Inputs) {
			i.Instability, i.BandAbuse, i.Spam = 0.1, 0.2, 0.25
		}), rating.Factors{C: 1, P: 0.5, V: 0.5, Q: 0.55}},
		"nobody has a word against it": {with(func(i *rating.Inputs) {
			i.Adoption, i.Survival, i.Helpfulness = 1, 1, 1
		}), rating.Factors{C: 1, P: 0.5, V: 1}},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, row.of.Factors(), row.want) })
	}
}

func TestTransparency(t *testing.T) {
	all := accrual.Signal{Trace: true, Sources: true, Context: true, Verification: true, Timestamp: true, Schema: true}
	without := func(edit func(*accrual.Signal)) accrual.Signal {
		c := all
		edit(&c)
		return c
	}
	for name, row := range map[string]struct {
		of   accrual.Signal
		want float64
	}{
		"nothing":                         {accrual.Signal{}, 0},
		"everything":                      {all, 1},
		"no trace":                        {without(func(c *accrual.Signal) { c.Trace = false }), 0.8},
		"no sources":                      {without(func(c *accrual.Signal) { c.Sources = false }), 0.8},
		"no context":                      {without(func(c *accrual.Signal) { c.Context = false }), 0.85},
		"no time":                         {without(func(c *accrual.Signal) { c.Timestamp = false }), 0.9},
		"no schema has at most 0.3":       {without(func(c *accrual.Signal) { c.Schema = false }), 0.3},
		"no verification has at most 0.6": {without(func(c *accrual.Signal) { c.Verification = false }), 0.6},
		"neither": {without(func(c *accrual.Signal) {
			c.Schema, c.Verification = false, false
		}), 0.3},
		"below the caps":                         {accrual.Signal{Trace: true}, 0.2},
		"just below the cap of the schema":       {accrual.Signal{Context: true, Verification: true}, 0.3},
		"just below the cap of the verification": {accrual.Signal{Trace: true, Sources: true, Schema: true}, 0.6},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, rating.Transparency(row.of), row.want) })
	}
}

func TestStep(t *testing.T) {
	for _, row := range []struct{ old, today, want float64 }{
		{0, 0, 0}, {0, 40, 6}, {100, 100, 100}, {50, 50, 50},
		{0, 53.333333, 8}, {0, 53.34, 8}, {0, 100, 8}, // 0.15 of it, and at most 8
		{100, 46.666667, 92}, {100, 0, 92}, {60, 0, 52}, {50, 0, 42.5}, {8, 0, 6.8},
		{99, 100, 99.15},
	} {
		check.WantEqual(t, rating.Step(row.old, row.today), row.want)
	}
}
