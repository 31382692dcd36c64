package accrual

import (
	"fmt"
	"slices"
)

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

// side is a dispute that accuses the agent, or an ended one that it raised.
type side struct {
	Dispute
	Raised bool
}

// addDispute adds a dispute. Losing as the accused cancels points gained earlier, but not points lost.
func (a *Account) addDispute(d Dispute, raised bool) (bool, error) {
	old, known := a.disputes[d.ID]
	switch {
	case known && old.Raised != raised:
		return false, fmt.Errorf("accrual: the agent cannot have raised the dispute %s and be accused in it", d.ID)
	case known && (d == old.Dispute || d.Outcome == ""):
		return false, nil
	case old.Outcome != "":
		return false,
			fmt.Errorf("accrual: the dispute %s ended as %s and cannot end again as %s", d.ID, old.Outcome, d.Outcome)
	}
	a.disputes[d.ID] = side{d, raised}
	switch {
	case raised && d.Bonus:
		a.addPoints(WonBonus)
	case raised && d.Outcome == TargetWins:
		a.addPoints(-RaisedLoss)
	case raised:
	case d.Outcome == ChallengerWins:
		a.flagged = len(a.events)
		a.points = slices.DeleteFunc(a.points, func(p points) bool { return p.value > 0 })
	case d.Bonus:
		a.addPoints(KeptBonus)
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
