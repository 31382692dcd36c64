package accrual_test

import (
	"math"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

// TestR: what the golden vectors do not show.
func TestR(t *testing.T) {
	for name, row := range map[string]struct {
		of   accrual.Factors
		want float64
	}{
		"one factor of nothing":        {accrual.Factors{C: 1, T: 1, P: 0, V: 1}, 0},
		"no more than all":             {accrual.Factors{C: 2, T: 1, P: 1, V: 1}, 100},
		"no less than nothing":         {accrual.Factors{C: -1, T: 1, P: 1, V: 1}, 0},
		"what is no number is nothing": {accrual.Factors{C: math.NaN(), T: 1, P: 1, V: 1}, 0},
		"each factor counts":           {accrual.Factors{C: 0.5, T: 0.5, P: 0.5, V: 0.5}, 6.25},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, row.of.R(), row.want) })
	}
}

// TestFactors: the golden vectors have what does not reach the bounds.
func TestFactors(t *testing.T) {
	of := but(accrual.Inputs{Adoption: 1, Survival: 1, Helpfulness: 1}, "Instability 2, BandAbuse 3, Spam 4")
	check.WantEqual(t, of.Factors(), accrual.Factors{C: 1, P: 0.5, V: 1, Q: 3})
}

// TestTransparency: what the golden vectors do not show.
func TestTransparency(t *testing.T) {
	for name, row := range map[string]struct {
		of   accrual.Signal
		want float64
	}{
		"nothing":                                {accrual.Signal{}, 0},
		"below the caps":                         {accrual.Signal{Trace: true}, 0.2},
		"just below the cap of the schema":       {accrual.Signal{Context: true, Verification: true}, 0.3},
		"just below the cap of the verification": {accrual.Signal{Trace: true, Sources: true, Schema: true}, 0.6},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, accrual.Transparency(row.of), row.want) })
	}
}

func TestStep(t *testing.T) {
	for _, row := range []struct{ old, today, want float64 }{
		{0, 0, 0}, {0, 40, 6}, {100, 100, 100}, {50, 50, 50},
		{0, 53.333333, 8}, {0, 53.34, 8}, {0, 100, 8}, // 0.15 of it, and at most 8
		{100, 46.666667, 92}, {100, 0, 92}, {60, 0, 52}, {50, 0, 42.5}, {8, 0, 6.8},
		{99, 100, 99.15},
	} {
		check.WantEqual(t, accrual.Step(row.old, row.today), row.want)
	}
}
