package dispute

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/reputation/accrual"
)

// perDay is the number of disputes that an agent of each tier may open per period: a day, if it has lost none lately.
var perDay = map[string]int{
	accrual.TierNew: 1, accrual.TierBuilding: 2, accrual.TierEstablished: 4, accrual.TierTrusted: 8,
	accrual.TierVerified: 16,
}

const (
	day = int64(24 * time.Hour / time.Second)
	// lossCounts is the time for which a lost dispute doubles the period, up to longest.
	lossCounts = 30 * day
	longest    = 16 * day
	kept       = lossCounts
)

// Allowed is a number of disputes per period.
type Allowed struct {
	Disputes int
	Period   time.Duration
}

// Allowed returns what an agent of a tier may open now. Each dispute that it opened and lost in the last 30 days
// doubles the period, up to 16 days (seed: Rate limit on challenger's future challenges).
func (b *Book) Allowed(id, tier string, now time.Time) Allowed {
	period := day
	if a := b.agents[id]; a != nil {
		for range since(a.lost, b.Time(now)-lossCounts) {
			period = min(2*period, longest)
		}
	}
	return Allowed{perDay[tier], time.Duration(period) * time.Second}
}

func (b *Book) wait(id, tier string, now time.Time) int64 {
	may, at := b.Allowed(id, tier, now), b.Time(now)
	period := int64(may.Period / time.Second)
	if may.Disputes == 0 { // unknown tier
		return period
	}
	a := b.agents[id]
	if a == nil {
		return 0
	}
	recent := since(a.opened, at-period)
	if len(recent) < may.Disputes {
		return 0
	}
	return recent[len(recent)-may.Disputes] + period - at
}

// since returns those of ascending times that are later than a moment.
func since(times []int64, moment int64) []int64 {
	at := slices.IndexFunc(times, func(t int64) bool { return t > moment })
	if at < 0 {
		return nil
	}
	return times[at:]
}

// lately returns a copy of the times that can still count.
func lately(times []int64, at int64) []int64 { return slices.Clone(since(times, at-kept)) }
