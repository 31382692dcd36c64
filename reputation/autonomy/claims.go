package autonomy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// MaxLifetime bounds exp - iat of a score, because a session and its agent's standing can change.
const MaxLifetime = 10 * time.Minute

// Kind is the kind of score tokens.
var Kind = evidence.NewKind("autonomy-score+jwt", evidence.PurposeAppraiser, MaxLifetime, check)

// Claims are the score of one session, and name everything from which anyone can compute it again.
type Claims struct {
	evidence.Registered
	evidence.KeyClaims

	Owner        string `json:"owner"` // of the receipts; see package interaction
	Agent        string `json:"agent"`
	Session      string `json:"session_id"`
	HeadHash     string `json:"headHash"` // of the last receipt
	HeadNumber   int64  `json:"headNumber"`
	Closed       bool   `json:"closed"` // the last receipt closes the session
	Version      string `json:"scoringVersion"`
	ScoringHash  string `json:"scoringHash"`
	BaselineHash string `json:"baselineHash,omitempty"` // empty without a baseline

	Score

	// Probabilistic is always true, and NonHumanIdentityProven always false: a score is a likelihood.
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
}

// NewClaims returns the claims for a session with at least one receipt. baselineHash may be empty. The signer adds the
// rest.
func NewClaims(s *Session, baselineHash string, score Score) Claims {
	return Claims{
		Owner: s.owner, Agent: s.agent, Session: s.id, HeadHash: s.head, HeadNumber: s.number, Closed: s.closed,
		Version: formula.Version, ScoringHash: ScoringHash, BaselineHash: baselineHash, Score: score, Probabilistic: true,
	}
}

// Bounds on claims.
const (
	maxName = 256 // bytes
	maxDec  = 1e-6
)

func check(c *Claims) error {
	for _, name := range []string{c.Owner, c.Agent, c.Session, c.Version, c.KeyCustody} {
		if name == "" || len(name) > maxName {
			return fmt.Errorf("owner, agent, session_id, scoringVersion or keyCustody is missing, or longer than %d bytes",
				maxName)
		}
	}
	switch {
	case !c.Probabilistic || c.NonHumanIdentityProven:
		return errors.New("it claims certainty, or that no human was involved")
	case c.HeadNumber < 1 || !evidence.IsHash(c.HeadHash) || !evidence.IsHash(c.ScoringHash) || c.BaselineHash != "" &&
		!evidence.IsHash(c.BaselineHash):
		return errors.New("headHash, scoringHash or baselineHash is not a lowercase hex SHA-256, or headNumber is below 1")
	case c.N < 0 || c.OtherCalls < 0 || c.OtherCalls > c.HeadNumber-c.N:
		return errors.New("it counts more calls than receipts")
	case c.ModelHosts == nil || c.Interval.LeaveOut == nil || c.Signals.Knowledge.Domains == nil:
		return errors.New("a list is null")
	case CheckHosts(c.ModelHosts) != nil || !slices.IsSorted(c.ModelHosts):
		return errors.New("modelHosts is not a sorted list of hosts")
	}
	if err := c.Score.check(c.ScoringHash == ScoringHash); err != nil {
		return err
	}
	return c.Coverage.check()
}

func (c Coverage) check() error {
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
	case s.Band == "" || len(s.Band) > maxName:
		return errors.New("band is missing")
	}
	composite, seed := 0.0, 0.0
	for at, signal := range s.Signals.list() {
		if err := signal.check(); err != nil {
			return err
		}
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

func (s *Signal) check() error {
	if s.Parts == nil {
		return errors.New("a list is null")
	}
	sum := 0.0
	for _, p := range s.Parts {
		switch {
		case p.Name == "" || len(p.Name) > maxName || p.N < 0 || !slices.Contains(stateNames[:], p.State):
			return fmt.Errorf("a part lacks its name, or its state is %.40q", p.State)
		case !within(p.Points, p.Of):
			return fmt.Errorf("the part %.40q has more points than it can have", p.Name)
		case p.State == notMeasured.String() && (p.Points != 0 || p.Value != 0):
			return fmt.Errorf("the part %.40q was not measured but has points", p.Name)
		}
		sum += p.Points
	}
	if !slices.Contains(stateNames[:], s.State) || math.Abs(sum-s.Score) > maxDec {
		return errors.New("a signal's points differ from those of its parts")
	}
	return nil
}
