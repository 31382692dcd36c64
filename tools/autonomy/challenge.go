package autonomy

import (
	"fmt"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Challenge is a challenge that an agent was given in a session, and what it did (VIN: issue, commit, reveal). Times
// are Unix milliseconds; 0 says that it never came to it.
type Challenge struct {
	Nonce      string
	Issued     int64
	Committed  int64
	Commitment string // hex SHA-256; empty where there is none
	Revealed   int64
	Kept       bool // the calls until Revealed were what the commitment had said; false where nothing was revealed
}

// How long a challenge waits for its commitment, and how long for the reveal.
const (
	untilCommitted = 10 * time.Minute
	untilRevealed  = time.Hour
)

// every is how many calls there are from one challenge to the next, in the mean.
const every = 20

// habits are how those behind a session deal with challenges. They are assumed: see the README.
type habits struct {
	commits float64       // how likely they commit
	after   time.Duration // median until they do
	reveals float64       // how likely they reveal what they have committed to
	keeps   float64       // how likely they then have done it
}

var (
	agentHabits = habits{0.97, 3 * time.Second, 0.97, 0.92} // a client that answers by itself; a plan can change
	// the same, of an agent that does the same again and again
	loopHabits   = habits{0.95, time.Second, 0.97, 0.98}
	personHabits = habits{0.45, 2 * time.Minute, 0.75, 0.6} // by person, or not at all
	// a client that answers by itself; but a person decides what comes next
	helpedHabits = habits{0.9, 3 * time.Second, 0.9, 0.7}
	// few scripts know challenges; those that do know what comes
	scriptHabits  = habits{0.3, time.Second, 0.9, 0.95}
	fakeHabits    = habits{0.95, 2500 * time.Millisecond, 0.97, 0.9}  // made to look like an agent's
	simpleHabits  = habits{0.1, 5 * time.Second, 0.9, 0.9}            // an agent whose client is older than challenges
	trustedHabits = habits{0.97, 2500 * time.Millisecond, 0.98, 0.85} // an agent's client, beside which a person sits
)

// challenged goes on with the session's challenges before a call: the last one is revealed when its time has come, and
// a new one may be issued.
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

// standing returns what a receipt says of the last challenge: until it has been revealed, and once after that.
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
