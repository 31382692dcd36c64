package store

import (
	"context"

	"github.com/actionproof/mediator/internal/db"
)

// Step is an entry of the log of signals and disputes with all its effects.
type Step struct {
	Number int64
	Head   string
	Text   string

	Signal    *Signal
	Closed    string // id of the closed signal
	Stands    string // id of the dispute that can no longer be appealed
	Appealed  *Appealed
	Dispute   *Dispute
	Reviewing string // id of the dispute being judged
	Resolved  *Resolved
	Entries   []Entry // for the logs of agents
}

// Signal is a published signal.
type Signal struct {
	ID       string
	Number   int64
	Agent    string
	Final    bool
	Document string // canonical JSON, with its signature
	Step     string // text of its step; only when read
}

// Dispute is a dispute between two agents.
type Dispute struct {
	ID                 string
	Number             int64
	Challenger, Target string
	Signal             string // disputed, or empty
	Provisional        bool   // that signal is open, or the loser can appeal
	Appeal             string // the document of an appeal, or empty
	Reviewing          bool
	Resolved           int64  // number of the resolving step, or 0
	Token              string // the signed resolution, or empty
	Document           string // canonical JSON, with its signature
	Step, End          string // texts of its opening and resolving steps; only when read
}

// Resolved is the end of a dispute.
type Resolved struct {
	ID, Token  string
	Appealable bool
}

// Appealed is an appeal, which opens a dispute again.
type Appealed struct{ ID, Document string }

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
		err = t.One(ErrDuplicate, `INSERT INTO signals (id, number, agent, final, document)
			VALUES ($1, $2, $3, 0, $4) ON CONFLICT DO NOTHING`, n.ID, one.Number, n.Agent, n.Document)
	}
	if err == nil && one.Closed != "" {
		err = t.One(ErrMoved, `UPDATE signals SET final = 1 WHERE id = $1 AND final = 0`, one.Closed)
	}
	if err == nil && one.Stands != "" {
		err = t.One(ErrMoved, `UPDATE disputes SET appealable = 0 WHERE id = $1 AND appealable = 1`, one.Stands)
	}
	if a := one.Appealed; err == nil && a != nil {
		err = t.One(ErrMoved, `UPDATE disputes SET appealable = 0, resolved = 0, token = '', reviewing = 1, appeal = $1
			WHERE id = $2 AND appealable = 1`, a.Document, a.ID)
	}
	if d := one.Dispute; err == nil && d != nil {
		err = t.One(ErrDuplicate, `INSERT INTO disputes
			(id, number, challenger, target, signal, reviewing, resolved, token, appealable, appeal, document)
			VALUES ($1, $2, $3, $4, $5, 0, 0, '', 0, '', $6) ON CONFLICT DO NOTHING`,
			d.ID, one.Number, d.Challenger, d.Target, d.Signal, d.Document)
	}
	if err == nil && one.Reviewing != "" {
		err = t.One(ErrMoved, `UPDATE disputes SET reviewing = 1 WHERE id = $1 AND reviewing = 0 AND resolved = 0`,
			one.Reviewing)
	}
	if r := one.Resolved; err == nil && r != nil {
		appealable := 0
		if r.Appealable {
			appealable = 1
		}
		err = t.One(ErrMoved, `UPDATE disputes SET resolved = $1, token = $2, appealable = $3 WHERE id = $4 AND resolved = 0`,
			one.Number, r.Token, appealable, r.ID)
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

const selectSignal = `SELECT n.id, n.number, n.agent, n.final > 0, n.document, p.step FROM signals AS n
	JOIN steps AS p ON p.number = n.number `

// Signal returns the signal with this id, or [ErrNotFound].
func (s *Store) Signal(ctx context.Context, id string) (Signal, error) {
	return db.One[Signal](ctx, s.db, "read the signal", selectSignal+`WHERE n.id = $1`, id)
}

const selectDispute = `SELECT d.id, d.number, d.challenger, d.target, d.signal,
	coalesce(n.final, 1) = 0 OR d.appealable > 0, d.appeal, d.reviewing > 0, d.resolved, d.token, d.document, o.step, coalesce(r.step, '')
	FROM disputes AS d JOIN steps AS o ON o.number = d.number LEFT JOIN steps AS r ON r.number = d.resolved LEFT
	JOIN signals AS n ON n.id = d.signal `

// Dispute returns the dispute with this id, or [ErrNotFound].
func (s *Store) Dispute(ctx context.Context, id string) (Dispute, error) {
	return db.One[Dispute](ctx, s.db, "read the dispute", selectDispute+`WHERE d.id = $1`, id)
}
