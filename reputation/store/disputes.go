package store

import "context"

// Step is one entry of the log of signals and disputes, with everything that it changes.
type Step struct {
	Number int64  // in the log, from 1
	Head   string // hash of the log up to this step
	Text   string // canonical JSON

	Signal    *Signal   // that it publishes
	Closed    string    // id of the signal whose window it closes
	Dispute   *Dispute  // that it opens
	Reviewing string    // id of the dispute that somebody looks at
	Resolved  *Resolved // the dispute that it resolves
	Entries   []Entry   // by which the logs of agents go on
}

// Signal is what an agent has published.
type Signal struct {
	ID       string
	Number   int64 // of the step that published it
	Agent    string
	Owner    string // whose bound it counts for
	Final    bool   // the log says that its window has closed
	Document string // canonical JSON, with its signature
	Step     string // text of the step that published it; set where it is read
}

// Dispute is a dispute between two agents.
type Dispute struct {
	ID                 string
	Number             int64 // of the step that opened it
	Challenger, Target string
	Signal             string // that is disputed; empty where none is
	Provisional        bool   // the window of that signal is not closed
	Owner              string // whose bound it counts for: the challenger's
	Reviewing          bool   // the log says that somebody looks at it
	Resolved           int64  // number of the step that resolved it, or 0
	Token              string // the signed resolution; empty until then
	Document           string // canonical JSON, with its signature
	Step, End          string // texts of the steps that opened and resolved it; set where it is read
}

// Resolved is the end of a dispute.
type Resolved struct{ ID, Token string }

// Proceed goes on with the log by a step, with everything that it changes, or does nothing. It returns [ErrMoved] if the log, or that of an agent,
// has an entry with one of the numbers, or if what the step closes is closed; and [ErrDuplicate] if there is a signal or a dispute of the same id.
func (s *Store) Proceed(ctx context.Context, one Step) error {
	return s.transact(ctx, "go on with the log of disputes", func(t tx) error { return t.proceed(one) })
}

