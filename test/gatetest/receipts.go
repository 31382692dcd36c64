package gatetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/signer"
)

// Session makes the interaction receipts of one session.
type Session struct {
	Receipts []string
	Owner    string // that receipts name; of [Kit.Session] the kit's
	Event    string // that receipts name; of [Kit.Session] evt_ and what follows ses_ in the session's id

	kit    *Kit
	issuer *signer.Issuer[interaction.Receipt]
	id     string
}

// Observe gives the deployment a certified key for interaction receipts. Its verifier believes it from now on.
func (k *Kit) Observe(t testing.TB) {
	t.Helper()
	k.addRole(t, evidence.PurposeInteraction, k.Manifest.InteractionReceiptPolicy.Allowed, interaction.Lifetime)
}

// Appraiser gives the deployment a node's certified key, and returns the issuer of its scores.
func (k *Kit) Appraiser(t testing.TB) *signer.Issuer[autonomy.Claims] {
	t.Helper()
	a := policy.Allowed{AllowedIssuers: []string{"appraiser"}, AllowedAudiences: []string{"relying-party"},
		AllowedKeyIDs: []string{"appraiser-key"}}
	k.addRole(t, evidence.PurposeAppraiser, a, autonomy.MaxLifetime)
	return Signer(t, k, autonomy.Kind)
}

// Speaking makes m a manifest of a deployment whose agents publish statements. It is an edit for [New].
func Speaking(m *policy.Manifest) {
	m.Version = "1.1"
	m.AgentStatementPolicy = &policy.StatementPolicy{
		Allowed: speakers(),
		KeyCustody: policy.KeyCustody{
			AllowedKeyCustody:       []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked},
			RequireNonExportableKey: true},
		MaxStatementAgeMs: 15_000,
	}
}

// Signing makes m a manifest of a deployment that signs requests to APIs. It is an edit for [New].
func Signing(m *policy.Manifest) {
	m.Version = "1.1"
	m.WebBotAuthPolicy = &policy.WebBotAuthPolicy{
		Allowed: policy.Allowed{AllowedIssuers: []string{"https://agents.example.com"},
			AllowedAudiences: []string{"posting-api"}, AllowedKeyIDs: []string{"web-bot-auth-key"}},
		KeyCustody: policy.KeyCustody{AllowedKeyCustody: []string{evidence.CustodyExternalMediator},
			RequireNonExportableKey: true},
		MaxDirectoryAgeMs: 60_000,
	}
}

// speakers are the issuers of statements that the deployment believes.
func speakers() policy.Allowed {
	return policy.Allowed{AllowedIssuers: []string{"mediator-speaker"}, AllowedAudiences: []string{"posting-api"},
		AllowedKeyIDs: []string{"agent-statement-key"}}
}

// Speak gives the deployment a certified key for the statements of agents, and returns the issuer of these.
func (k *Kit) Speak(t testing.TB) *signer.Issuer[interaction.Statement] {
	t.Helper()
	k.addRole(t, evidence.PurposeStatement, speakers(), interaction.Lifetime)
	return Signer(t, k, interaction.StatementKind)
}

// Session begins the chain of a session.
func (k *Kit) Session(t testing.TB, id string) *Session {
	t.Helper()
	k.Observe(t)
	return &Session{kit: k, issuer: Signer(t, k, interaction.Kind), id: id, Owner: k.Owner(t),
		Event: "evt_" + strings.TrimPrefix(id, "ses_")}
}

// Owner is how receipts name the owner of the kit's keys.
func (k *Kit) Owner(t testing.TB) string {
	t.Helper()
	return interaction.Owner(k.Key(t, evidence.PurposeSignerCertificate).Public())
}

// Past returns the trust of a verifier of records: the kit's certificates, and earlier ones.
func (k *Kit) Past(t testing.TB, earlier ...string) *evidence.PastTrust {
	t.Helper()
	b := evidence.Bundle{Certificates: k.certificates(), Revocations: k.Revocations}
	return must(evidence.NewPastTrust(k.roots(t), b, evidence.History{Certificates: earlier}, k.Strict.Signers))(t)
}

// Chain begins the verification of a chain, demanding what the kit's manifest demands.
func (s *Session) Chain(t testing.TB) *interaction.Chain {
	t.Helper()
	k := s.kit
	return interaction.NewChain(interaction.Past(k.Past(t), k.Strict.Interaction, k.Clock.Now()),
		interaction.Expected{Owner: s.Owner})
}

// Call signs the receipt of a call to a model, after the clock has gone on by a second. edit changes its claims before.
func (s *Session) Call(t testing.TB, edit func(*interaction.Receipt)) string {
	t.Helper()
	c := s.next(t)
	o, d := interaction.Observed, interaction.Declared
	turnaround := interaction.NotMeasured
	if len(s.Receipts) > 0 {
		turnaround = o(40)
	}
	c.Model = &interaction.ModelCall{
		API: "openai-chat", Host: "api.openai.com:443", Rule: "openai-chat", Model: "gpt-5", AnsweredBy: "gpt-5-2026-01-01",
		Status: 200, Streamed: true,
		ToolCalls: []interaction.ToolCall{
			{ID: Tag("call", len(s.Receipts)), Tool: "search", Arguments: Tag("arguments", len(s.Receipts))}},
		Figures: interaction.ModelFigures{
			Duration: o(800), FirstDelta: o(220), Turnaround: turnaround, Deltas: o(31), InputTokens: d(1200),
			OutputTokens: d(64), CachedTokens: d(1024),
			ReasoningTokens: d(0), HostedCalls: d(0), InputBytes: o(4800), OutputBytes: o(260), NewInputWords: o(40),
			OutputWords: o(45), ToolCallsMade: o(1),
			UnmatchedResults: o(0), SelfReferences: o(int64(min(1, len(s.Receipts)))), Depth: d(int64(len(s.Receipts)) + 1),
			DepthRelayed: o(0),
			SampleBytes:  interaction.NotMeasured, WordEntropy: interaction.NotMeasured, Compression: interaction.NotMeasured,
		},
	}
	if n := len(s.Receipts); n > 0 {
		c.Model.ReturnedCalls = []string{Tag("call", n-1)}
	}
	return s.sign(t, c, edit)
}

