package autonomy

import (
	"math"
	"math/rand/v2"
	"time"
)

// random draws numbers, times and choices.
type random struct{ *rand.Rand }

func newRandom(seed, stream uint64) random { return random{rand.New(rand.NewPCG(seed, stream))} }

func (d random) chance(p float64) bool { return d.Float64() < p }

// factor returns a log-normal factor with the median 1.
func (d random) factor(sigma float64) float64 { return math.Exp(sigma * d.NormFloat64()) }

// about returns a log-normal time, given its median.
func (d random) about(median time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(median) * d.factor(sigma))
}

// between returns a time of a uniform distribution.
func (d random) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Float64()*float64(most-least))
}

// count returns a log-normal number of at least 1, given its median.
func (d random) count(median, sigma float64) int {
	return max(1, int(math.Round(median*d.factor(sigma))))
}

// spread returns a log-uniform number between two bounds.
func (d random) spread(least, most int) int {
	return int(math.Round(float64(least) * math.Pow(float64(most)/float64(least), d.Float64())))
}

// rare returns an exponential time, given its mean.
func (d random) rare(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * d.ExpFloat64())
}

// pick returns one of some things.
func pick[T any](d random, of ...T) T { return of[d.IntN(len(of))] }

// favour returns one of a list, with the first likelier (Zipf).
func favour[T any](d random, of []T) T {
	return of[int(float64(len(of))*math.Pow(d.Float64(), 2.2))]
}
