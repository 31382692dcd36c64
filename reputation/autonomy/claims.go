package autonomy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
)

// MaxLifetime bounds exp - iat of a score, because a session and its agent's standing can change.
const MaxLifetime = 10 * time.Minute

var Kind = evidence.NewKind("autonomy-score+jwt", evidence.PurposeAppraiser, MaxLifetime, check)

// Claims are the score of one session, and name everything from which anyone can compute it again.
type Claims struct {
	evidence.Registered
	evidence.KeyClaims

	Owner        string `json:"owner" form:"name:256"` // of the receipts; see package interaction
	Agent        string `json:"agent" form:"name:256"`
	Session      string `json:"session_id" form:"name:256"`
	HeadHash     string `json:"headHash" form:"hash"` // of the last receipt
	HeadNumber   int64  `json:"headNumber" form:"time"`
	Closed       bool   `json:"closed"` // the last receipt closes the session
	Version      string `json:"scoringVersion" form:"name:256"`
	ScoringHash  string `json:"scoringHash" form:"hash"`
	BaselineHash string `json:"baselineHash,omitempty" form:"hash"` // empty without a baseline

	Score

	// Probabilistic is always true, and NonHumanIdentityProven always false: a score is a likelihood.
	Probabilistic          bool `json:"probabilistic" form:"true"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven" form:"false"`
}

// NewClaims returns the claims, which the signer completes, for a session with at least one receipt.
func NewClaims(s *Session, baselineHash string, score Score) Claims {
	return Claims{
		Owner: s.owner, Agent: s.agent, Session: s.id, HeadHash: s.head, HeadNumber: s.number, Closed: s.closed,
		Version: formula.Version, ScoringHash: ScoringHash, BaselineHash: baselineHash, Score: score, Probabilistic: true,
	}
}

const maxDec = 1e-6

func check(c *Claims) error {
	if err := accrual.CheckForm(c); err != nil {
		return err
	}
	switch {
	case c.KeyCustody == "" || len(c.KeyCustody) > 256:
		return errors.New("keyCustody is missing or too long")
	case c.OtherCalls > c.HeadNumber-c.N:
		return errors.New("it counts more calls than receipts")
	case c.ModelHosts == nil || c.Interval.LeaveOut == nil || c.Signals.Knowledge.Domains == nil:
		return errors.New("a list is null")
	case CheckHosts(c.ModelHosts) != nil || !slices.IsSorted(c.ModelHosts):
		return errors.New("modelHosts is not a sorted list of hosts")
	}
	return c.Score.check(c.ScoringHash == ScoringHash)
}

// Check is for [accrual.CheckForm], like that of a signal.
func (c Coverage) Check() error {
	if c.CallsObserved < 0 || c.CallsObserved > c.Calls || c.BytesObserved < 0 || c.BytesObserved > c.Bytes ||
		!within(c.Share, 1) {
		return errors.New("coverage counts more as observed than there was")
	}
	return nil
}

// within reports whether x is from 0 to most, within rounding.
func within(x, most float64) bool { return x >= 0 && x <= most+maxDec }

// check refuses a score that contradicts itself. Scores by other formulas get only the general checks.
func (s *Score) check(ours bool) error {
	i := s.Interval
	switch {
	case !within(i.Lower, s.Composite) || i.Upper < s.Composite-maxDec || !within(i.Upper, 100) || !within(i.Level, 1):
		return errors.New("the interval does not contain the score, or is not within 0 to 100")
	case !within(s.SeedWeighted, 100):
		return errors.New("seedWeighted is not from 0 to 100")
	}
	composite, seed := 0.0, 0.0
	for at, signal := range s.Signals.list() {
		weight := formula.Weights[signals[at]]
		composite += 100 * weight * signal.Score / formula.Caps[signals[at]]
		seed += weight * signal.Score
	}
	if ours && (math.Abs(composite-s.Composite) > maxDec || math.Abs(seed-s.SeedWeighted) > maxDec ||
		s.Band != bandOf(s.Composite)) {
		return errors.New("the score does not follow from its signals")
	}
	return nil
}

func (s *Signals) list() [5]*Signal {
	return [5]*Signal{&s.Timing.Signal, &s.Recursion.Signal, &s.Knowledge.Signal, &s.Entropy.Signal, &s.Challenge.Signal}
}

func (s Signal) Check() error {
	if s.Parts == nil {
		return errors.New("a list is null")
	}
	sum := 0.0
	for _, p := range s.Parts {
		switch {
		case !within(p.Points, p.Of):
			return fmt.Errorf("the part %.40q has more points than it can have", p.Name)
		case p.State == notMeasured.String() && (p.Points != 0 || p.Value != 0):
			return fmt.Errorf("the part %.40q was not measured but has points", p.Name)
		}
		sum += p.Points
	}
	if math.Abs(sum-s.Score) > maxDec {
		return errors.New("a signal's points differ from those of its parts")
	}
	return nil
}
