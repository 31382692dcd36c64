// Package node relays what agents ask of the node that appraises their receipts. It names the agent to the node, and has the session's receipts
// tell of what the node has acknowledged.
//
//	node.go       challenges, which every agent may ask for
//	read.go       what every agent may read
//	way.go        what an agent may do there by a rule of the sidecar
//	statement.go  what an agent publishes there, and what the sidecar signs of it
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

// Paths that are relayed, at the mediator and at the node.
const (
	issuePath  = "/v1/challenge/issue"
	commitPath = "/v1/challenge/commit"
	scorePath  = "/v1/score/" // and the hash of a receipt
	// reputationPath is followed by the id of an agent.
	reputationPath = "/v1/reputation/"
	signalsPath    = "/v1/signals"
	disputePath    = "/v1/dispute" // where one is opened
	disputesPath   = "/v1/disputes"
	logPath        = disputesPath + "/log"
	schemasPath    = "/v1/schemas/"
)

// MaxRequest bounds the body of a request, in bytes: a strategy of the largest size fits.
const MaxRequest = strategy.MaxSize + 4<<10

// Bounds on a challenge of the node.
const (
	maxNonce  = 128 // bytes of a nonce, and of the id of a probe
	maxProbes = 64
	maxPrompt = 8 << 10 // bytes
)

// Client makes requests to the node. [client.Client] is one.
type Client interface {
	Relay(ctx context.Context, method, path string, body []byte, caller string) ([]byte, error)
	Send(ctx context.Context, method, path string, h http.Header, body []byte, caller string) (*http.Response, error)
}

// Issuer signs caller tokens. [signer.Issuer] does.
type Issuer interface {
	Issue(ctx context.Context, c interaction.Caller) (evidence.Opened[interaction.Caller], error)
}

// Options are what a [Relay] works with. All but Speaker are required.
type Options struct {
	Client Client
	Issuer Issuer
	// Speaker signs what the agent publishes; nil where it publishes nothing.
	Speaker Speaker
	// Owner and Agent are those of the receipts.
	Owner, Agent string
}

// Relay relays requests of agents to the node. It is safe for concurrent use. Nil is that of a sidecar without a node, and refuses.
type Relay struct{ o Options }

// New makes a relay.
func New(o Options) *Relay { return &Relay{o} }

// isAgent reports whether a segment of a path is the id of an agent, spelled so that the node cannot read it as another path.
func isAgent(segment string) bool {
	_, err := accrual.ParseAgent(segment)
	return err == nil && !strings.ContainsAny(segment, "/%")
}

// NeedsBody reports whether a POST to a [Target] has to say something. One for a challenge can come without a body.
func NeedsBody(target string) bool { return target != issuePath }

// Ask makes one request of a [Target] for the agent of a session, and returns the node's answer, JSON. Nothing of the agent's request goes
// out but its body. An error of the node is a [*problem.Error].
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
	return n.o.Client.Relay(ctx, method, target, nil, "") // a public read
}

// post makes a request that says which agent calls.
func (n *Relay) post(ctx context.Context, s *session.Session, path string, body []byte) ([]byte, error) {
	token, err := n.token(ctx, s, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	return n.o.Client.Relay(ctx, http.MethodPost, path, body, token)
}

// issue asks for a challenge, which is in the receipts of all calls that are sent from then on.
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
			return nil, unusable("has a probe without id or prompt, or one that is too long")
		}
		probes[p.ID] = p.Prompt
	}
	s.Chain.Challenged(issued.Nonce, probes)
	return answer, nil
}

// commitment is a request to commit, or to reveal what was committed to.
type commitment struct {
	Nonce    string         `json:"challenge_nonce"`
	Hash     *string        `json:"commitment_hash"`
	Salt     *string        `json:"salt"`
	Strategy jsontext.Value `json:"strategy"`
}

// hash returns the hash that the agent commits to, or that of what it reveals, which nobody but this mediator has computed.
func (c commitment) hash() (hash string, revealed bool, err error) {
	switch {
	case !isName(c.Nonce):
		return "", false, malformed("it has no challenge_nonce, or one that is too long")
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
	return "", false, malformed("beside challenge_nonce it has to have either commitment_hash, or salt and strategy")
}

// commit has the node keep a commitment, or what it is to. Receipts tell of it once the node has it durably.
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
	if json2.Unmarshal(answer, &kept) != nil || kept.Nonce != asked.Nonce || kept.Hash != hash || revealed && !kept.Revealed {
		return nil, unusable("is not about what was committed to")
	}
	if revealed {
		s.Chain.Revealed(asked.Nonce, hash)
	} else {
		s.Chain.Committed(asked.Nonce, hash)
	}
	return answer, nil
}

// read reads a request strictly, so that the node cannot understand it otherwise.
func read(body []byte, to any) error {
	if _, err := jsonread.Strict(body, 0); err != nil {
		return malformed("it is not one JSON object in UTF-8 in which each member stands once")
	}
	if err := json2.Unmarshal(body, to, json2.RejectUnknownMembers(true)); err != nil {
		return malformed("it has a member that is not known, or not of its type")
	}
	return nil
}

// isName reports whether a text can stand in a receipt.
func isName(s string) bool { return s != "" && len(s) <= maxNonce }

func malformed(why string) error {
	return refusal.New("query_malformed", "the request about a challenge: %s", why)
}

func unusable(why string) error {
	return refusal.New("node_unavailable", "the node's answer %s", why)
}
