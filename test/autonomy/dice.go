package autonomy

import (
	"math"
	"math/rand/v2"
	"time"
)

// dice draws what is left to chance.
type dice struct{ *rand.Rand }

func newDice(seed, stream uint64) dice { return dice{rand.New(rand.NewPCG(seed, stream))} }

func (d dice) chance(p float64) bool { return d.Float64() < p }

// factor returns a log-normal factor with the median 1.
func (d dice) factor(sigma float64) float64 { return math.Exp(sigma * d.NormFloat64()) }

// about returns a log-normal time, given its median.
func (d dice) about(median time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(median) * d.factor(sigma))
}

// between returns a time of a uniform distribution.
func (d dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Float64()*float64(most-least))
}

// count returns a log-normal number of at least 1, given its median.
func (d dice) count(median, sigma float64) int {
	return max(1, int(math.Round(median*d.factor(sigma))))
}

// spread returns a number between two bounds, whose logarithm is uniform: small ones are as likely as large ones.
func (d dice) spread(least, most int) int {
	return int(math.Round(float64(least) * math.Pow(float64(most)/float64(least), d.Float64())))
}

// rare returns an exponential time, given its mean.
func (d dice) rare(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * d.ExpFloat64())
}

// pick returns one of some things.
func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// favour returns one of a list; the first are likelier, as words of a text are: see Zipf.
func favour[T any](d dice, of []T) T {
	return of[int(float64(len(of))*math.Pow(d.Float64(), 2.2))]
}
