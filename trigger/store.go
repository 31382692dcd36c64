package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/backend"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
)

// store keeps the events. Each transaction that judges an event locks it, because replicas share a store in PostgreSQL.
type store struct {
	db     *db.DB
	secret string // see db.Seal; empty for a file
	// paying lets each event pay for one post, or get it back, at a time: others would each hold one of the database's
	// few connections while they wait for the event's lock, and so keep the posts of other events waiting. A file has one
	// writer.
	paying *share.Turns
}

// maxPaying is the number of events that pay at once.
const maxPaying = 16

func openStore(ctx context.Context, path, dsn, secret string) (store, error) {
	if (dsn == "") != (secret == "") {
		return store{}, errors.New("trigger: a secret is required with a database, and with nothing else")
	}
	d, err := backend.Open(ctx, path, dsn, schema)
	return store{d, secret, share.NewTurns(maxPaying, 1)}, err
}

const (
	reading = "read the events" // in errors
	writing = "write the events"
	// arrivals is the channel on which replicas hear of events that can be claimed.
	arrivals = "actionproof_events"
)

// add stores an event, unless one of its single-use keys is known. known is then the event that used the key, or "".
func (s store) add(ctx context.Context, e Event, payload []byte, keys []string) (known string, fresh bool, err error) {
	e.Payload = nil
	raw, err := json.Marshal(e)
	if err != nil {
		return "", false, err
	}
	claimable := 0
	if e.Verified() == nil {
		claimable = 1
	}
	return s.once(ctx, e.Source, e.ID, keys, func(tx db.Tx) error {
		_, err := tx.Exec(`INSERT INTO events (id, source, evidence, state, claimable, expires, event, payload)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			e.ID, e.Source, e.EvidenceID, string(e.State), claimable, e.ExpiresAt, db.Seal(s.secret, "", string(raw)),
			payload)
		if err == nil && claimable == 1 {
			err = tx.Notify(arrivals)
		}
		return err
	})
}

var errKnown = errors.New("a key is known")

// once uses all keys and does more, or does nothing. If one key is known, the others stay free: an attacker may have
// put another delivery's fresh id before an old body. Sorted, so that two transactions cannot wait for each other.
func (s store) once(ctx context.Context, source, id string, keys []string, more func(db.Tx) error) (known string,
	fresh bool, err error) {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	err = s.db.Write(ctx, writing, func(tx db.Tx) error {
		for _, key := range keys {
			n, err := tx.Exec(`INSERT INTO seen (source, key, event) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				source, key, id)
			if err != nil {
				return err
			}
			if n == 1 {
				continue
			}
			events, err := db.ManyIn[string](tx, `SELECT event FROM seen WHERE source = $1 AND key = $2`, source, key)
			if err != nil || len(events) == 0 {
				return err
			}
			known = events[0]
			return errKnown
		}
		return more(tx)
	})
	if errors.Is(err, errKnown) {
		return known, false, nil
	}
	return "", err == nil, err
}

const (
	selectEvent = `SELECT event, state, claimed_by, coalesce(payload, '') FROM events `
	selectFacts = `SELECT event, state, claimed_by, NULL FROM events ` // without the payload
	byID        = `WHERE id = $1`
)

// row is a stored event. Its changing parts have their own columns.
type row struct {
	Event     string
	State     State
	ClaimedBy string
	Payload   []byte
}

// event reads a stored event, with this id unless that is empty.
func (s store) event(r row, id string, now time.Time) (e Event, err error) {
	event, ok := db.Unseal(s.secret, "", r.Event)
	if err := json.Unmarshal([]byte(event), &e); ok && err != nil {
		return e, ledger.Unavailable(reading, err)
	}
	if !ok || id != "" && id != e.ID || r.Payload != nil && payloadHash(r.Payload) != e.PayloadHash {
		return e, refusal.New("trigger_unverified",
			"an event in the store was not written by a trigger service with this secret")
	}
	e.State, e.ClaimedBy, e.Payload = r.State, r.ClaimedBy, asJSON(r.Payload)
	if (e.State == Received || e.State == Claimed) && !now.Before(e.ExpiresAt) {
		e.State = Expired // stored by the next sweep
	}
	return e, nil
}

