// Package node relays agents' requests to the node that appraises their receipts. It names the agent to the node, and
// the session's receipts mention what the node has acknowledged.
//
//	node.go       challenges, for every agent
//	way.go        requests that need a rule of the sidecar, and public reads, for every agent
//	statement.go  documents that an agent publishes and the sidecar signs
package node

import (
	"context"
	"net/http"
	"strings"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/strategy"
)

// Paths at the mediator and at the node.
const (
	issuePath      = "/v1/challenge/issue"
	commitPath     = "/v1/challenge/commit"
	scorePath      = "/v1/score/" // + receipt hash
	reputationPath = "/v1/reputation/"
	signalsPath    = "/v1/signals"
	disputePath    = "/v1/dispute"   // opens one
	disputesPath   = "/v1/disputes/" // + id
	schemasPath    = "/v1/schemas/"
)

// MaxRequest bounds a request's body, in bytes: the largest strategy fits.
const MaxRequest = strategy.MaxSize + 4<<10

// Bounds on a challenge from the node.
const (
	maxNonce  = 128 // bytes, also of a probe's id
	maxProbes = 64
	maxPrompt = 8 << 10 // bytes
)

// Client makes requests to the node. [client.Client] implements it.
type Client interface {
	Relay(ctx context.Context, method, path string, body []byte, caller string) ([]byte, error)
	Send(ctx context.Context, method, path string, h http.Header, body []byte, caller string) (*http.Response, error)
}

// Issuer signs caller tokens. [signer.Issuer] implements it.
type Issuer interface {
	Issue(ctx context.Context, c interaction.Caller) (evidence.Opened[interaction.Caller], error)
}

// Options are the parts of a [Relay]. All but Speaker are required.
type Options struct {
	Client Client
	Issuer Issuer
	// Speaker signs what the agent publishes; nil if it publishes nothing.
	Speaker Speaker
	// Owner and Agent are the same as in the receipts.
	Owner, Agent string
}

// Relay relays agents' requests to the node. It is safe for concurrent use. A nil Relay has no node and refuses.
type Relay struct{ o Options }

// New makes a relay.
func New(o Options) *Relay { return &Relay{o} }

func isAgent(segment string) bool {
	_, err := accrual.ParseAgent(segment)
	return err == nil && !strings.ContainsAny(segment, "/%")
}

// NeedsBody reports whether a POST to a [Target] needs a body. A request for a challenge does not.
func NeedsBody(target string) bool { return target != issuePath }

// Ask makes one request to a [Target] for the session's agent, and returns the node's JSON answer. Only the body of the
// agent's request goes out. The node's errors are [*problem.Error].
func (n *Relay) Ask(ctx context.Context, s *session.Session, method, target string, body []byte) ([]byte, error) {
	if n == nil {
		return nil, errMissing()
	}
	switch target {
	case issuePath:
		return n.issue(ctx, s, body)
	case commitPath:
		return n.commit(ctx, s, body)
	}
	return n.o.Client.Relay(ctx, method, target, nil, "") // public
}

func (n *Relay) post(ctx context.Context, s *session.Session, path string, body []byte) ([]byte, error) {
	token, err := n.token(ctx, s, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	return n.o.Client.Relay(ctx, http.MethodPost, path, body, token)
}

// issue asks for a challenge, which then appears in the receipts of all later calls.
func (n *Relay) issue(ctx context.Context, s *session.Session, body []byte) ([]byte, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	var none struct{}
	if err := read(body, &none); err != nil {
		return nil, err
	}
	answer, err := n.post(ctx, s, issuePath, body)
	if err != nil {
		return nil, err
	}
	var issued struct {
		Nonce  string `json:"challenge_nonce"`
		Probes []struct {
			ID     string `json:"id"`
			Prompt string `json:"prompt"`
		} `json:"probes"`
	}
	if json2.Unmarshal(answer, &issued) != nil || !isName(issued.Nonce) || len(issued.Probes) > maxProbes {
		return nil, unusable("is no challenge")
	}
	probes := make(map[string]string, len(issued.Probes))
	for _, p := range issued.Probes {
		if !isName(p.ID) || p.Prompt == "" || len(p.Prompt) > maxPrompt {
			return nil, unusable("has a probe whose id or prompt is missing or too long")
		}
		probes[p.ID] = p.Prompt
	}
	s.Chain.Challenged(issued.Nonce, probes)
	return answer, nil
}

type commitment struct {
	Nonce    string         `json:"challenge_nonce"`
	Hash     *string        `json:"commitment_hash"`
	Salt     *string        `json:"salt"`
	Strategy jsontext.Value `json:"strategy"`
}

func (c commitment) hash() (hash string, revealed bool, err error) {
	switch {
	case !isName(c.Nonce):
		return "", false, malformed("challenge_nonce is missing or too long")
	case c.Hash != nil && c.Salt == nil && c.Strategy == nil:
		if !evidence.IsHash(*c.Hash) {
			return "", false, malformed("commitment_hash is not a lowercase hex SHA-256")
		}
		return *c.Hash, false, nil
	case c.Hash == nil && c.Salt != nil && c.Strategy != nil:
		plan, err := strategy.Parse(c.Strategy)
		if err == nil {
			hash, err = strategy.Commitment(c.Nonce, *c.Salt, plan)
		}
		return hash, true, err
	}
	return "", false, malformed("beside challenge_nonce it needs either commitment_hash, or salt and strategy")
}

// commit sends a commitment or its reveal. Receipts mention it once the node has it durably.
func (n *Relay) commit(ctx context.Context, s *session.Session, body []byte) ([]byte, error) {
	var asked commitment
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	hash, revealed, err := asked.hash()
	if err != nil {
		return nil, err
	}
	answer, err := n.post(ctx, s, commitPath, body)
	if err != nil {
		return nil, err
	}
	var kept struct {
		Nonce    string `json:"challenge_nonce"`
		Hash     string `json:"commitment_hash"`
		Revealed bool   `json:"commitment_revealed"`
	}
	if json2.Unmarshal(answer, &kept) != nil || kept.Nonce != asked.Nonce || kept.Hash != hash || revealed &&
		!kept.Revealed {
		return nil, unusable("does not match the commitment")
	}
	if revealed {
		s.Chain.Revealed(asked.Nonce, hash)
	} else {
		s.Chain.Committed(asked.Nonce, hash)
	}
	return answer, nil
}

// read reads a request strictly, so that the node cannot read it differently.
func read(body []byte, to any) error {
	if _, err := jsonread.Strict(body, 0); err != nil {
		return malformed("it is not one JSON object in UTF-8 without repeated members")
	}
	if err := json2.Unmarshal(body, to, json2.RejectUnknownMembers(true)); err != nil {
		return malformed("it has a member that is unknown or of the wrong type")
	}
	return nil
}

// isName reports whether a receipt can hold a text.
func isName(s string) bool { return s != "" && len(s) <= maxNonce }

func malformed(why string) error {
	return refusal.New("query_malformed", "the request about a challenge is malformed: %s", why)
}

func unusable(why string) error {
	return refusal.New("node_unavailable", "the node's answer %s", why)
}