// Post signs the receipt of a post whose record names these artifacts.
func (s *Session) Post(t testing.TB, record string, artifacts []interaction.NamedArtifact,
	edit func(*interaction.Receipt)) string {
	t.Helper()
	c := s.next(t)
	c.RequestID, c.ActionType = record, interaction.ActionComposePost
	c.Timing.LLMStart, c.Timing.LLMEnd = 0, 0
	c.Post = &interaction.PostMade{BindingHash: evidence.HashBytes([]byte(record)), Status: 201, Artifacts: artifacts}
	return s.sign(t, c, edit)
}

// PostOf signs the receipt of the post that a record is of.
func (s *Session) PostOf(t testing.TB, r ledger.Record, edit func(*interaction.Receipt)) string {
	t.Helper()
	var artifacts []interaction.NamedArtifact
	for _, a := range r.Artifacts {
		artifacts = append(artifacts, interaction.NamedArtifact{Name: a.Name, Hash: evidence.HashToken(a.Token)})
	}
	return s.Post(t, r.ID, artifacts, func(c *interaction.Receipt) {
		c.Timing.RequestReceived, c.Timing.ResponseSent = r.Started.UnixMilli(), 0
		c.Post.BindingHash, c.Post.Status = r.BindingHash, int64(r.Status)
		switch r.State {
		case ledger.StateFailed:
			c.Outcome = interaction.OutcomeFailed
		case ledger.StateIndeterminate:
			c.Outcome = interaction.OutcomeIndeterminate
		}
		if edit != nil {
			edit(c)
		}
	})
}

// Close signs the receipt that ends the session.
func (s *Session) Close(t testing.TB) string {
	t.Helper()
	c := s.next(t)
	c.RequestID, c.Timing = s.id, interaction.Timing{RequestReceived: s.kit.Clock.Now().UnixMilli()}
	c.Closing = &interaction.Closing{Reason: interaction.ClosedEnded}
	return s.sign(t, c, nil)
}

// Head is where the chain stands.
func (s *Session) Head(open ...string) evidence.InteractionHead {
	h := evidence.InteractionHead{Number: int64(len(s.Receipts)), OpenCalls: open}
	if h.Number > 0 {
		h.HeadHash = evidence.HashToken(s.Receipts[h.Number-1])
	}
	return h
}

// Tag hashes what and n to a tag.
func Tag(what string, n int) string { return evidence.HashBytes(fmt.Append(nil, what, n))[:32] }

// next fills the claims that the next receipt of any kind has.
func (s *Session) next(t testing.TB) interaction.Receipt {
	t.Helper()
	k, n := s.kit, len(s.Receipts)
	k.Clock.Advance(time.Second)
	now := k.Clock.Now().UnixMilli()
	hash := func(what string) string { return evidence.HashBytes(fmt.Append(nil, s.id, what, n)) }
	c := interaction.Receipt{
		RequestID: fmt.Sprintf("post_%s_%06d", s.id, n+1), ActionType: interaction.ActionGeneric,
		PolicyID:         k.Strict.ManifestHash,
		InputsCommitment: hash("inputs"), ConstraintsCommitment: hash("constraints"), LLMCommitment: hash("llm"),
		OutputCleanHash:     hash("clean"),
		OutputTransportHash: hash("transport"),
		Timing: interaction.Timing{RequestReceived: now - 900, LLMStart: now - 890, LLMEnd: now - 90,
			ResponseSent: now - 89},
		Chain: interaction.ChainLink{SessionID: s.id, SequenceNumber: int64(n + 1)},
		Owner: s.Owner, Agent: "agent:worker-1", RuntimeID: "worker-1", EventID: s.Event,
		Outcome: interaction.OutcomeCompleted,
		Session: interaction.SessionTotals{OpenedMS: Start.UnixMilli(), Calls: int64(n + 1),
			CallsObserved: int64(n + 1), BytesOut: int64(n+1) * 5000, BytesOutObserved: int64(n+1) * 5000},
		Probabilistic: true,
	}
	if n > 0 {
		c.Chain.PreviousReceiptHash = evidence.HashToken(s.Receipts[n-1])
	}
	return c
}

func (s *Session) sign(t testing.TB, c interaction.Receipt, edit func(*interaction.Receipt)) string {
	t.Helper()
	if edit != nil {
		edit(&c)
	}
	if c.Observed == nil {
		c.Observed = interaction.ObservedOf(c)
	}
	o := must(s.issuer.Issue(context.Background(), c))(t)
	s.Receipts = append(s.Receipts, o.Token())
	return o.Token()
}

// Restart gives a purpose another key under the same id, as a process with keys in memory has after each start.
func (k *Kit) Restart(t testing.TB, purpose string) {
	t.Helper()
	r := k.roles[purpose]
	r.key = must(custody.NewMemory(r.key.Name()))(t)
	k.roles[purpose] = r
}

// Restarted has the session go on with the key of after a restart.
func (s *Session) Restarted(t testing.TB) {
	t.Helper()
	s.issuer = Signer(t, s.kit, interaction.Kind)
}
