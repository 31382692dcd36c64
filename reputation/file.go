package reputation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

// Dispute is a dispute and its state.
type Dispute struct {
	DisputeID string `json:"dispute_id"`
	Number    int64  `json:"number"`
	Status    string `json:"status"` // of package dispute
	// Outcome and Resolver are set once it is resolved. The outcome is provisional until the signal's window closes, and
	// the loser can no longer appeal.
	Outcome     string          `json:"outcome,omitempty"`
	Resolver    string          `json:"resolver,omitempty"`
	Provisional bool            `json:"provisional"`
	Filing      json.RawMessage `json:"filing"`               // with its signature
	Opened      json.RawMessage `json:"opened"`               // log entry
	Resolved    json.RawMessage `json:"resolved,omitempty"`   // log entry
	Resolution  string          `json:"resolution,omitempty"` // dispute-resolution+jwt
	Appeal      json.RawMessage `json:"appeal,omitempty"`     // with its signature
}

// File opens a dispute. Filing the same document again is allowed.
func (s *Service) File(ctx context.Context, from Spoken) (answer Dispute, err error) {
	defer s.refuses(from, &err)
	if s.o.Disputes == nil {
		return answer, errOff
	}
	filing, err := dispute.ParseFiling(from.Document)
	if err != nil {
		return answer, err
	}
	kind := interaction.StatesChallenge
	if filing.Contract != nil {
		kind = interaction.StatesContract
	}
	author, document, err := s.said(from, kind, filing.Document())
	if err != nil {
		return answer, err
	}
	filed := dispute.Filed{Filing: filing}
	if filed.By, err = s.by(ctx, author); err != nil {
		return answer, err
	}
	brought, err := s.brought(ctx, filing)
	if err != nil {
		return answer, err
	}
	book, err := s.openBook(ctx)
	if err != nil {
		return answer, err
	}
	held, err := s.held(ctx, book.Named(filing))
	if err := cmp.Or(book.Err(), err); err != nil {
		return answer, err
	}
	for _, r := range append(held, brought...) {
		filed.Receipts = append(filed.Receipts, r.known())
	}
	var id string
	err = s.step(ctx, func(t *turn) error {
		var e *dispute.Entry
		var refused error
		if id, e, refused = t.File(s.o.Disputes.Rules, filed, t.now); e == nil {
			return refused // or nil: the same was filed before
		}
		switch {
		case refused != nil:
			return errors.Join(t.Add(*e), refused)
		case e.Appealed != nil:
			return t.Add(*e, store.Document{ID: appealDocument + id, Text: document})
		}
		return t.Add(*e, store.Document{ID: filingDocument + id, Text: document})
	}, book.RowsOf(filing)...)
	if err != nil {
		return answer, err
	}
	return s.Dispute(ctx, id)
}

func (s *Service) brought(ctx context.Context, f dispute.Filing) (all []shown, err error) {
	if f.Challenge == nil {
		return nil, nil
	}
	for _, token := range f.Challenge.Brought() {
		o, err := s.openPast(token)
		if err != nil {
			continue
		}
		one := shown{Receipt: o.Claims(), hash: o.Hash()}
		if one.came, err = s.came(ctx, one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// openPast opens a receipt of a trusted owner as of its signature.
func (s *Service) openPast(token string) (o evidence.Opened[interaction.Receipt], err error) {
	c, err := evidence.UnverifiedClaims(interaction.Kind, token)
	if err != nil {
		return o, err
	}
	owner, err := s.believed.Load().owner(c.Owner)
	if err != nil {
		return o, err
	}
	return s.past(owner)(token, c)
}

type shown struct {
	interaction.Receipt
	hash   string
	came   time.Time // when the node got the last receipt of the session
	forked bool      // the session has two chains, so neither counts
}

func (r shown) agent() accrual.Agent { return accrual.Agent{Owner: r.Owner, Subject: r.Agent} }

func (r shown) known() dispute.Known {
	return dispute.Known{Hash: r.hash, Agent: r.agent().String(), Session: r.Chain.SessionID, At: r.came.Unix()}
}

// held returns those of the receipts that the node holds. They were verified on arrival.
func (s *Service) held(ctx context.Context, hashes []string) (all []shown, err error) {
	held, err := s.o.Store.Held(ctx, hashes)
	if err != nil {
		return nil, err
	}
	for _, r := range held {
		c, err := evidence.UnverifiedClaims(interaction.Kind, r.Token)
		if err != nil {
			return nil, err
		}
		all = append(all, shown{Receipt: c, hash: r.Hash, came: r.Updated, forked: r.Forked})
	}
	return all, nil
}

func (s *Service) came(ctx context.Context, r shown) (time.Time, error) {
	session, err := s.o.Store.Session(ctx, r.Owner, r.Chain.SessionID)
	if errors.Is(err, store.ErrNotFound) {
		return s.o.Now(), nil
	}
	return session.Updated, err
}

// Dispute returns a dispute by id.
func (s *Service) Dispute(ctx context.Context, id string) (answer Dispute, err error) {
	book, err := s.openBook(ctx)
	if err != nil {
		return answer, err
	}
	d, ok := book.Dispute(id)
	if !ok {
		return answer, cmp.Or(book.Err(), error(refusal.New("not_found", "there is no dispute %.80q", id)))
	}
	answer = Dispute{DisputeID: id, Number: d.Number, Status: d.Status, Provisional: book.Provisional(d)}
	if answer.Filing, err = s.document(ctx, filingDocument+id); err != nil {
		return answer, err
	}
	if answer.Opened, err = s.entry(ctx, d.Number); err != nil {
		return answer, err
	}
	if d.Appealed {
		if answer.Appeal, err = s.document(ctx, appealDocument+id); err != nil {
			return answer, err
		}
	}
	if d.Status != dispute.StatusResolved {
		return answer, book.Err()
	}
	answer.Outcome, answer.Resolver = d.Resolved.Outcome, d.Resolved.Resolver
	if answer.Resolved, err = s.entry(ctx, d.Log.Entries); err != nil {
		return answer, err
	}
	token, err := s.document(ctx, resolutionDocument+id)
	answer.Resolution = string(token)
	return answer, cmp.Or(err, book.Err())
}
