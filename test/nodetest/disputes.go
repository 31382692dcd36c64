package nodetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	stded25519 "crypto/ed25519"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/gatetest"
)

// Stranger is an agent with a did:key and no sidecar.
type Stranger struct {
	ID  string
	key stded25519.PrivateKey
}

// NewStranger makes a stranger with a new key.
func NewStranger(t testing.TB) Stranger {
	t.Helper()
	public, private, err := stded25519.GenerateKey(nil)
	must(t, err)
	return Stranger{evidence.DIDKey(ed25519.PublicKey(public)), private}
}

// Says signs a document.
func (s Stranger) Says(t testing.TB, d dispute.Document) reputation.Spoken {
	t.Helper()
	text, err := dispute.Unsigned(d)
	must(t, err)
	signature := base64.RawURLEncoding.EncodeToString(stded25519.Sign(s.key, text))
	var members map[string]any
	must(t, json.Unmarshal(text, &members))
	members["signature"] = signature
	return reputation.Spoken{Document: encoded(t, members)}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	return raw
}

// Agent returns an agent of the kit's owner.
func (n *Node) Agent(t testing.TB, subject string) accrual.Agent {
	t.Helper()
	return accrual.Agent{Owner: n.Kit.Owner(t), Subject: subject}
}

// Says returns a document as the kit's sidecar sends it for its author.
func (n *Node) Says(t testing.TB, d dispute.Document) reputation.Spoken {
	t.Helper()
	agent, err := accrual.ParseAgent(dispute.Author(d))
	must(t, err)
	by := reputation.Caller{Owner: agent.Owner, Agent: agent.Subject, Session: "ses_1", EventID: "evt_1"}
	return reputation.Spoken{Document: encoded(t, d), By: &by, Statement: n.Statement(t, d, nil)}
}

// Statement signs a sidecar's statement about a document, after edit.
func (n *Node) Statement(t testing.TB, d dispute.Document, edit func(*interaction.Statement)) string {
	t.Helper()
	agent, err := accrual.ParseAgent(dispute.Author(d))
	must(t, err)
	hash, err := dispute.HashOf(d)
	must(t, err)
	kind := interaction.StatesChallenge
	switch d.(type) {
	case dispute.Signal:
		kind = interaction.StatesSignal
	case dispute.Contract:
		kind = interaction.StatesContract
	}
	s := interaction.Statement{
		Owner: agent.Owner, Agent: agent.Subject, Session: "ses_1", EventID: "evt_1", Kind: kind, StatementHash: hash,
		BindingHash: evidence.HashBytes([]byte("post")), Probabilistic: true,
	}
	if edit != nil {
		edit(&s)
	}
	token, _, err := n.Kit.Speak(t).Sign(context.Background(), s)
	must(t, err)
	return token
}

// SignalOf returns a new signal of an agent.
func (n *Node) SignalOf(agent, id string) dispute.Signal {
	return dispute.Signal{SignalID: id, AgentID: agent, Statement: "The tests pass.", Horizon: dispute.HorizonShort,
		Timestamp: n.Kit.Clock.Now().Unix()}
}

// Contract returns a contract that disputes a signal.
func (n *Node) Contract(agent, id, signal string) dispute.Contract {
	return dispute.Contract{
		ChallengeID: id, OriginalSignalID: signal, ChallengerAgentID: agent, CounterClaim: "They do not.",
		ReasoningTrace: "I ran them: " + id, Timestamp: n.Kit.Clock.Now().Unix(),
	}
}

// offline makes a key that a node pins, such as an arbiter's.
func offline(t testing.TB, name string) (evidence.Root, custody.Version) {
	t.Helper()
	made, err := custody.NewMemory(name)
	must(t, err)
	key, err := made.Current(context.Background())
	must(t, err)
	return evidence.Root{KeyID: key.KeyID(), Public: key.Public(), Purpose: evidence.PurposeArbiter}, key
}

// Operator makes an operator of the node and returns its key and a function that states a time.
func Operator(t testing.TB) (root evidence.Root, state func(now time.Time) string) {
	t.Helper()
	root, key := offline(t, "operator-key")
	return root, func(now time.Time) string {
		token, err := evidence.Sign(context.Background(), key, dispute.ClockKind,
			dispute.Clock{Registered: evidence.NewRegistered(key.KeyID(), Audience, now, dispute.ClockLifetime)})
		must(t, err)
		return token
	}
}

// Arbiter makes an arbiter and returns its key and its decide function.
func Arbiter(t testing.TB, k *gatetest.Kit) (root evidence.Root, decide func(edit func(*dispute.Decision)) string) {
	t.Helper()
	return NamedArbiter(t, "arbiter-key", k.Clock.Now)
}

// NamedArbiter is [Arbiter] with a name of the key.
func NamedArbiter(t testing.TB, name string, now func() time.Time) (root evidence.Root,
	decide func(edit func(*dispute.Decision)) string) {
	t.Helper()
	root, key := offline(t, name)
	return root, func(edit func(*dispute.Decision)) string {
		d := dispute.Decision{Registered: evidence.NewRegistered(key.KeyID(), Audience, now(), time.Hour),
			Outcome: accrual.ChallengerWins, Reason: "The tests fail."}
		edit(&d)
		token, err := evidence.Sign(context.Background(), key, dispute.DecisionKind, d)
		must(t, err)
		return token
	}
}