func (t tx) proceed(one Step) error {
	// Of two transactions that add the same step, the second waits here and then finds that it is there.
	if err := t.one(ErrMoved, `INSERT INTO steps (number, head, step) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, one.Number, one.Head, one.Text); err != nil {
		return err
	}
	if n := one.Signal; n != nil {
		if err := t.one(ErrDuplicate, `INSERT INTO signals (id, number, agent, owner, final, document) VALUES ($1, $2, $3, $4, 0, $5) ON CONFLICT DO NOTHING`,
			n.ID, one.Number, n.Agent, n.Owner, n.Document); err != nil {
			return err
		}
	}
	if one.Closed != "" {
		if err := t.one(ErrMoved, `UPDATE signals SET final = 1 WHERE id = $1 AND final = 0`, one.Closed); err != nil {
			return err
		}
	}
	if d := one.Dispute; d != nil {
		if err := t.one(ErrDuplicate, `INSERT INTO disputes (id, number, challenger, target, signal, owner, reviewing, resolved, token, document)
			VALUES ($1, $2, $3, $4, $5, $6, 0, 0, '', $7) ON CONFLICT DO NOTHING`, d.ID, one.Number, d.Challenger, d.Target, d.Signal, d.Owner, d.Document); err != nil {
			return err
		}
	}
	if one.Reviewing != "" {
		if err := t.one(ErrMoved, `UPDATE disputes SET reviewing = 1 WHERE id = $1 AND reviewing = 0 AND resolved = 0`, one.Reviewing); err != nil {
			return err
		}
	}
	if r := one.Resolved; r != nil {
		if err := t.one(ErrMoved, `UPDATE disputes SET resolved = $1, token = $2 WHERE id = $3 AND resolved = 0`, one.Number, r.Token, r.ID); err != nil {
			return err
		}
	}
	for _, e := range one.Entries {
		if err := t.enter(e); err != nil {
			return err
		}
	}
	return nil
}

// Steps returns the steps of the log in their order, from a number on, at most limit and at most [MaxEntries].
func (s *Store) Steps(ctx context.Context, from int64, limit int) ([]Step, error) {
	const doing = "read the log of disputes"
	rows, err := s.query(ctx, `SELECT number, head, step FROM steps WHERE number >= $1 ORDER BY number LIMIT $2`, from, min(limit, MaxEntries))
	return list(doing, rows, err, func(scan func(...any) error) (one Step, err error) {
		err = scan(&one.Number, &one.Head, &one.Text)
		return one, err
	})
}

const selectSignal = `SELECT n.id, n.number, n.agent, n.owner, n.final, n.document, p.step FROM signals AS n JOIN steps AS p ON p.number = n.number `

func scanSignal(scan func(...any) error) (n Signal, err error) {
	var final int64
	err = scan(&n.ID, &n.Number, &n.Agent, &n.Owner, &final, &n.Document, &n.Step)
	n.Final = final > 0
	return n, err
}

// Signal returns the signal with this id, or [ErrNotFound].
func (s *Store) Signal(ctx context.Context, id string) (Signal, error) {
	const doing = "read the signal"
	rows, err := s.query(ctx, selectSignal+`WHERE n.id = $1`, id)
	return first(list(doing, rows, err, scanSignal))
}

// Signals returns the signals of an agent in the order in which they were published, from the first one after a number of the log on, at most limit.
func (s *Store) Signals(ctx context.Context, agent string, after int64, limit int) ([]Signal, error) {
	const doing = "read the signals"
	rows, err := s.query(ctx, selectSignal+`WHERE n.agent = $1 AND n.number > $2 ORDER BY n.number LIMIT $3`, agent, after, limit)
	return list(doing, rows, err, scanSignal)
}

const selectDispute = `SELECT d.id, d.number, d.challenger, d.target, d.signal, coalesce(n.final, 1), d.owner, d.reviewing, d.resolved, d.token, d.document, o.step, coalesce(r.step, '')
	FROM disputes AS d JOIN steps AS o ON o.number = d.number LEFT JOIN steps AS r ON r.number = d.resolved LEFT JOIN signals AS n ON n.id = d.signal `

func scanDispute(scan func(...any) error) (d Dispute, err error) {
	var final, reviewing int64
	err = scan(&d.ID, &d.Number, &d.Challenger, &d.Target, &d.Signal, &final, &d.Owner, &reviewing, &d.Resolved, &d.Token, &d.Document, &d.Step, &d.End)
	d.Provisional, d.Reviewing = final == 0, reviewing > 0
	return d, err
}

// Dispute returns the dispute with this id, or [ErrNotFound].
func (s *Store) Dispute(ctx context.Context, id string) (Dispute, error) {
	const doing = "read the dispute"
	rows, err := s.query(ctx, selectDispute+`WHERE d.id = $1`, id)
	return first(list(doing, rows, err, scanDispute))
}

// Disputes returns the disputes in which an agent is one of the two, in the order in which they were opened, from the first one after a number of
// the log on, at most limit.
func (s *Store) Disputes(ctx context.Context, agent string, after int64, limit int) ([]Dispute, error) {
	const doing = "read the disputes"
	const one, order = `SELECT id FROM disputes WHERE `, ` = $1 AND number > $2 ORDER BY number LIMIT $3`
	rows, err := s.query(ctx, selectDispute+`WHERE d.id IN (SELECT id FROM (`+one+`challenger`+order+`) AS c UNION SELECT id FROM (`+one+`target`+order+`) AS t)
		ORDER BY d.number LIMIT $3`, agent, after, limit)
	return list(doing, rows, err, scanDispute)
}

// Count is how much there is of one agent, and of all agents whose bound is the same.
type Count struct{ Agent, Owner int64 }

// OpenSignals returns how many signals have windows that are not closed.
func (s *Store) OpenSignals(ctx context.Context, agent, owner string) (Count, error) {
	return s.count(ctx, `SELECT coalesce(sum(CASE WHEN agent = $1 THEN 1 ELSE 0 END), 0), count(*) FROM signals WHERE owner = $2 AND final = 0`, agent, owner)
}

// OpenDisputes returns how many disputes challengers have that are not resolved.
func (s *Store) OpenDisputes(ctx context.Context, challenger, owner string) (Count, error) {
	return s.count(ctx, `SELECT coalesce(sum(CASE WHEN challenger = $1 THEN 1 ELSE 0 END), 0), count(*) FROM disputes WHERE owner = $2 AND resolved = 0`, challenger, owner)
}

func (s *Store) count(ctx context.Context, query, agent, owner string) (Count, error) {
	const doing = "count what is open"
	rows, err := s.query(ctx, query, agent, owner)
	return first(list(doing, rows, err, func(scan func(...any) error) (c Count, err error) {
		err = scan(&c.Agent, &c.Owner)
		return c, err
	}))
}
