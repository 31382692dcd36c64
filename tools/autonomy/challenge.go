package autonomy

import (
	"fmt"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Challenge is a challenge in a session and the agent's answer (VIN: issue, commit, reveal). Times are Unix
// milliseconds, or 0 for never.
type Challenge struct {
	Nonce      string
	Issued     int64
	Committed  int64
	Commitment string // hex SHA-256, or empty
	Revealed   int64
	Kept       bool // the calls until Revealed kept to the commitment
}

// Bounds on the time to commit and to reveal.
const (
	untilCommitted = 10 * time.Minute
	untilRevealed  = time.Hour
)

// every is the mean number of calls between challenges.
const every = 20

// habits are assumptions about how challenges are answered.
type habits struct {
	commits float64       // probability to commit
	after   time.Duration // median time to commit
	reveals float64       // probability to reveal a commitment
	keeps   float64       // probability that it was kept
}

var (
	agentHabits   = habits{0.97, 3 * time.Second, 0.97, 0.92} // an automatic client whose plan can change
	loopHabits    = habits{0.95, time.Second, 0.97, 0.98}
	personHabits  = habits{0.45, 2 * time.Minute, 0.75, 0.6} // by hand, or not at all
	helpedHabits  = habits{0.9, 3 * time.Second, 0.9, 0.7}
	scriptHabits  = habits{0.3, time.Second, 0.9, 0.95}
	fakeHabits    = habits{0.95, 2500 * time.Millisecond, 0.97, 0.9}  // made to look like an agent's
	simpleHabits  = habits{0.1, 5 * time.Second, 0.9, 0.9}            // an agent whose client is older than challenges
	trustedHabits = habits{0.97, 2500 * time.Millisecond, 0.98, 0.85} // an agent's client, beside which a person sits
)

// challenged may reveal the last challenge and issue another one before a call.
func (r *run) challenged() {
	now := r.now().UnixMilli()
	if n := len(r.challenges); n > 0 {
		c := &r.challenges[n-1]
		if r.reveals && c.Revealed == 0 && c.Commitment != "" && now > c.Committed && !c.lapsed(now) && r.chance(0.2) {
			c.Revealed, c.Kept = now, r.chance(r.habits.keeps)
		}
		if c.Revealed == 0 && !c.lapsed(now) {
			return
		}
	}
	if !r.chance(1.0 / every) {
		return
	}
	c := Challenge{Nonce: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()), Issued: now}
	r.reveals = r.chance(r.habits.reveals)
	if delay := r.about(r.habits.after, 0.6); r.chance(r.habits.commits) && delay < untilCommitted {
		c.Committed, c.Commitment = now+delay.Milliseconds(), hashOf(c.Nonce)
	}
	r.challenges = append(r.challenges, c)
}

// lapsed reports whether a challenge is over without an answer.
func (c *Challenge) lapsed(now int64) bool {
	return c.Revealed == 0 &&
		(c.Commitment == "" && now > c.Issued+untilCommitted.Milliseconds() || now > c.Issued+untilRevealed.Milliseconds())
}

// standing returns the reference to the last challenge, until one receipt has said that it is revealed.
func (r *run) standing() *interaction.ChallengeRef {
	if len(r.challenges) == 0 {
		return nil
	}
	c, now := &r.challenges[len(r.challenges)-1], r.now().UnixMilli()
	if c.lapsed(now) || c.Revealed != 0 && r.told == c.Nonce {
		return nil
	}
	ref := &interaction.ChallengeRef{ChallengeNonce: c.Nonce}
	if c.Commitment != "" && now >= c.Committed {
		ref.CommitmentHash = c.Commitment
	}
	if c.Revealed != 0 {
		ref.CommitmentRevealed, r.told = true, c.Nonce
	}
	return ref
}
