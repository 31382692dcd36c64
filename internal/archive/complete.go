package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"filippo.io/torchwood"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// CompleteResult is the answer to: do the records include every post in the log?
type CompleteResult string

const (
	CompleteNotKnown CompleteResult = "not_known"
	// no post that the log holds between two entries is missing
	CompleteNoneMissing CompleteResult = "none_missing"
	CompleteMissing     CompleteResult = "missing"      // the log holds posts that are missing here
	CompleteRefused     CompleteResult = "contradicted" // the log contradicts itself, or what it was before
)

// Complete says between which entries of the log every post is among the records. Posts that passed by the log are not
// known.
type Complete struct {
	Result       CompleteResult             `json:"result"`
	Why          string                     `json:"why,omitempty"` // it is not known, or contradicted
	Posts        int64                      `json:"posts"`         // between the two entries
	First        int64                      `json:"firstEntry"`
	Last         int64                      `json:"lastEntry"`
	From         time.Time                  `json:"from,omitzero"`  // of the first entry
	Until        time.Time                  `json:"until,omitzero"` // of the last one
	Missing      []MissingPost              `json:"missing,omitempty"`
	MissingCount int64                      `json:"missingCount"`
	Outside      int64                      `json:"outside"`             // posts that are missing before or after
	Gaps         []translog.Finding         `json:"gaps,omitempty"`      // the log did not run then
	Problems     map[translog.Problem]int64 `json:"problems,omitempty"`  // of the whole log, except these gaps
	Witnesses    []translog.Cosignature     `json:"witnesses,omitempty"` // without any: its operator's word
}

// MissingPost is a post of the log that is not among the records.
type MissingPost struct {
	Entry int64     `json:"entry"`
	Time  time.Time `json:"time"`
	Of    string    `json:"of"`           // SHA-256 of its id
	ID    string    `json:"id,omitempty"` // of a record without proof
}

func (m MissingPost) String() string {
	if m.ID != "" {
		return fmt.Sprintf("entry %d of %s (%s, whose record has no proof)", m.Entry, m.Time.Format(time.RFC3339), m.ID)
	}
	return fmt.Sprintf("entry %d of %s (the SHA-256 of its id is %s)", m.Entry, m.Time.Format(time.RFC3339), m.Of)
}

// Against replays a whole log and compares it with the records that were added. The judge must have a policy. Each post
// that the log holds from since until just before until must be among the records. If since is zero, it is the first
// record's time; if until is zero, the last one's. Against fails if it cannot read the log.
func (j *LogJudge) Against(ctx context.Context, from torchwood.TileReader, since, until time.Time) (translog.Report,
	error) {
	w := j.walk(since, until)
	r, err := translog.Audit(ctx, from, j.policy, &j.known, w.entry)
	if err != nil {
		j.Complete = Complete{Result: CompleteNotKnown, Why: "the log cannot be read"}
		return r, err
	}
	j.compare(w, r)
	j.Complete = w.complete(r)
	return r, nil
}

// walk goes over the entries of a log. It holds the range of them in which no post is missing.
type walk struct {
	*LogJudge
	c            Complete
	since, until time.Time
	edge         time.Duration  // a post that started before since can be in the log as long after it
	closed       bool           // a post that is not among the records came after until
	beat         time.Time      // the last heartbeat
	off          [][2]time.Time // when the log did not run, at most maxListed
}

func (j *LogJudge) walk(since, until time.Time) *walk {
	w := &walk{LogJudge: j, since: since, until: until}
	for _, p := range j.posts {
		if !p.proven {
			continue
		}
		if since.IsZero() && (w.since.IsZero() || p.started.Before(w.since)) {
			w.since = p.started
		}
		if until.IsZero() && p.started.After(w.until) {
			w.until = p.started
		}
		w.edge = max(w.edge, p.logged.Sub(p.started))
	}
	return w
}

func (w *walk) entry(index int64, e leaf.Entry) {
	at := time.UnixMilli(e.Time).UTC()
	post := w.post(e)
	switch {
	case e.Kind == leaf.Heartbeat:
		if at.Sub(w.beat) > maxBeat && len(w.off) < maxListed {
			w.off = append(w.off, [2]time.Time{w.beat, at})
		}
		w.beat = at
	case e.Kind == leaf.Outcome && post != nil:
		post.outcomes++
	case e.Kind == leaf.Intent && post != nil:
		post.intents++
	}
	if e.Kind == leaf.Intent {
		w.intent(MissingPost{Entry: index, Time: at, Of: e.Of}, post)
	}
	if w.closed || index < w.c.First {
		return
	}
	if w.c.From.IsZero() {
		w.c.From = at
	}
	w.c.Last, w.c.Until = index, at
}

