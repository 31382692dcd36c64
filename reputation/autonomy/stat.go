package autonomy

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

func clamp(x float64) float64 { return max(0, min(1, x)) }

// median returns the median of values, or 0 without any. It sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	half := len(values) / 2
	switch {
	case len(values) == 0:
		return 0
	case len(values)%2 == 1:
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}

// medianMAD returns the median of values and of their distances from it. It overwrites values.
func medianMAD(values []float64) (middle, mad float64) {
	middle = median(values)
	for i, v := range values {
		values[i] = math.Abs(v - middle)
	}
	return middle, median(values)
}

func equal(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] })
}

// variance returns the sample variance, exactly 0 if all values are equal: sums of large values are rounded.
func variance(values []float64) float64 {
	if len(values) < 2 || equal(values) {
		return 0
	}
	return stat.Variance(values, nil)
}

// variation returns the coefficient of variation of non-negative values.
func variation(values []float64) float64 {
	if equal(values) {
		return 0
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	return deviation / mean
}

// determination returns R² of a rising line through the pairs.
func determination(x, y []float64) float64 {
	if equal(x) || equal(y) {
		return 0
	}
	r := max(0, stat.Correlation(x, y, nil))
	return min(1, r*r)
}

// slope returns the median slope of pairs half the points apart whose x rises (Theil's method).
func slope(x, y []float64) float64 {
	half := (len(x) + 1) / 2
	slopes := make([]float64, 0, half)
	for i := range len(x) - half {
		if run := x[i+half] - x[i]; run > 0 {
			slopes = append(slopes, (y[i+half]-y[i])/run)
		}
	}
	return median(slopes)
}
