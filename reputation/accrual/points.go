package accrual

import "fmt"

// Points that the end of a dispute adds or takes (seed: Consequences; the figures are ours).
const (
	WonBonus    = 2 // for winning a dispute one has raised
	KeptBonus   = 1 // for winning as the accused
	RaisedLoss  = 5 // taken for losing a dispute one has raised
	MaxBonus    = 5 // in all: two owners could let each other's agents win
	MaxLoss     = 100
	PointsCount = Window // events after which points expire
)

type points struct {
	value int64
	after int
}

func (a *Account) addPoints(value int64) { a.points = append(a.points, points{value, len(a.events)}) }

// addDispute adds a dispute that accuses the agent. Losing it cancels points gained earlier, but not points lost.
func (a *Account) addDispute(d Dispute) (bool, error) {
	old, known := a.disputes[d.ID]
	switch {
	case known && (d == old || d.Outcome == ""):
		return false, nil
	case old.Outcome != "":
		return false,
			fmt.Errorf("accrual: the dispute %s ended as %s and cannot end again as %s", d.ID, old.Outcome, d.Outcome)
	case a.raised[d.ID] != Raised{}:
		return false, fmt.Errorf("accrual: the agent raised the dispute %s and cannot be accused in it", d.ID)
	}
	a.disputes[d.ID] = d
	switch {
	case d.Outcome == ChallengerWins:
		a.flagged = len(a.events)
		kept := a.points[:0]
		for _, p := range a.points {
			if p.value < 0 {
				kept = append(kept, p)
			}
		}
		a.points = kept
	case d.Bonus:
		a.addPoints(KeptBonus)
	}
	return true, nil
}

func (a *Account) addRaised(r Raised) (bool, error) {
	old, known := a.raised[r.ID]
	_, accused := a.disputes[r.ID]
	switch {
	case known && r == old:
		return false, nil
	case known:
		return false,
			fmt.Errorf("accrual: the dispute %s ended as %s and cannot end again as %s", r.ID, old.Outcome, r.Outcome)
	case accused:
		return false, fmt.Errorf("accrual: the agent is accused in the dispute %s and cannot have raised it", r.ID)
	}
	a.raised[r.ID] = r
	switch {
	case r.Bonus:
		a.addPoints(WonBonus)
	case r.Outcome == TargetWins:
		a.addPoints(-RaisedLoss)
	}
	return true, nil
}

func (a *Account) disputePoints() int64 {
	gained, lost := int64(0), int64(0)
	for _, p := range a.points {
		switch {
		case len(a.events)-p.after >= PointsCount:
		case p.value > 0:
			gained += p.value
		default:
			lost -= p.value
		}
	}
	return min(gained, MaxBonus) - min(lost, MaxLoss)
}
