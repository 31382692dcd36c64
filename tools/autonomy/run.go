package autonomy

import (
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Session is a synthetic session.
type Session struct {
	Group, Kind string
	ID          string
	Receipts    []interaction.Receipt // the whole, verified chain
	Challenges  []Challenge           // in order
}

// run is a session in the making. It stops at its first error.
type run struct {
	random
	*sidecar
	err        error
	made, want int // calls to models
	habits     habits
	challenges []Challenge
	reveals    bool          // the last challenge will be revealed
	told       string        // nonce of the last challenge that a receipt called revealed
	connecting time.Duration // median time to connect
}

// more reports whether the session has calls left to make.
func (r *run) more() bool { return r.err == nil && r.made < r.want }

// wait lets time pass.
func (r *run) wait(d time.Duration) { r.until(r.now().Add(d)) }

// newExchange begins a call.
func (r *run) newExchange(m *model, body []byte) *exchange {
	f := &exchange{to: m, body: body, upload: r.about(2*time.Millisecond, 0.6), connect: r.about(time.Millisecond, 0.5),
		slow: r.about(200*time.Microsecond, 0.8)}
	if r.chance(0.15) { // a new connection
		f.connect += r.about(r.connecting, 0.3)
	}
	return f
}

// exchange sends calls, which may overlap.
func (r *run) exchange(all ...*exchange) {
	if r.err != nil {
		return
	}
	r.made += len(all)
	r.challenged()
	r.err = r.carry(all...)
}

// request sends a conversation and adds the answer said. Failed calls are retried, as clients do.
func (r *run) request(m *model, t *conversation, said reply) {
	for attempt := 0; r.err == nil; attempt++ {
		f := r.newExchange(m, t.body())
		if attempt == 4 || !r.chance(m.fails) {
			f.answer = m.answers(r.random, t, len(f.body), said, false)
			r.exchange(f)
			t.say(said)
			return
		}
		switch {
		case r.chance(0.1):
			f.unsent = r.chance(0.5) // otherwise the outcome is unknown
		case r.chance(0.15):
			f.answer = m.answers(r.random, t, len(f.body), said, false)
			f.answer.cut = true
			f.answer.pieces = f.answer.pieces[:len(f.answer.pieces)/2]
		default:
			f.answer = m.refusal(r.random)
		}
		r.exchange(f)
		r.wait(time.Duration(float64(time.Second)*float64(int(1)<<attempt)) * time.Duration(50+r.IntN(100)) / 100)
	}
}
