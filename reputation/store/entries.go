package store

import "context"

// Entry is one entry in the log of an agent.
type Entry struct {
	Agent  string // its id: the owner's thumbprint, a colon, and the subject
	Number int64  // in the log, from 1
	Head   string // hash of the log up to this entry
	Text   string // canonical JSON
}

// Unentered returns the closed sessions of an owner that have not been entered in the logs of their agents, or have grown since, the first
// closed first, at most limit. A session with two chains is none of them.
func (s *Store) Unentered(ctx context.Context, owner string, limit int) ([]Session, error) {
	const doing = "read the closed sessions"
	rows, err := s.query(ctx, selectSession+`WHERE owner = $1 AND closed > 0 AND forked = 0 AND entered < next ORDER BY closed, session LIMIT $2`, owner, limit)
	return list(doing, rows, err, scanSession)
}

// Enter notes that a session, as it was read, is entered, and goes on with a log by its entry; e is nil for a session that has nothing to
// say there. Both happen or neither does. It returns [ErrMoved] if the session was entered or has changed, or if the log has an entry with this number.
func (s *Store) Enter(ctx context.Context, of Session, e *Entry) error {
	return s.transact(ctx, "enter the session", func(t tx) error {
		err := t.one(ErrMoved, `UPDATE sessions SET entered = next WHERE owner = $1 AND session = $2 AND next = $3 AND closed > 0 AND forked = 0 AND entered < next`,
			of.Owner, of.Session, of.Next)
		if err != nil || e == nil {
			return err
		}
		return t.enter(*e)
	})
}

// enter goes on with the log of an agent. It returns [ErrMoved] if the log has an entry with this number.
func (t tx) enter(e Entry) error {
	return t.one(ErrMoved, `INSERT INTO entries (agent, number, head, entry) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, e.Agent, e.Number, e.Head, e.Text)
}

// MaxEntries bounds how many entries one look at a log returns.
const MaxEntries = 1000

// Entries returns the entries of an agent's log in their order, from a number on, at most [MaxEntries]. It
// returns [ErrNotFound] for a text that no agent can have as its id.
func (s *Store) Entries(ctx context.Context, agent string, from int64) ([]Entry, error) {
	const doing = "read the log"
	rows, err := s.query(ctx, `SELECT agent, number, head, entry FROM entries WHERE agent = $1 AND number >= $2 ORDER BY number LIMIT $3`, agent, from, MaxEntries)
	return list(doing, rows, err, func(scan func(...any) error) (e Entry, err error) {
		err = scan(&e.Agent, &e.Number, &e.Head, &e.Text)
		return e, err
	})
}

// Agents returns the ids of the agents that have a log, in the order of their bytes, from the first one after a text on, at most limit.
func (s *Store) Agents(ctx context.Context, after string, limit int) ([]string, error) {
	const doing = "read the agents"
	rows, err := s.query(ctx, `SELECT agent FROM entries WHERE number = 1 AND agent > $1 ORDER BY agent LIMIT $2`, after, limit)
	return list(doing, rows, err, func(scan func(...any) error) (id string, err error) {
		err = scan(&id)
		return id, err
	})
}
