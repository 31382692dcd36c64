package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// Proofs are the .tlog-proof texts of a post's intent and outcome. An empty text is no proof.
type Proofs struct {
	Intent  string `json:"intent,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// ProofSource returns the proofs of the record with this id.
type ProofSource func(ctx context.Context, id string) (Proofs, error)

// ProofsIn is the source of a ledger's proofs, or of none if from is nil. What the log does not hold, or no accepted
// checkpoint yet, has no proof.
func ProofsIn(from ledger.LogReader) ProofSource {
	return func(ctx context.Context, id string) (p Proofs, err error) {
		if from == nil {
			return p, nil
		}
		for kind, to := range map[leaf.Kind]*string{leaf.Intent: &p.Intent, leaf.Outcome: &p.Outcome} {
			text, err := translog.Prove(ctx, from, leaf.ID(kind, id))
			switch {
			case err == nil:
				*to = string(text)
			case !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, refusal.New("log_unwitnessed", "")):
				return Proofs{}, err
			}
		}
		return p, nil
	}
}

// LogResult is what the transparency log says about one record.
type LogResult string

const (
	LogHeld     LogResult = "held"      // the log that the policy names holds exactly this record
	LogNotKnown LogResult = "not_known" // a proof is missing, or no policy names their log
	LogRefused  LogResult = "refused"   // the log holds another record, or a proof is wrong
)

// Doubt is a record that the log does not hold, or is not known to hold.
type Doubt struct {
	ID     string `json:"id,omitempty"` // empty: of the log itself
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail"`
}

// Untampered counts the records of sent posts that equal the log's entries. The log has no refused posts.
type Untampered struct {
	Log           string  `json:"log,omitempty"` // its origin, once a policy has vouched for it
	Posts         int     `json:"posts"`
	Held          int     `json:"held"`
	Refused       []Doubt `json:"refused,omitempty"` // at most 100, as the others
	RefusedCount  int     `json:"refusedCount"`
	NotKnown      []Doubt `json:"notKnown,omitempty"`
	NotKnownCount int     `json:"notKnownCount"`
}

// Witnessed lists the witnesses that saw the records in the log.
type Witnessed struct {
	Posts int           `json:"posts"` // that a witness saw; the others are the operator's word
	By    []WitnessedBy `json:"by"`
}

// WitnessedBy is one witness of the policy.
type WitnessedBy struct {
	Witness string    `json:"witness"`
	Posts   int       `json:"posts"`
	Latest  time.Time `json:"latest"` // all of them were in the log by then
}

const maxDoubts = 100

// Logged is the part of a result that the transparency log shows.
type Logged struct {
	Untampered Untampered `json:"untampered"`
	Witnessed  Witnessed  `json:"witnessed"`
	Complete   Complete   `json:"complete"` // not known before [LogJudge.Against]
}

// LogJudge compares records with the transparency log. It is not safe for concurrent use.
type LogJudge struct {
	Logged

	policy *translog.Policy // nil if the verifier gave none
	known  translog.Known
	posts  map[[sha256.Size]byte]*loggedPost // by [leaf.Entry.Of]
}

// loggedPost is a record, and how often the log holds it.
type loggedPost struct {
	id                string // its beginning: an export can have ids of any length
	refused           bool   // the record says that nothing was sent
	proven            bool   // its intent is
	started, finished time.Time
	logged            time.Time // its intent
	intents, outcomes int       // in the log
	result            LogResult // of its proofs
}

// NewLogJudge returns a judge that believes the log and the witnesses of the policy, or none if that is nil.
func NewLogJudge(policy *translog.Policy) *LogJudge {
	return &LogJudge{policy: policy, posts: make(map[[sha256.Size]byte]*loggedPost),
		Logged: Logged{Witnessed: Witnessed{By: []WitnessedBy{}}, Complete: Complete{Result: CompleteNotKnown}}}
}

// Seen adds a checkpoint that the log has signed before. name says where it is from.
func (j *LogJudge) Seen(name string, checkpoint []byte) error {
	return j.known.AddCheckpoint(name, checkpoint, j.policy)
}

// Add judges one record by its proofs. The result of a refused post without proofs is empty: it is in no log.
func (j *LogJudge) Add(r ledger.Record, p Proofs) (LogResult, Doubt) {
	post := &loggedPost{id: fmt.Sprintf("%.64s", r.ID), refused: r.State == ledger.StateRefused,
		started: r.Started.UTC(), finished: r.Finished.UTC()} // each other zone takes memory of its own
	if !post.refused {
		j.Untampered.Posts++
	}
	seen, err := j.verify(r, p, post)
	d := Doubt{ID: post.id}
	switch {
	case err != nil:
		k := failed("", err)
		d.Code, d.Detail, post.result, post.proven = k.Code, k.Detail, LogRefused, false
		j.refuse(d)
		return LogRefused, d
	case post.refused:
		return "", Doubt{}
	case p.Intent == "":
		d.Detail = "there is no proof that the log holds it"
	case !r.State.Outcome() && p.Outcome != "":
		d.Detail = "the log holds an outcome, which the record had not yet"
	case !r.State.Outcome():
		d.Detail = "it had no outcome yet"
	case p.Outcome == "":
		d.Detail = "there is no proof that the log holds its outcome"
	case j.policy == nil:
		d.Detail = "no policy names the log of its proofs"
	default:
		post.result = LogHeld
		j.Untampered.Held++
		j.witness(seen)
		return LogHeld, Doubt{}
	}
	post.result = LogNotKnown
	j.Untampered.NotKnownCount++
	j.Untampered.NotKnown = appendDoubt(j.Untampered.NotKnown, d)
	return LogNotKnown, d
}

