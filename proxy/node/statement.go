package node

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Speaker signs statements. [signer.Issuer] implements it.
type Speaker interface {
	Issue(ctx context.Context, s interaction.Statement) (evidence.Opened[interaction.Statement], error)
}

// AgentID is the agent's name at the node, or empty without a node.
func (n *Relay) AgentID() string {
	if n == nil {
		return ""
	}
	return accrual.Agent{Owner: n.o.Owner, Subject: n.o.Agent}.String()
}

// Kind reads a document that the agent publishes at a path and returns its kind. hash is the hash of its canonical
// JSON. It refuses a form that the node would refuse, before the event has paid, and a document by another author.
func (n *Relay) Kind(path string, text []byte, hash string) (string, error) {
	switch {
	case n == nil:
		return "", errMissing()
	case n.o.Speaker == nil:
		return "", refusal.New("not_configured", "this sidecar has no key to sign what its agent publishes")
	}
	document, kind, err := readDocument(path, text)
	if err != nil {
		return "", err
	}
	unsigned, err := dispute.HashOf(document)
	switch {
	case err != nil:
		return "", err
	case unsigned != hash:
		return "", refusal.New("statement_malformed",
			"the document has a signature: leave it out, because the mediator signs for its agent")
	case dispute.Author(document) != n.AgentID():
		return "", refusal.New("statement_mismatch", "the document is by %.300q, and this agent is %s",
			dispute.Author(document), n.AgentID())
	}
	return kind, nil
}

func readDocument(path string, text []byte) (dispute.Document, string, error) {
	if path == signalsPath {
		s, err := dispute.ParseSignal(text)
		return s, interaction.StatesSignal, err
	}
	f, err := dispute.ParseFiling(text)
	if f.Contract != nil {
		return *f.Contract, interaction.StatesContract, err
	}
	return f.Document(), interaction.StatesChallenge, err
}

// State signs that the session's agent publishes a document of a kind, by the post with this binding. documentHash is
// the hash of the document's canonical JSON.
func (n *Relay) State(ctx context.Context, s *session.Session, kind, documentHash, bindingHash string) (string, error) {
	made, err := n.o.Speaker.Issue(ctx, interaction.Statement{
		Owner: n.o.Owner, Agent: n.o.Agent, Session: s.ID, EventID: s.Event.ID,
		Kind: kind, StatementHash: documentHash, BindingHash: bindingHash, Probabilistic: true,
	})
	return made.Token(), err
}
