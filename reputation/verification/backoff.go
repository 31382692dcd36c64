package verification

import "time"

const (
	freeFailures = 3 // consecutive failures before the first wait
	firstBackoff = 30 * time.Second
	maxBackoff   = 24 * time.Hour
)

// Failures counts the consecutive failed verifications of a subject or a key. A success resets it.
type Failures struct {
	Name  string
	Count int64
	Last  time.Time
}

// until returns when another try is allowed: 30 s after the third failure, doubled for each further one, at most 24 h.
func (f Failures) until() time.Time {
	if f.Count < freeFailures {
		return time.Time{}
	}
	wait := maxBackoff
	if doublings := f.Count - freeFailures; doublings < 12 { // 2^12 times 30 s is more than a day
		wait = min(wait, firstBackoff<<doublings)
	}
	return f.Last.Add(wait)
}

func nameOfSubject(subject string) string { return "subject:" + subject }
func nameOfKey(key Key) string            { return "key:" + key.String() }