func (j *LogJudge) refuse(d Doubt) {
	j.Untampered.RefusedCount++
	j.Untampered.Refused = appendDoubt(j.Untampered.Refused, d)
}

func appendDoubt(all []Doubt, d Doubt) []Doubt {
	if len(all) < maxDoubts {
		all = append(all, d)
	}
	return all
}

// verify verifies the proofs of a record, and returns who saw all of them.
func (j *LogJudge) verify(r ledger.Record, p Proofs, post *loggedPost) (seen []translog.Cosignature, err error) {
	key := sha256.Sum256([]byte(r.ID))
	if j.posts[key] != nil {
		return nil, refusal.New("record_mismatch", "there is another record with this id")
	}
	j.posts[key] = post
	if post.refused && p != (Proofs{}) {
		return nil, refusal.New("record_mismatch", "the record says that nothing was sent, but the log has the post")
	}
	var intent, outcome translog.Verified
	if p.Intent != "" {
		if intent, err = j.proof(r, leaf.Intent, p.Intent, r.Started); err != nil {
			return nil, err
		}
		post.proven, post.logged = true, time.UnixMilli(intent.Opening.Entry.Time)
	}
	if p.Outcome != "" && r.State.Outcome() {
		ended := r.Finished
		if ended.IsZero() {
			ended = r.Started
		}
		if outcome, err = j.proof(r, leaf.Outcome, p.Outcome, ended); err != nil {
			return nil, err
		}
	}
	if outcome.Tree.N > 0 && outcome.Index < intent.Index {
		return nil, refusal.New("record_mismatch", "the log holds its outcome before its intent")
	}
	return common(intent.Witnesses, outcome.Witnesses), nil
}

// maxLogged bounds the time from a post's start to its intent in the log. It is many times what a post takes: an older
// post was entered later, so as if it had been made then. An outcome can wait for a ledger that is away, however long.
const maxLogged = 2 * time.Hour

// proof verifies one proof of a record. The record says that the logged event was at the time at.
func (j *LogJudge) proof(r ledger.Record, kind leaf.Kind, text string, at time.Time) (v translog.Verified, err error) {
	verify := translog.Unverified
	if j.policy != nil {
		verify = j.policy.Verify
	}
	if v, err = verify([]byte(text)); err != nil {
		return v, err
	}
	e := v.Opening.Entry
	logged := time.UnixMilli(e.Time).UTC()
	const form = "2006-01-02T15:04:05.000Z"
	switch {
	case e.Kind != kind:
		return v, refusal.New("record_mismatch", "the proof of its %s is one of the kind %s", kind, e.Kind)
	case at.Sub(logged) > evidence.MaxSkew:
		return v, refusal.New("record_mismatch", "the log got its %s at %s, before the record's own time, %s", kind,
			logged.Format(form), at.UTC().Format(form))
	case kind == leaf.Intent && logged.Sub(at) > maxLogged:
		return v, refusal.New("record_mismatch",
			"the record is backdated: the log got its intent at %s, and the record says %s",
			logged.Format(form), at.UTC().Format(form))
	}
	for _, w := range v.Witnesses {
		if logged.Sub(w.Time) > translog.MaxSkew {
			return v, refusal.New("record_mismatch",
				"the log's entry of its %s says %s, but the witness %s saw it at %s",
				kind, logged.Format(form), w.Witness, w.Time.Format(time.RFC3339))
		}
	}
	if err := v.Opening.CheckRecord(r); err != nil {
		return v, err
	}
	if j.policy != nil {
		j.Untampered.Log = v.Origin
	}
	return v, j.known.Add(v)
}

// common returns the witnesses of both, with the later time.
func common(a, b []translog.Cosignature) (both []translog.Cosignature) {
	for _, x := range a {
		for _, y := range b {
			if x.Witness == y.Witness {
				if y.Time.After(x.Time) {
					x.Time = y.Time
				}
				both = append(both, x)
				break
			}
		}
	}
	return both
}

func (j *LogJudge) witness(seen []translog.Cosignature) {
	if len(seen) > 0 {
		j.Witnessed.Posts++
	}
	for _, s := range seen {
		i := slices.IndexFunc(j.Witnessed.By, func(by WitnessedBy) bool { return by.Witness == s.Witness })
		if i < 0 {
			i, j.Witnessed.By = len(j.Witnessed.By), append(j.Witnessed.By, WitnessedBy{Witness: s.Witness})
		}
		by := &j.Witnessed.By[i]
		by.Posts++
		if s.Time.After(by.Latest) {
			by.Latest = s.Time
		}
	}
}
