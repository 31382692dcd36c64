package translog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/translog/leaf"
)

// Problem is what an audit can find.
type Problem string

const (
	// HeartbeatGap: for over three minutes the log has no heartbeat.
	HeartbeatGap Problem = "heartbeat_gap"
	// Backdated: the entry has an earlier time than entries before it.
	Backdated Problem = "backdated"
	// Unseen: the entry has a later time than the witnesses' cosignatures of it.
	Unseen Problem = "later_than_witnessed"
	// NoOutcome: an intent has no outcome, although posts of its time have ended.
	NoOutcome Problem = "no_outcome"
	// NoIntent: an outcome, or a session's end, has no beginning, or has two ends.
	NoIntent Problem = "no_intent"
	// Twice: a post or session begins again.
	Twice Problem = "twice"
	// Malformed: package leaf cannot read the entry.
	Malformed Problem = "malformed"
	// Missing: an entry that was proven to be in the log is elsewhere there, or not at all.
	Missing Problem = "missing"
	// Forked: the log is not a continuation of one that was signed.
	Forked Problem = "forked"
	// Stale: nothing was published for longer than [Report.CheckAge] allows.
	Stale Problem = "stale"
)

// maxFindings bounds the findings of an audit, and maxUnended the beginnings that wait for their end.
const maxFindings, maxUnended = 1000, 1_000_000

// Finding is one problem of a log.
type Finding struct {
	Problem Problem `json:"problem"`
	Index   int64   `json:"entry"` // or of the next one
	Detail  string  `json:"detail"`
}

const (
	// maxGap is the longest time between two heartbeats: there is one each minute.
	maxGap = 3 * time.Minute
	// maxPost is the longest time of a post: a younger intent without an outcome may still get one.
	maxPost = 15 * time.Minute
)

// Report is the result of an audit.
type Report struct {
	Origin    string              `json:"origin"`
	Size      int64               `json:"size"`
	From      time.Time           `json:"from,omitzero"`  // of the first entry
	Until     time.Time           `json:"until,omitzero"` // of the latest entry
	Witnesses []Cosignature       `json:"witnesses"`      // of the checkpoint
	Entries   map[leaf.Kind]int64 `json:"entries"`
	Sessions  []int64             `json:"openSessions"` // entries of sessions that have no end yet
	Findings  []Finding           `json:"findings"`     // at most 1,000
	Found     map[Problem]int64   `json:"found"`        // how many of each, also beyond these
}

// CheckAge finds a log whose latest entry is older than most, as if it had been frozen.
func (r *Report) CheckAge(now time.Time, most time.Duration) {
	if age := now.Sub(r.Until); age > most {
		r.find(Stale, r.Size, "the last entry is %s old, and the log should have one each minute",
			age.Round(time.Second))
	}
}

// Audit reads a whole log from public data and checks its last checkpoint, that each entry is in its tree, that nothing
// is missing between the first and the last, and that the log agrees with known, which may be nil. It calls a non-nil
// each with each entry that package leaf can read, in order. It fails if it cannot read the log.
func Audit(ctx context.Context, from torchwood.TileReader, p *Policy, known *Known,
	each func(index int64, e leaf.Entry)) (Report, error) {
	signed, err := from.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return Report{}, fmt.Errorf("read the log's checkpoint: %w", err)
	}
	c, n, err := opened(string(signed), p)
	if err != nil {
		return Report{}, err
	}
	a := &audit{known: cmp.Or(known, new(Known)), each: each, unended: make(map[string]begun),
		Report: Report{Origin: c.Origin, Size: c.N, Witnesses: p.cosigned(n),
			Entries: make(map[leaf.Kind]int64), Found: make(map[Problem]int64)}}
	if err := a.continues(ctx, torchwood.TileHashReaderWithContext(ctx, c.Tree, from), c.Tree); err != nil {
		return a.Report, err
	}
	client, err := torchwood.NewClient(from)
	if err != nil {
		return a.Report, err
	}
	for i, raw := range client.AllEntries(ctx, c.Tree, 0) {
		if want, ok := a.known.entries[i]; ok && want.hash != tlog.RecordHash(raw) {
			a.find(Missing, i, "another entry is in the place of %s", want.name)
		}
		a.entry(i, raw)
	}
	if err := client.Err(); err != nil {
		return a.Report, fmt.Errorf("read the log's entries: %w", err)
	}
	a.end()
	return a.Report, nil
}

