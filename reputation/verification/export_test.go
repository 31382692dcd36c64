package verification

import "time"

// TextOf is the text of which the hash of a turn is made.
func TextOf(t Turn, previous string) []byte { return t.text(previous) }

// Until says when another try is allowed.
func (f Failures) Until() time.Time { return f.until() }

// Band is the band of a coverage.
func Band(coverage int64, privileged bool) string { return band(coverage, privileged) }

// Quote is the agent's text as a follow-up quotes it.
func Quote(text string) string { return quote(text) }

// Limits of open sessions.
const (
	OpenPerSubject = openPerSubject
	OpenInAll      = openInAll
)
