package accrual

import "math"

// The constants of seed 002. inputs.go has those that the seed leaves open.
const (
	drawdownWeight   = 1.5
	logistic         = 1.2
	schemaCap        = 0.30 // of the transparency of a signal outside the schema
	verificationCap  = 0.60 // of the transparency of an unverified agent
	weightOfNew      = 0.15
	weightOfOld      = 0.85
	MaxStep          = 8.0
	violationPenalty = 0.25
	halfLife         = 7 * day
)

const day = 86_400 // seconds

// Inputs are the inputs of the factors, each rounded by [Round].
type Inputs struct {
	Sigma        float64 `json:"sigma"`        // spread of the outcomes, 0 to 0.5
	Drawdown     float64 `json:"drawdown"`     // 0 to 1
	Transparency float64 `json:"transparency"` // mean of the signals, 0 to 1
	RAP          float64 `json:"rap"`          // risk-adjusted performance
	Adoption     float64 `json:"adoption"`     // U, 0 to 1
	Survival     float64 `json:"survival"`     // S, 0 to 1
	Helpfulness  float64 `json:"helpfulness"`  // H, 0 to 1
	Instability  float64 `json:"instability"`  // 0 to 1
	BandAbuse    float64 `json:"band_abuse"`   // 0 to 1
	Spam         float64 `json:"spam"`         // 0 to 1
}

// Factors are the five factors of the formula.
type Factors struct {
	C float64 `json:"C"` // consistency, 0 to 1
	T float64 `json:"T"` // transparency, 0 to 1
	P float64 `json:"P"` // risk-adjusted performance, 0 to 1
	V float64 `json:"V"` // validation by peers, 0 to 1
	Q float64 `json:"Q"` // penalty for volatility, 0 to 3
}

// Factors computes the factors.
func (i Inputs) Factors() Factors {
	return Factors{
		C: Round(math.Exp(-i.Sigma) * math.Exp(-drawdownWeight*i.Drawdown)),
		T: Round(clamp(i.Transparency, 0, 1)),
		P: Round(1 / (1 + math.Exp(-logistic*i.RAP))),
		V: Round(clamp(weighted(part{0.35, i.Adoption}, part{0.45, i.Survival}, part{0.20, i.Helpfulness}), 0, 1)),
		Q: Round(clamp(i.Instability, 0, 1) + clamp(i.BandAbuse, 0, 1) + clamp(i.Spam, 0, 1)),
	}
}

// R returns the rating by the factors alone, 0 to 100.
func (f Factors) R() float64 {
	return Round(100 * clamp(f.C*f.T*f.P*f.V/(1+f.Q), 0, 1))
}

// Step returns the rating one step from old towards today's.
func Step(old, today float64) float64 {
	next := weighted(part{weightOfNew, today}, part{weightOfOld, old})
	return Round(clamp(clamp(next, old-MaxStep, old+MaxStep), 0, 100))
}

// Transparency returns the worth of one signal, 0 to 1.
func Transparency(s Signal) float64 {
	sum := weighted(
		part{0.20, one(s.Trace)}, part{0.20, one(s.Sources)}, part{0.15, one(s.Context)}, part{0.15, one(s.Verification)},
		part{0.10, one(s.Timestamp)}, part{0.20, one(s.Schema)},
	)
	if !s.Schema {
		sum = min(sum, schemaCap)
	}
	if !s.Verification {
		sum = min(sum, verificationCap)
	}
	return Round(sum)
}

type part struct{ weight, value float64 }

// weighted adds parts. The conversion prevents fused multiply-add, which would round differently on some machines.
func weighted(parts ...part) (sum float64) {
	for _, p := range parts {
		sum += float64(p.weight * p.value)
	}
	return sum
}

// clamp bounds a value. NaN becomes low.
func clamp(v, low, high float64) float64 {
	if !(v > low) {
		return low
	}
	return min(v, high)
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
