package autonomy

import "time"

// incidentResponder: alerts wake it after hours of silence.
func incidentResponder(r *run) {
	a := newAgent(r, r.provider(), operating)
	a.relayed = true
	for r.more() {
		for range 1 + r.IntN(3) {
			a.task(a.writer.text(50), r.count(8, 0.6))
		}
		r.wait(time.Minute + r.rare(70*time.Minute))
	}
}

// reviewer: a webhook for each change, mostly in working hours.
func reviewer(r *run) {
	a := newAgent(r, r.provider(), coding)
	for r.more() {
		a.conversation.messages = nil
		a.task("Review:\n"+a.workspace.code(r.count(40, 0.8)), r.count(5, 0.6))
		pause := r.rare(18 * time.Minute)
		if hour := r.now().Hour(); hour < 7 || hour > 19 {
			pause *= 6
		}
		r.wait(pause)
	}
}

// digest: every hour, on the hour, a few calls.
func digest(r *run) {
	a := newAgent(r, r.provider(), searching)
	for r.more() {
		a.conversation.messages = nil
		a.task("Write the digest of this hour.", r.count(4, 0.4))
		r.until(r.now().Truncate(time.Hour).Add(time.Hour + r.about(2*time.Second, 0.8)))
	}
}
