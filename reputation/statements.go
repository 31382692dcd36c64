package reputation

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
)

// Spoken is an incoming document of an agent.
type Spoken struct {
	Document []byte
	// By is the agent named by its sidecar, and Statement the sidecar's token about the document. An agent without a
	// sidecar has neither and signs the document itself.
	By        *Caller
	Statement string
}

// said verifies the author of d, and returns the canonical JSON with its signature or its sidecar's token.
func (s *Service) said(from Spoken, kind string, d dispute.Document) (author accrual.Agent, signed string, err error) {
	if author, err = accrual.ParseAgent(dispute.Author(d)); err != nil {
		return author, "", err
	}
	if from.By == nil {
		if from.Statement != "" {
			return author, "", refusal.New("caller_invalid", "the request has the header %s but not %s",
				interaction.StatementHeader, interaction.CallerHeader)
		}
		if err := dispute.VerifyOwn(d); err != nil {
			return author, "", err
		}
		text, err := strictjson.Canonical(from.Document)
		return author, string(text), err
	}
	if by := (accrual.Agent{Owner: from.By.Owner, Subject: from.By.Agent}); author != by {
		return author, "",
			refusal.New("statement_mismatch", "the document names the agent %.300q, but %.300q sent it", author, by)
	}
	if err := s.stated(from, kind, d); err != nil {
		return author, "", err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(from.Document, &members); err != nil {
		return author, "", err
	}
	if members["signature"] != nil {
		return author, "", refusal.New("statement_malformed",
			"the document must have no signature: the sidecar's signature of it is in the header %s",
			interaction.StatementHeader)
	}
	if members["signature"], err = json.Marshal(from.Statement); err != nil {
		return author, "", err
	}
	text, err := strictjson.CanonicalOf(members)
	return author, string(text), err
}

func (s *Service) stated(from Spoken, kind string, d dispute.Document) error {
	owner, err := s.believed.Load().owner(from.By.Owner)
	if err != nil {
		return err
	}
	switch {
	case owner.Statements == nil:
		return refusal.New("owner_unknown", "the node does not accept statements of the owner %s", owner.Name)
	case from.Statement == "":
		return refusal.New("statement_signature", "the request has no header %s", interaction.StatementHeader)
	}
	o, err := evidence.Open(owner.Live, interaction.StatementKind, from.Statement, *owner.Statements)
	if err != nil {
		return evidence.Stale(err)
	}
	c := o.Claims()
	if c.Owner != from.By.Owner || c.Agent != from.By.Agent || c.Session != from.By.Session {
		return refusal.New("statement_mismatch", "the statement is not about the caller's agent and session")
	}
	hash, err := dispute.HashOf(d)
	if err != nil {
		return err
	}
	return c.States(kind, hash)
}

// refuses counts and logs an error of a call about a document or a decision.
func (s *Service) refuses(from Spoken, err *error) {
	if *err == nil {
		return
	}
	s.metrics.statements.WithLabelValues(problem.DetailsOf(*err).Code).Inc()
	fields := []zap.Field{zap.Error(*err)}
	if from.By != nil {
		fields = append(fields, zap.String("owner", from.By.Owner), zap.String("agent", from.By.Agent))
	}
	s.strangers.Warn("a signal or a dispute was refused", fields...)
}

// Caller is the agent that makes a request, as its sidecar names it.
type Caller struct {
	Owner, Agent, Session, EventID string
	// ModelCalls counts the session's model calls that the sidecar saw end with a whole answer.
	ModelCalls int64
}

// Caller verifies a caller token for one request and uses it up, once among all replicas.
func (s *Service) Caller(ctx context.Context, token, method, path string, body []byte) (Caller, error) {
	if token == "" {
		return Caller{}, refusal.New("caller_invalid", "the request has no header %s", interaction.CallerHeader)
	}
	c, err := evidence.UnverifiedClaims(interaction.CallerKind, token)
	if err != nil {
		return Caller{}, err
	}
	owner, err := s.believed.Load().owner(c.Owner)
	if err != nil {
		return Caller{}, err
	}
	o, err := evidence.Open(owner.Live, interaction.CallerKind, token, owner.Callers)
	if err != nil {
		return Caller{}, evidence.Stale(err)
	}
	c = o.Claims()
	if err := c.Calls(method, path, body); err != nil {
		return Caller{}, err
	}
	if err := s.admit(owner.rates.calls, 1, "requests of agents"); err != nil {
		return Caller{}, err
	}
	// Ids are unique only within an owner.
	err = s.o.Store.Use(ctx, c.Owner+" "+c.ID, time.Unix(c.Expires, 0))
	if errors.Is(err, store.ErrUsed) {
		return Caller{}, refusal.New("caller_invalid", "the caller token %.80q was used before", c.ID)
	}
	return Caller{Owner: c.Owner, Agent: c.Agent, Session: c.Session, EventID: c.EventID, ModelCalls: c.ModelCalls}, err
}
