package rating_test

import (
	"math"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
	"github.com/actionproof/mediator/test/check"
)

// TestR: what the golden vectors do not show.
func TestR(t *testing.T) {
	for name, row := range map[string]struct {
		of   rating.Factors
		want float64
	}{
		"one factor of nothing":        {rating.Factors{C: 1, T: 1, P: 0, V: 1}, 0},
		"no more than all":             {rating.Factors{C: 2, T: 1, P: 1, V: 1}, 100},
		"no less than nothing":         {rating.Factors{C: -1, T: 1, P: 1, V: 1}, 0},
		"what is no number is nothing": {rating.Factors{C: math.NaN(), T: 1, P: 1, V: 1}, 0},
		"each factor counts":           {rating.Factors{C: 0.5, T: 0.5, P: 0.5, V: 0.5}, 6.25},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, row.of.R(), row.want) })
	}
}

func TestFactors(t *testing.T) {
	half := rating.Inputs{Adoption: 0.5, Survival: 0.5, Helpfulness: 0.5}
	for name, row := range map[string]struct {
		of   rating.Inputs
		want rating.Factors
	}{
		"nothing against it": {half, rating.Factors{C: 1, P: 0.5, V: 0.5}},
		"a spread":           {but(half, "Sigma 0.2"), rating.Factors{C: 0.818731, P: 0.5, V: 0.5}},
		"a fall":             {but(half, "Drawdown 0.2"), rating.Factors{C: 0.740818, P: 0.5, V: 0.5}},
		"a fall to nothing":  {but(half, "Drawdown 1"), rating.Factors{C: 0.22313, P: 0.5, V: 0.5}},
		"both":               {but(half, "Sigma 0.2, Drawdown 0.2"), rating.Factors{C: 0.606531, P: 0.5, V: 0.5}},
		"a good performance": {but(half, "RAP 1"), rating.Factors{C: 1, P: 0.768525, V: 0.5}},
		"a bad one":          {but(half, "RAP -1"), rating.Factors{C: 1, P: 0.231475, V: 0.5}},
		"transparent":        {but(half, "Transparency 0.9"), rating.Factors{C: 1, T: 0.9, P: 0.5, V: 0.5}},
		"adopted":            {but(half, "Adoption 1"), rating.Factors{C: 1, P: 0.5, V: 0.675}},
		"never refuted":      {but(half, "Survival 1"), rating.Factors{C: 1, P: 0.5, V: 0.725}},
		"helpful":            {but(half, "Helpfulness 1"), rating.Factors{C: 1, P: 0.5, V: 0.6}},
		"each penalty ends at one": {but(half, "Instability 2, BandAbuse 3, Spam 4"),
			rating.Factors{C: 1, P: 0.5, V: 0.5, Q: 3}},
		"penalties add up": {but(half, "Instability 0.1, BandAbuse 0.2, Spam 0.25"),
			rating.Factors{C: 1, P: 0.5, V: 0.5, Q: 0.55}},
		"nobody has a word against it": {but(half, "Adoption 1, Survival 1, Helpfulness 1"),
			rating.Factors{C: 1, P: 0.5, V: 1}},
	} {
		t.Run(name, func(t *testing.T) { check.WantEqual(t, row.of.Factors(), row.want) })
	}
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
