package accrual_test

import (
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

func TestRatingTier(t *testing.T) {
	for _, row := range []struct {
		r    float64
		want string
	}{
		{100, "S"}, {85, "S"}, {84.999999, "A"}, {70, "A"}, {69.999999, "B"}, {55, "B"}, {54.999999, "C"}, {40, "C"},
		{39.999999, "D"}, {0, "D"},
	} {
		check.WantEqual(t, accrual.RatingTier(row.r), row.want)
	}
}