type audit struct {
	Report
	known   *Known
	each    func(index int64, e leaf.Entry) // may be nil
	unended map[string]begun                // by Entry.Of
	begun   []beginning
	latest  int64 // time of an entry so far
	beat    int64 // time of the last heartbeat, or of the first entry
}

type begun struct {
	leaf.Entry
	index int64
}

func (r *Report) find(p Problem, index int64, format string, args ...any) {
	if r.Found[p]++; len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{p, index, fmt.Sprintf(format, args...)})
	}
}

func (a *audit) entry(index int64, raw []byte) {
	e, err := leaf.Parse(raw)
	if err != nil {
		a.find(Malformed, index, "%v", err)
		return
	}
	if a.each != nil {
		a.each(index, e)
	}
	at := time.UnixMilli(e.Time).UTC()
	if a.Entries[e.Kind]++; a.From.IsZero() {
		a.From, a.latest, a.beat = at, e.Time, e.Time
	}
	if between(e.Time, a.latest) > MaxSkew {
		a.find(Backdated, index, "it says %s, and an entry before it %s", at.Format(time.RFC3339),
			time.UnixMilli(a.latest).UTC().Format(time.RFC3339))
	}
	if e.Kind == leaf.Heartbeat {
		a.pulse(index, e.Time)
	}
	a.latest = max(a.latest, e.Time)
	a.Until = time.UnixMilli(a.latest).UTC()
	switch key := string(e.Kind.Ended()) + e.Of; {
	case e.Kind.Ended() != "": // an end
		if _, ok := a.unended[key]; !ok {
			a.find(NoIntent, index, "the %s has no %s, or it has two", e.Kind, e.Kind.Ended())
		}
		delete(a.unended, key)
	case e.Of != "":
		a.begins(e, index)
		if len(a.unended) < maxUnended {
			a.unended[string(e.Kind)+e.Of] = begun{e, index}
		} else {
			a.find(NoOutcome, index, "more than %d posts and sessions have no end", maxUnended)
		}
	}
}

// between is the time between two Unix milliseconds. It does not overflow.
func between(from, to int64) time.Duration { return time.UnixMilli(to).Sub(time.UnixMilli(from)) }

// pulse looks at the time since the last heartbeat.
func (a *audit) pulse(index, millis int64) {
	if since := between(a.beat, millis); since > maxGap {
		a.find(HeartbeatGap, index, "no heartbeat for %s before %s", since,
			time.UnixMilli(millis).UTC().Format(time.RFC3339))
	}
	a.beat = max(a.beat, millis)
}

// end reports what only the whole log shows: posts that begin twice or have no outcome, and entries that the witnesses
// cannot have seen.
func (a *audit) end() {
	a.pulse(a.Size, a.latest)
	a.repeated()
	for _, b := range slices.SortedFunc(maps.Values(a.unended),
		func(x, y begun) int { return int(x.index - y.index) }) {
		switch {
		case b.Kind == leaf.SessionOpened:
			a.Sessions = append(a.Sessions, b.index)
		case a.Until.Sub(time.UnixMilli(b.Time)) > maxPost:
			a.find(NoOutcome, b.index, "the intent of %s has no outcome",
				time.UnixMilli(b.Time).UTC().Format(time.RFC3339))
		}
	}
	for _, w := range a.Witnesses {
		if a.Until.Sub(w.Time) > MaxSkew {
			a.find(Unseen, a.Size-1, "the last entry says %s, and %s saw it at %s", a.Until.Format(time.RFC3339),
				w.Witness, w.Time.Format(time.RFC3339))
		}
	}
}
