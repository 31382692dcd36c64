package verification

import "time"

func TextOf(t Turn, previous string) []byte { return t.text(previous) }

func (f Failures) Until() time.Time { return f.until() }

func Band(coverage int64, privileged bool) string { return band(coverage, privileged) }

func Quote(text string) string { return quote(text) }

// Limits of open sessions.
const (
	OpenPerSubject = openPerSubject
	OpenInAll      = openInAll
)