func (w *walk) intent(m MissingPost, post *loggedPost) {
	switch {
	case post != nil && post.proven:
		if !w.closed {
			w.c.Posts++
		}
		return
	case post != nil:
		m.ID = post.id
	}
	switch {
	case !m.Time.Before(w.until):
		w.c.Outside++
		w.closed = true
	case !m.Time.After(w.since.Add(w.edge)):
		w.c.Outside++
		if !w.closed {
			w.c.First, w.c.From, w.c.Posts = m.Entry+1, time.Time{}, 0
		}
	default:
		if w.c.MissingCount++; len(w.c.Missing) < maxDoubts {
			w.c.Missing = append(w.c.Missing, m)
		}
	}
}

// post returns the record that an entry is of, or nil.
func (w *walk) post(e leaf.Entry) *loggedPost {
	var key [sha256.Size]byte
	if n, err := hex.Decode(key[:], []byte(e.Of)); n != len(key) || err != nil {
		return nil
	}
	return w.posts[key]
}

// lies are the problems of a log that contradicts itself. Others can have an honest reason, such as a restart.
var lies = [...]translog.Problem{translog.Forked, translog.Missing, translog.Backdated, translog.Unseen, translog.Twice,
	translog.Malformed}

func (w *walk) complete(r translog.Report) Complete {
	c := w.c
	c.Result, c.Problems, c.Witnesses = CompleteNoneMissing, maps.Clone(r.Found), r.Witnesses
	delete(c.Problems, translog.HeartbeatGap)
	listed := 0
	for _, f := range r.Findings {
		listed++
		if f.Problem == translog.HeartbeatGap && f.Index > c.First && f.Index <= c.Last+1 {
			c.Gaps = append(c.Gaps, f)
		}
	}
	var found []string
	for _, p := range lies {
		if n := r.Found[p]; n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, p))
		}
	}
	switch {
	case len(found) > 0:
		c.Result, c.Why = CompleteRefused, "the log contradicts itself, or what it was: "+strings.Join(found, ", ")
	case c.MissingCount > 0:
		c.Result = CompleteMissing
	case c.Posts == 0:
		c.Result, c.Why = CompleteNotKnown, "no record is proven to be in the log"
	case listed == maxListed:
		c.Result, c.Why = CompleteNotKnown, "the log has too many problems"
	}
	return c
}

const (
	maxListed = 1000            // findings of an audit
	maxBeat   = 3 * time.Minute // the log ran between two heartbeats
)

// compare refuses records that the whole log shows to be others than it holds, or to be there twice.
func (j *LogJudge) compare(w *walk, r translog.Report) {
	for _, f := range r.Findings {
		if f.Problem == translog.Forked || f.Problem == translog.Missing {
			j.refuse(Doubt{Code: "log_contradicted",
				Detail: fmt.Sprintf("%s at entry %d: %s", f.Problem, f.Index, f.Detail)})
		}
	}
	posts := slices.SortedFunc(maps.Values(j.posts), func(a, b *loggedPost) int { return strings.Compare(a.id, b.id) })
	for _, p := range posts {
		d := Doubt{ID: p.id, Code: "record_mismatch"}
		switch {
		case p.result == LogRefused:
			continue
		case p.refused && p.intents > 0:
			d.Detail = "the record says that nothing was sent, but the log holds its intent"
		case p.intents > 1 || p.outcomes > 1:
			d.Detail = fmt.Sprintf("the log holds %d intents and %d outcomes of it", p.intents, p.outcomes)
		case !p.refused && p.intents == 0 && w.ran(p):
			d.Detail = "the log ran at its time, and has no intent of it"
		default:
			continue
		}
		j.withdraw(p)
		j.refuse(d)
	}
}

// withdraw takes back the result of a post's proofs.
func (j *LogJudge) withdraw(p *loggedPost) {
	switch p.result {
	case LogHeld:
		j.Untampered.Held--
	case LogNotKnown:
		j.Untampered.NotKnownCount--
		j.Untampered.NotKnown = slices.DeleteFunc(j.Untampered.NotKnown, func(d Doubt) bool { return d.ID == p.id })
	}
}

// ran reports whether the log ran all the time in which a post was made.
func (w *walk) ran(p *loggedPost) bool {
	return !p.finished.IsZero() && w.beat.Sub(p.finished) > evidence.MaxSkew && len(w.off) < maxListed &&
		!slices.ContainsFunc(w.off, func(off [2]time.Time) bool {
			return p.finished.After(off[0].Add(-evidence.MaxSkew)) && p.started.Before(off[1].Add(evidence.MaxSkew))
		})
}
