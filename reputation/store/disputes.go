package store

import (
	"context"

	"github.com/actionproof/mediator/reputation/internal/db"
)

// Step is an entry of the log of signals and disputes with all its effects.
type Step struct {
	Number int64  // in the log, from 1
	Head   string // of the log
	Text   string // canonical JSON

	Signal    *Signal   // published
	Closed    string    // id of the closed signal
	Dispute   *Dispute  // opened
	Reviewing string    // id of the dispute being judged
	Resolved  *Resolved // resolved dispute
	Entries   []Entry   // for the logs of agents
}

// Signal is a published signal.
type Signal struct {
	ID       string
	Number   int64 // of its step
	Agent    string
	Owner    string // whose bound it counts for
	Final    bool   // its window has closed
	Document string // canonical JSON, with its signature
	Step     string // text of its step; only when read
}

// Dispute is a dispute between two agents.
type Dispute struct {
	ID                 string
	Number             int64 // of its opening step
	Challenger, Target string
	Signal             string // disputed, or empty
	Provisional        bool   // that signal is open
	Owner              string // whose bound it counts for: the challenger's
	Reviewing          bool   // being judged
	Resolved           int64  // number of the resolving step, or 0
	Token              string // the signed resolution, or empty
	Document           string // canonical JSON, with its signature
	Step, End          string // texts of its opening and resolving steps; only when read
}

// Resolved is the end of a dispute.
type Resolved struct{ ID, Token string }

// Proceed adds a step with all its effects, or nothing. It returns [ErrMoved] if one of the logs has gone on or the
// step closes something closed, and [ErrDuplicate] for a used id.
func (s *Store) Proceed(ctx context.Context, one Step) error {
	return s.db.Write(ctx, "add to the log of disputes", func(t db.Tx) error { return proceed(t, one) })
}

func proceed(t db.Tx, one Step) error {
	// A concurrent transaction with the same step waits here and then finds it.
	err := t.One(ErrMoved, `INSERT INTO steps (number, head, step) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		one.Number, one.Head, one.Text)
	if n := one.Signal; err == nil && n != nil {
		err = t.One(ErrDuplicate, `INSERT INTO signals (id, number, agent, owner, final, document)
			VALUES ($1, $2, $3, $4, 0, $5) ON CONFLICT DO NOTHING`, n.ID, one.Number, n.Agent, n.Owner, n.Document)
	}
	if err == nil && one.Closed != "" {
		err = t.One(ErrMoved, `UPDATE signals SET final = 1 WHERE id = $1 AND final = 0`, one.Closed)
	}
	if d := one.Dispute; err == nil && d != nil {
		err = t.One(ErrDuplicate, `INSERT INTO disputes
			(id, number, challenger, target, signal, owner, reviewing, resolved, token, document)
			VALUES ($1, $2, $3, $4, $5, $6, 0, 0, '', $7) ON CONFLICT DO NOTHING`,
			d.ID, one.Number, d.Challenger, d.Target, d.Signal, d.Owner, d.Document)
	}
	if err == nil && one.Reviewing != "" {
		err = t.One(ErrMoved, `UPDATE disputes SET reviewing = 1 WHERE id = $1 AND reviewing = 0 AND resolved = 0`,
			one.Reviewing)
	}
	if r := one.Resolved; err == nil && r != nil {
		err = t.One(ErrMoved, `UPDATE disputes SET resolved = $1, token = $2 WHERE id = $3 AND resolved = 0`,
			one.Number, r.Token, r.ID)
	}
	for _, e := range one.Entries {
		if err == nil {
			err = enter(t, e)
		}
	}
	return err
}

// Steps returns the steps from a number on, in order, at most limit and at most [MaxEntries].
func (s *Store) Steps(ctx context.Context, from int64, limit int) ([]Step, error) {
	return db.Many[Step](ctx, s.db, "read the log of disputes",
		`SELECT number, head, step FROM steps WHERE number >= $1 ORDER BY number LIMIT $2`, from, min(limit, MaxEntries))
}

const selectSignal = `SELECT n.id, n.number, n.agent, n.owner, n.final > 0, n.document, p.step FROM signals AS n
	JOIN steps AS p ON p.number = n.number `

// Signal returns the signal with this id, or [ErrNotFound].
func (s *Store) Signal(ctx context.Context, id string) (Signal, error) {
	return db.One[Signal](ctx, s.db, "read the signal", selectSignal+`WHERE n.id = $1`, id)
}

// Signals returns the signals of an agent that follow a log number, in order, at most limit.
func (s *Store) Signals(ctx context.Context, agent string, after int64, limit int) ([]Signal, error) {
	return db.Many[Signal](ctx, s.db, "read the signals",
		selectSignal+`WHERE n.agent = $1 AND n.number > $2 ORDER BY n.number LIMIT $3`, agent, after, limit)
}

const selectDispute = `SELECT d.id, d.number, d.challenger, d.target, d.signal, coalesce(n.final, 1) = 0,
	d.owner, d.reviewing > 0, d.resolved, d.token, d.document, o.step, coalesce(r.step, '')
	FROM disputes AS d JOIN steps AS o ON o.number = d.number LEFT JOIN steps AS r ON r.number = d.resolved LEFT
	JOIN signals AS n ON n.id = d.signal `

// Dispute returns the dispute with this id, or [ErrNotFound].
func (s *Store) Dispute(ctx context.Context, id string) (Dispute, error) {
	return db.One[Dispute](ctx, s.db, "read the dispute", selectDispute+`WHERE d.id = $1`, id)
}

// Disputes returns the disputes of an agent on either side that follow a log number, in order, at most limit.
func (s *Store) Disputes(ctx context.Context, agent string, after int64, limit int) ([]Dispute, error) {
	const one, order = `SELECT id FROM disputes WHERE `, ` = $1 AND number > $2 ORDER BY number LIMIT $3`
	return db.Many[Dispute](ctx, s.db, "read the disputes",
		selectDispute+`WHERE d.id IN (SELECT id FROM (`+one+`challenger`+order+`) AS c UNION SELECT id FROM (`+one+`target`+
			order+`) AS t)
		ORDER BY d.number LIMIT $3`, agent, after, limit)
}

// Count is the number of objects of one agent, and of all agents that share its bound.
type Count struct{ Agent, Owner int64 }

// OpenSignals counts the open signals.
func (s *Store) OpenSignals(ctx context.Context, agent, owner string) (Count, error) {
	return s.count(ctx,
		`SELECT coalesce(sum(CASE WHEN agent = $1 THEN 1 ELSE 0 END), 0), count(*) FROM signals WHERE owner = $2
			AND final = 0`, agent, owner)
}

// OpenDisputes counts the unresolved disputes of challengers.
func (s *Store) OpenDisputes(ctx context.Context, challenger, owner string) (Count, error) {
	return s.count(ctx,
		`SELECT coalesce(sum(CASE WHEN challenger = $1 THEN 1 ELSE 0 END), 0), count(*) FROM disputes WHERE owner = $2
			AND resolved = 0`, challenger, owner)
}

func (s *Store) count(ctx context.Context, query, agent, owner string) (Count, error) {
	return db.One[Count](ctx, s.db, "count what is open", query, agent, owner)
}
