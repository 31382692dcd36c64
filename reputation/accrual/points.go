package accrual

import "fmt"

// What the end of a dispute adds to a score, in points, or takes from it (seed: Consequences). The seed names no figures.
const (
	WonBonus    = 2 // who has raised a dispute and won it
	KeptBonus   = 1 // who was accused and has won
	RaisedLoss  = 5 // who has raised a dispute and lost it: taken
	MaxBonus    = 5 // all that is added; agents of two owners can let each other win
	MaxLoss     = 100
	PointsCount = Window // events that have to come until points count no more
)

// points are points, and how many events the log had when they came.
type points struct {
	value int64
	after int
}

func (a *Account) addPoints(value int64) { a.points = append(a.points, points{value, len(a.events)}) }

// addDispute takes in a dispute in which the agent is accused. One that it loses takes what it has gained by others; what it has lost by them stays.
func (a *Account) addDispute(d Dispute) (bool, error) {
	old, known := a.disputes[d.ID]
	switch {
	case known && (d == old || d.Outcome == ""):
		return false, nil
	case old.Outcome != "":
		return false, fmt.Errorf("accrual: the dispute %s ended as %s, and cannot end again as %s", d.ID, old.Outcome, d.Outcome)
	case a.raised[d.ID] != Raised{}:
		return false, fmt.Errorf("accrual: the agent has raised the dispute %s, and cannot be accused in it", d.ID)
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

// addRaised takes in the end of a dispute that the agent has raised.
func (a *Account) addRaised(r Raised) (bool, error) {
	old, known := a.raised[r.ID]
	_, accused := a.disputes[r.ID]
	switch {
	case known && r == old:
		return false, nil
	case known:
		return false, fmt.Errorf("accrual: the dispute %s ended as %s, and cannot end again as %s", r.ID, old.Outcome, r.Outcome)
	case accused:
		return false, fmt.Errorf("accrual: the agent is accused in the dispute %s, and cannot have raised it", r.ID)
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

// disputePoints returns the points that count now: those after which fewer than [PointsCount] events have come.
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