// locked reads one event, which no other transaction changes before this one ends.
func (s store) locked(tx db.Tx, query, id string, now time.Time) (Event, error) {
	rows, err := db.ManyIn[row](tx, query+byID+s.db.Locked(), id)
	switch {
	case err != nil:
		return Event{}, err
	case len(rows) == 0:
		return Event{}, unknown(id)
	}
	return s.event(rows[0], id, now)
}

func unknown(id string) error { return refusal.New("not_found", "no event has the id %.80q", id) }

func (s store) get(ctx context.Context, id string, now time.Time) (Event, error) {
	found, err := db.One[row](ctx, s.db, reading, selectEvent+byID, id)
	if errors.Is(err, errMissing) {
		return Event{}, unknown(id)
	}
	if err != nil {
		return Event{}, err
	}
	return s.event(found, id, now)
}

func (s store) list(ctx context.Context, limit int, now time.Time) ([]Event, error) {
	events := []Event{}
	err := db.Each(ctx, s.db, reading, selectFacts+`ORDER BY seq DESC LIMIT $1`, []any{limit}, func(r row) error {
		e, err := s.event(r, "", now)
		events = append(events, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

const oldestWaiting = `SELECT seq, id FROM events
	WHERE state = 'received' AND claimable = 1 AND expires > $1 AND seq > $2 ORDER BY seq LIMIT 1`

type waiting struct {
	Seq int64
	ID  string
}

var errNothing = refusal.New("event_none", "no event waits for a runtime")

// claim gives the event with this id, or the oldest waiting one if id is empty, to a runtime. Each new event wakes all
// waiting claims, most in vain: a read alone finds that out.
func (s store) claim(ctx context.Context, id, runtime string, now time.Time) (Event, error) {
	if id != "" {
		e, err := s.get(ctx, id, now)
		if err := cmp.Or(err, e.claimable()); err != nil {
			return Event{}, err
		}
		return s.take(ctx, id, runtime, now)
	}
	var after int64
	for {
		oldest, err := db.One[waiting](ctx, s.db, reading, oldestWaiting, now, after)
		if errors.Is(err, errMissing) {
			return Event{}, errNothing
		}
		if err != nil {
			return Event{}, err
		}
		e, err := s.take(ctx, oldest.ID, runtime, now)
		if err == nil || problem.DetailsOf(err).Code == "ledger_unavailable" {
			return e, err
		}
		after = oldest.Seq // another claim was faster, or the row is forged
	}
}

// take refuses an event that cannot open a session.
func (s store) take(ctx context.Context, id, runtime string, now time.Time) (e Event, err error) {
	err = s.db.Write(ctx, writing, func(tx db.Tx) error {
		if e, err = s.locked(tx, selectEvent, id, now); err != nil {
			return err
		}
		if err := e.claimable(); err != nil {
			return err
		}
		e.State, e.ClaimedBy = Claimed, runtime
		return e.store(tx)
	})
	if err != nil {
		return Event{}, err
	}
	return e, nil
}

// store stores what changes of an event.
func (e Event) store(tx db.Tx) error {
	_, err := tx.Exec(`UPDATE events SET state = $1, claimed_by = $2 WHERE id = $3`, string(e.State), e.ClaimedBy, e.ID)
	return err
}

func (e Event) claimable() error {
	if err := e.Verified(); err != nil {
		return err
	}
	switch e.State {
	case Received:
		return nil
	case Expired:
		return tooOld(e)
	default:
		return refusal.New("event_closed", "the event %s has opened a session already", e.ID)
	}
}

func (e Event) payable() error {
	if err := e.Verified(); err != nil {
		return err
	}
	switch e.State {
	case Claimed:
		return nil
	case Expired:
		return tooOld(e)
	case Done:
		return refusal.New("event_closed", "the session of the event %s has ended", e.ID)
	default:
		return refusal.New("event_closed", "the event %s has opened no session", e.ID)
	}
}

func tooOld(e Event) error {
	return refusal.New("event_closed", "the event %s expired at %s", e.ID, e.ExpiresAt.UTC().Format(time.RFC3339))
}

const (
	// insertUse inserts nothing if the budget is spent or the binding is already paid for.
	insertUse = `INSERT INTO uses (event, action, binding)
		SELECT $1, $2, $3 WHERE coalesce((SELECT posts FROM spent WHERE event = $1 AND action = $2), 0) < $4
		ON CONFLICT DO NOTHING`
	countUse = `INSERT INTO spent (event, action, posts) VALUES ($1, $2, 1)
		ON CONFLICT (event, action) DO UPDATE SET posts = spent.posts + 1`
	deleteUse  = `DELETE FROM uses WHERE event = $1 AND action = $2 AND binding = $3 AND unsent = 0`
	uncountUse = `UPDATE spent SET posts = posts - 1 WHERE event = $1 AND action = $2`
)

// spend durably takes one post of an action from an event's budget. It returns the event without its payload.
func (s store) spend(ctx context.Context, id, action, binding string, budget int, now time.Time) (e Event, err error) {
	err = s.pay(ctx, id, func(tx db.Tx) error {
		if e, err = s.locked(tx, selectFacts, id, now); err != nil {
			return err
		}
		if err := cmp.Or(e.payable(), wire.CheckRuntime(ctx, e.ClaimedBy)); err != nil {
			return err
		}
		n, err := tx.Exec(insertUse, id, action, binding, budget)
		if err != nil {
			return err
		}
		if n == 0 {
			return refusal.New("event_closed",
				"the event %s cannot be used for this post of the action %.80[2]q: it was used for this one already, or for all "+
					"%[3]d posts of its budget", id, action, budget)
		}
		_, err = tx.Exec(countUse, id, action)
		return err
	})
	return e, err
}

// pay changes what an event has paid for, in its turn.
func (s store) pay(ctx context.Context, id string, change func(db.Tx) error) error {
	if s.db.Shared() {
		done, err := s.paying.Wait(ctx, id)
		if err != nil {
			return ledger.Unavailable(writing, err)
		}
		defer done()
	}
	return s.db.Write(ctx, writing, change)
}

func (s store) giveBack(ctx context.Context, id, action, binding string) error {
	return s.pay(ctx, id, func(tx db.Tx) error {
		n, err := tx.Exec(deleteUse, id, action, binding)
		if n == 0 {
			return err
		}
		_, err = tx.Exec(uncountUse, id, action)
		return err
	})
}

// finish ends a session's hold on an event: for good (Done), or for another runtime to claim (Received), but the latter
// only if nothing was paid.
func (s store) finish(ctx context.Context, id, runtime string, to State, now time.Time) (e Event, err error) {
	err = s.db.Write(ctx, writing, func(tx db.Tx) error {
		if e, err = s.locked(tx, selectFacts, id, now); err != nil {
			return err
		}
		switch {
		case e.ClaimedBy == "":
			return refusal.New("event_closed", "the event %s has opened no session", id)
		case e.ClaimedBy != runtime:
			return refusal.New("event_closed", "another runtime has claimed the event %s", id)
		case e.State == to || e.State == Expired:
			return nil
		case e.State != Claimed:
			return refusal.New("event_closed", "the session of the event %s has ended", id)
		}
		e.State = to
		if to == Received {
			paid, err := db.ManyIn[int](tx, `SELECT 1 FROM uses WHERE event = $1 LIMIT 1`, id)
			if err != nil {
				return err
			}
			if len(paid) > 0 {
				return refusal.New("event_closed", "the event %s was already used for a post, so no other session opens for it", id)
			}
			e.ClaimedBy = ""
			if err := tx.Notify(arrivals); err != nil {
				return err
			}
		}
		return e.store(tx)
	})
	return e, err
}

// pruneChunk bounds one transaction, so that posts do not wait long.
const pruneChunk = 256

// sweep expires old events, and forgets those that expired before before. It keeps single-use keys.
func (s store) sweep(ctx context.Context, now, before time.Time) error {
	err := s.db.Write(ctx, writing, func(tx db.Tx) error {
		_, err := tx.Exec(`UPDATE events SET state = 'expired'
			WHERE state IN ('received', 'claimed') AND expires <= $1`, now)
		return err
	})
	for n := int64(pruneChunk); n == pruneChunk && err == nil; {
		n, err = s.prune(ctx, before)
	}
	return err
}

func (s store) prune(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.db.Write(ctx, writing, func(tx db.Tx) (err error) {
		const oldest = `FROM events WHERE expires <= $1 ORDER BY expires, seq LIMIT $2`
		for _, table := range []string{"uses", "spent"} {
			if _, err = tx.Exec(`DELETE FROM `+table+` WHERE event IN (SELECT id `+oldest+`)`, before,
				pruneChunk); err != nil {
				return err
			}
		}
		n, err = tx.Exec(`DELETE FROM events WHERE seq IN (SELECT seq `+oldest+`)`, before, pruneChunk)
		return err
	})
	return n, err
}
