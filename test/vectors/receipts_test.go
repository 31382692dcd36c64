package vectors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
)

type receiptVector struct {
	Name     string                    `json:"name"`
	Receipts []any                     `json:"receipts"`
	Owner    *string                   `json:"owner,omitempty"`
	Session  string                    `json:"session,omitempty"`
	Agent    string                    `json:"agent,omitempty"`
	Head     *evidence.InteractionHead `json:"head,omitempty"`
	Expected *expectedJSON             `json:"expected,omitempty"`
	At       int64                     `json:"at,omitempty"`
	Verdict  string                    `json:"verdict"`
}

type receiptsFile struct {
	About    string          `json:"about"`
	At       int64           `json:"at"`
	Skew     int64           `json:"skew"`
	Trust    trustJSON       `json:"trust"`
	Expected expectedJSON    `json:"expected"`
	Owner    string          `json:"owner"`
	Receipts []string        `json:"receipts"`
	Vectors  []receiptVector `json:"vectors,omitempty"`
}

func (f receiptsFile) verify(v receiptVector) string {
	want, now, owner := f.Expected, f.At, f.Owner
	if v.Expected != nil {
		want = *v.Expected
	}
	if v.At != 0 {
		now = v.At
	}
	if v.Owner != nil {
		owner = *v.Owner
	}
	chain := interaction.NewChain(interaction.Past(f.past(), want.expected(), time.Unix(now, 0)),
		interaction.Expected{Owner: owner, Session: v.Session, Agent: v.Agent})
	for _, r := range v.Receipts {
		token, ok := r.(string)
		if !ok {
			token = f.Receipts[int(r.(float64))-1]
		}
		if _, err := chain.Add(token); err != nil {
			return codeOf(err)
		}
	}
	if v.Head != nil {
		return codeOf(chain.Names(*v.Head))
	}
	return "ok"
}

func (f receiptsFile) past() *evidence.PastTrust {
	roots, policy, err := f.Trust.parts()
	mustDo(err)
	return must(
		evidence.NewPastTrust(roots, evidence.Bundle{Certificates: f.Trust.Certificates}, evidence.History{}, policy))
}

func (d deployment) observer() deployment {
	d.roles = maps.Clone(d.roles)
	d.roles[evidence.PurposeInteraction] = role{evidence.PurposeInteraction, "mediator-observer", "posting-api",
		newKey("interaction-receipt-key:v1")}
	return d
}

const receiptSession = "ses_1"

func tagOf(what string, n int) string { return evidence.HashBytes(fmt.Append(nil, what, n))[:32] }

func (d deployment) receiptBase(n int, previous string) interaction.Receipt {
	r, ms := d.roles[evidence.PurposeInteraction], int64(at+n)*1000
	return interaction.Receipt{
		Registered: evidence.Registered{Audience: r.audience, Issuer: r.issuer, ID: fmt.Sprint("interaction-receipt-", n),
			IssuedAt: int64(at + n), Expires: int64(at + n + 600)},
		KeyClaims: custodyClaims, RequestID: fmt.Sprint("post_", n), ActionType: interaction.ActionGeneric,
		PolicyID:              d.strict.ManifestHash,
		InputsCommitment:      evidence.HashBytes([]byte("inputs")),
		ConstraintsCommitment: evidence.HashBytes([]byte("constraints")),
		LLMCommitment:         evidence.HashBytes([]byte("llm")), OutputCleanHash: evidence.HashBytes([]byte("clean")),
		OutputTransportHash: evidence.HashBytes([]byte("transport")),
		Timing: interaction.Timing{RequestReceived: ms - 900, LLMStart: ms - 890, LLMEnd: ms - 90,
			ResponseSent: ms - 89},
		Chain: interaction.ChainLink{PreviousReceiptHash: previous, SessionID: receiptSession,
			SequenceNumber: int64(n)},
		Owner:     interaction.Owner(d.roles[evidence.PurposeSignerCertificate].key.public()),
		Agent:     "agent:worker-1",
		RuntimeID: "worker-1", EventID: "evt_1",
		Outcome: interaction.OutcomeCompleted,
		Session: interaction.SessionTotals{OpenedMS: (at - 60) * 1000, Calls: int64(n), CallsObserved: int64(n),
			BytesOut: int64(n) * 5000, BytesOutObserved: int64(n) * 4000},
		Probabilistic: true,
	}
}

func (d deployment) callTo(n int, previous string) interaction.Receipt {
	c, o, declared := d.receiptBase(n, previous), interaction.Observed, interaction.Declared
	c.Model = &interaction.ModelCall{
		API: "anthropic-messages", Host: "api.anthropic.com:443", Rule: "anthropic-messages", Model: "claude",
		AnsweredBy: "claude-1", Status: 200, Streamed: true,
		ToolCalls: []interaction.ToolCall{{ID: tagOf("call", n), Tool: "search", Arguments: tagOf("arguments", n)}},
		Figures: interaction.ModelFigures{
			Duration: o(800), FirstDelta: o(210), Turnaround: interaction.NotMeasured, Deltas: o(17), InputTokens: declared(900),
			OutputTokens: declared(40),
			CachedTokens: interaction.NotMeasured, ReasoningTokens: interaction.NotMeasured, HostedCalls: declared(0),
			InputBytes: o(3600), OutputBytes: o(5000),
			NewInputWords: o(30), OutputWords: o(820), ToolCallsMade: o(1), UnmatchedResults: o(0), SelfReferences: o(0),
			Depth: declared(1), DepthRelayed: o(0),
			SampleBytes: o(5000), WordEntropy: o(7321), Compression: o(431),
		},
	}
	if n > 1 {
		c.Model.ReturnedCalls = []string{tagOf("call", n-1)}
		c.Model.Figures.Turnaround, c.Model.Figures.SelfReferences = o(110), o(1)
	}
	return c
}

func (d deployment) signedReceipt(c interaction.Receipt) string {
	if c.Observed == nil {
		c.Observed = interaction.ObservedOf(c)
	}
	return d.signed(evidence.PurposeInteraction, interaction.Kind.Typ, canonicalOf(c), nil)
}

func (d deployment) sessionChain() (tokens []string) {
	previous := func() string {
		if len(tokens) == 0 {
			return ""
		}
		return evidence.HashToken(tokens[len(tokens)-1])
	}
	add := func(c interaction.Receipt) { tokens = append(tokens, d.signedReceipt(c)) }
	add(d.callTo(1, ""))
	add(d.callTo(2, previous()))
	post := d.receiptBase(3, previous())
	post.ActionType, post.Timing.LLMStart, post.Timing.LLMEnd = interaction.ActionComposePost, 0, 0
	post.Post = &interaction.PostMade{BindingHash: binding().Hash(), Status: 201,
		Artifacts: []interaction.NamedArtifact{{Name: "sessionReceipt", Hash: evidence.HashBytes([]byte("session receipt"))}}}
	post.Relayed, post.RelayedCount = []interaction.RelayedCall{
		{Host: "mcp.example.com:443", Tool: "search", Arguments: tagOf("arguments", 2), CallID: tagOf("call", 2)}}, 1
	add(post)
	unread := d.callTo(4, previous())
	unread.ActionType, unread.Outcome = interaction.ActionChallengeResponse, interaction.OutcomeNotMeasured
	unread.Challenge = &interaction.ChallengeRef{ChallengeNonce: "nonce", CommitmentHash: otherHash,
		CommitmentRevealed: true}
	unread.Model.Unread, unread.Model.ToolCalls, unread.Model.HostedTools = "behind", nil, []string{"web_search"}
	unread.Model.Probe = &interaction.Probe{ID: "probe-1"}
	none, f := interaction.NotMeasured, &unread.Model.Figures
	*f = interaction.ModelFigures{
		Duration: f.Duration, FirstDelta: none, Turnaround: f.Turnaround, Deltas: none,
		InputTokens: interaction.Estimated(900), OutputTokens: none, CachedTokens: none,
		ReasoningTokens: none, HostedCalls: none, InputBytes: f.InputBytes, OutputBytes: none, NewInputWords: f.NewInputWords,
		OutputWords: none, ToolCallsMade: none,
		UnmatchedResults: f.UnmatchedResults, SelfReferences: f.SelfReferences, Depth: none, DepthRelayed: none,
		SampleBytes: none, WordEntropy: none, Compression: none,
	}
	add(unread)
	end := d.receiptBase(5, previous())
	end.RequestID, end.Timing = receiptSession, interaction.Timing{RequestReceived: (at + 5) * 1000}
	end.Closing = &interaction.Closing{Reason: interaction.ClosedEnded}
	add(end)
	return tokens
}

func (d deployment) receiptsVectors() receiptsFile {
	d = d.observer()
	r := d.roles[evidence.PurposeInteraction]
	f := receiptsFile{
		About: "Chains of interaction receipts: see docs/vectors.md, Interaction receipts.", At: at + 3600, Skew: 2,
		Trust: d.trust(),
		Expected: expectedJSON{Issuers: []string{r.issuer}, Audiences: []string{r.audience},
			KeyIDs: []string{"interaction-receipt-key"}, MaxAge: 15,
			Custody: []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}, RequireNonExportable: true},
		Owner: interaction.Owner(d.roles[evidence.PurposeSignerCertificate].key.public()), Receipts: d.sessionChain(),
	}
	f.Trust.Certificates = append(f.Trust.Certificates, d.certificate(r, nil))
	f.Vectors = slices.Concat(d.chainFaults(f), d.receiptFaults(), headFaults(f))
	return f
}

func numbers(list ...int) []any { return anys(list) }

func (d deployment) chainFaults(f receiptsFile) []receiptVector {
	chain := func(name, code string, receipts ...any) receiptVector {
		return receiptVector{Name: name, Receipts: append([]any{}, receipts...), Verdict: code}
	}
	broken := func(name string, receipts ...any) receiptVector { return chain(name, "chain_broken", receipts...) }
	hash := func(n int) string { return evidence.HashToken(f.Receipts[n-1]) }
	third := func(name, code string, edit func(*interaction.Receipt)) receiptVector {
		c := d.callTo(3, hash(2))
		edit(&c)
		return chain("the third "+name, code, 1, 2, d.signedReceipt(c))
	}
	owner, other, nobody := interaction.Owner(newKey("other:v1").public()), d.callTo(2, hash(1)), ""
	other.OutputCleanHash = otherHash
	second := d.signedReceipt(other)
	return []receiptVector{
		chain("valid", "ok", numbers(1, 2, 3, 4, 5)...), chain("valid, not closed", "ok", numbers(1, 2)...),
		chain("empty", "ok"),
		{Name: "valid, of the expected session and agent", Receipts: numbers(1, 2, 3, 4, 5), Session: receiptSession,
			Agent: "agent:worker-1", Verdict: "ok"},
		chain("the second is missing", "chain_incomplete", numbers(1, 3)...),
		chain("the first is missing", "chain_incomplete", numbers(2, 3)...),
		chain("the third before the second", "chain_incomplete", numbers(1, 3, 2)...),
		broken("the second twice", numbers(1, 2, 2)...),
		broken("the first after the second", numbers(1, 2, 1)...),
		broken("one after the end", numbers(1, 2, 3, 4, 5, 5)...),
		broken("two with one number", 1, 2, second), chain("another second", "ok", 1, second),
		broken("it forks further back", 1, second, 3),
		third("names another before it", "chain_broken", func(c *interaction.Receipt) {
			c.Chain.PreviousReceiptHash = otherHash
		}),
		third("is valid", "ok", func(*interaction.Receipt) {}),
		third("is of another session", "chain_broken", func(c *interaction.Receipt) { c.Chain.SessionID = "ses_2" }),
		third("is of another event", "chain_broken", func(c *interaction.Receipt) { c.EventID = "evt_2" }),
		third("is of another runtime", "chain_broken", func(c *interaction.Receipt) { c.RuntimeID = "worker-2" }),
		third("names another opening", "chain_broken", func(c *interaction.Receipt) { c.Session.OpenedMS-- }),
		third("is about another agent", "chain_broken", func(c *interaction.Receipt) { c.Agent = "agent:other" }),
		third("names another owner", "roots_not_pinned", func(c *interaction.Receipt) { c.Owner = owner }),
		third("is about the call of the first", "chain_broken", func(c *interaction.Receipt) { c.RequestID = "post_1" }),
		third("is earlier", "chain_broken", func(c *interaction.Receipt) {
			c.IssuedAt, c.Expires = at+1, at+601
			c.Timing = interaction.Timing{RequestReceived: at * 1000}
		}),
		third("is of the same second", "ok", func(c *interaction.Receipt) {
			c.IssuedAt, c.Expires = at+2, at+602
			c.Timing = interaction.Timing{RequestReceived: at * 1000}
		}),
		third("counts fewer calls", "chain_broken", func(c *interaction.Receipt) {
			c.Session.Calls, c.Session.CallsObserved = 1, 1
		}),
		third("counts fewer calls that were read", "chain_broken", func(c *interaction.Receipt) {
			c.Session.CallsObserved = 1
		}),
		third("counts fewer bytes", "chain_broken", func(c *interaction.Receipt) {
			c.Session.BytesOut, c.Session.BytesOutObserved = 9, 9
		}),
		third("counts fewer bytes that were read", "chain_broken", func(c *interaction.Receipt) {
			c.Session.BytesOutObserved = 9
		}),
		third("is by another issuer", "key_purpose", func(c *interaction.Receipt) { c.Issuer = "other" }),
		{Name: "another owner is expected", Receipts: numbers(1), Owner: &owner, Verdict: "roots_not_pinned"},
		{Name: "no owner is expected", Receipts: numbers(1), Owner: &nobody, Verdict: "roots_not_pinned"},
		{Name: "another session is expected", Receipts: numbers(1), Session: "ses_2", Verdict: "chain_broken"},
		{Name: "another agent is expected", Receipts: numbers(1), Agent: "agent:other", Verdict: "chain_broken"},
		{Name: "of the future", Receipts: numbers(1, 2, 3, 4, 5), At: at + 1, Verdict: "clock_skew"},
		{Name: "3 s before the clock", Receipts: numbers(1, 2, 3, 4, 5), At: at + 3, Verdict: "ok"},
		{Name: "nothing is expected", Receipts: numbers(1),
			Expected: &expectedJSON{Issuers: []string{}, Audiences: []string{}, KeyIDs: []string{}}, Verdict: "not_allowed"},
		chain("of another role's key", "key_purpose", d.resigned(1, evidence.PurposeAgentSession)),
		chain("another artifact", "artifact_malformed",
			d.signed(evidence.PurposeRequestProof, evidence.RequestProofKind().Typ, d.proofClaims(), nil)),
		chain("nothing", "artifact_missing", ""),
		chain("another signature", "signature_invalid",
			strings.TrimSuffix(f.Receipts[0], f.Receipts[0][strings.LastIndexByte(f.Receipts[0], '.'):])+
				f.Receipts[1][strings.LastIndexByte(f.Receipts[1], '.'):]),
	}
}

func (d deployment) resigned(n int, purpose string) string {
	c := d.callTo(n, "")
	c.Observed = interaction.ObservedOf(c)
	return d.signed(purpose, interaction.Kind.Typ, canonicalOf(c), nil)
}

func (d deployment) receiptFaults() []receiptVector {
	edited := func(name string, edit func(*interaction.Receipt)) receiptVector {
		c := d.callTo(1, "")
		edit(&c)
		return receiptVector{Name: "claims: " + name, Receipts: []any{d.signedReceipt(c)}, Verdict: "artifact_malformed"}
	}
	// says is the receipt with another member.
	says := func(name, path string, value any) receiptVector {
		return edited(name, func(c *interaction.Receipt) {
			var members map[string]any
			mustDo(json.Unmarshal([]byte(canonicalOf(*c)), &members))
			setting{path, value}.in(members)
			*c = interaction.Receipt{}
			mustDo(json.Unmarshal([]byte(canonicalOf(members)), c))
		})
	}
	list := func(values ...any) []any { return values }
	type object = map[string]any
	const model, figures = "model_call.", "model_call.figures."
	out := []receiptVector{
		says("it proves that no human was involved", "nonHumanIdentityProven", true),
		says("it is more than probabilistic", "probabilistic", false),
		says("it lasts for nine minutes", "exp", at+541),
		edited("it has observed the model", func(c *interaction.Receipt) {
			c.Observed = append(interaction.ObservedOf(*c), "model_call.model")
		}),
		edited("it has observed two in one", func(c *interaction.Receipt) {
			all := interaction.ObservedOf(*c)
			c.Observed = append([]string{all[0] + "," + all[1]}, all[2:]...)
		}),
		edited("it has observed nothing", func(c *interaction.Receipt) { c.Observed = []string{} }),
		says("no agent", "agent", ""), says("a long agent", "agent", strings.Repeat("x", 300)),
		says("no request", "request_id", ""), says("no owner", "owner", ""),
		says("a policy that is no hash", "policy_id", "P0"),
		edited("a commitment in capitals", func(c *interaction.Receipt) {
			c.InputsCommitment = strings.ToUpper(c.InputsCommitment)
		}),
		says("no output", "output_transport_hash", ""), says("number 0", "chain.sequence_number", 0),
		says("one before the first", "chain.previous_receipt_hash", otherHash),
		says("none before the second", "chain.sequence_number", 2),
		says("it is about nothing", "model_call", nil), says("it is about two", "closing", object{"reason": "ended"}),
		says("another action", "action_type", interaction.ActionComposePost), says("another outcome", "outcome", "good"),
		says("not measured without a reason", "outcome", interaction.OutcomeNotMeasured),
		says("a reason for what is complete", model+"unread", "behind"),
		says("no time", "timing", object{"request_received_ms": 0}),
		edited("an end before the start", func(c *interaction.Receipt) { c.Timing.LLMEnd = c.Timing.LLMStart - 1 }),
		edited("signed before it was over", func(c *interaction.Receipt) { c.Timing.ResponseSent += 2000 }),
		says("a challenge without a nonce", "challenge", object{"challenge_nonce": "", "commitment_hash": otherHash}),
		says("a commitment revealed that was not made", "challenge",
			object{"challenge_nonce": "n", "commitment_revealed": true}),
		says("no opening", "session.opened_ms", 0), says("more was read than sent", "session.calls_observed", 2),
		says("a relayed call that is not counted", "relayed", list(object{"host": "h", "tool": "t"})),
		says("no host", model+"host", ""), says("no status of HTTP", model+"status", 99),
		says("a call that is not counted", figures+"tool_calls_made.value", 0),
		edited("an id that is no tag", func(c *interaction.Receipt) { c.Model.ToolCalls[0].ID = "toolu_1" }),
		says("a result that is no tag", model+"returned_calls", list("toolu_1")),
		says("a result twice", model+"returned_calls", list(tagOf("x", 1), tagOf("x", 1))),
		says("a probe without id", model+"probe", object{"id": ""}),
		says("a figure of no state", figures+"duration_ms.state", ""),
		says("a duration that is declared", figures+"duration_ms.state", interaction.StateDeclared),
		says("tokens that are observed", figures+"output_tokens", interaction.Observed(1)),
		says("a depth that is observed", figures+"depth", interaction.Observed(1)),
		says("a value that is not measured", figures+"turnaround_ms",
			interaction.Figure{State: interaction.StateNotMeasured, Value: 1}),
		says("a value below nought", figures+"deltas.value", -1),
		says("the entropy of a short text", figures+"sample_bytes.value", 4095),
	}
	whole := d.callTo(1, "")
	whole.Observed = interaction.ObservedOf(whole)
	payload := canonicalOf(whole)
	member := func(name, code string, value any) receiptVector {
		token := d.signed(evidence.PurposeInteraction, interaction.Kind.Typ, with(payload, map[string]any{name: value}), nil)
		return receiptVector{Name: fmt.Sprintf("claims: %s is %v", name, value), Receipts: []any{token}, Verdict: code}
	}
	return append(out,
		member("prompt", "artifact_malformed", "a text"), member("relayed_count", "artifact_malformed", "0"),
		member("agent", "artifact_malformed", nil),
		member("relayed", "artifact_malformed", []any{}), member("timing", "artifact_malformed", []any{}),
	)
}

func (d deployment) headVectors() (out []artifactVector) {
	many := make([]string, evidence.MaxOpenCalls+1)
	for i := range many {
		many[i] = fmt.Sprintf("post_%03d", i)
	}
	for _, row := range []struct {
		name, code   string
		interactions any
	}{
		{"an empty chain", "ok", map[string]any{"number": 0}},
		{"a chain", "ok", map[string]any{"number": 2, "headHash": otherHash, "openCalls": many[:2]}},
		{"as many open calls as can be", "ok", map[string]any{"number": 0, "openCalls": many[:evidence.MaxOpenCalls]}},
		{"one open call more", "artifact_malformed", map[string]any{"number": 0, "openCalls": many}},
		{"a head without a number", "artifact_malformed", map[string]any{"number": 0, "headHash": otherHash}},
		{"a number without a head", "artifact_malformed", map[string]any{"number": 2}},
		{"a head that is no hash", "artifact_malformed", map[string]any{"number": 2, "headHash": "x"}},
		{"open calls out of order", "artifact_malformed", map[string]any{"number": 0, "openCalls": []string{"b", "a"}}},
		{"no open calls", "artifact_malformed", map[string]any{"number": 0, "openCalls": []string{}}},
		{"no number", "artifact_malformed", map[string]any{"headHash": otherHash}},
	} {
		typ := evidence.SessionReceiptKind().Typ
		token := d.signed(evidence.PurposeAgentSession, typ, d.sessionClaims(),
			changes{typ: {"interactions": row.interactions}})
		out = append(out,
			artifactVector{Name: "session receipt, names " + row.name, Typ: typ, Token: token, Verdict: row.code})
	}
	return out
}

func headFaults(f receiptsFile) []receiptVector {
	head := func(name, code string, n int64, hash string, closed bool, open ...string) receiptVector {
		receipts := numbers(1, 2, 3, 4)
		if closed {
			receipts = numbers(1, 2, 3, 4, 5)
		}
		return receiptVector{Name: "head: " + name, Receipts: receipts,
			Head: &evidence.InteractionHead{Number: n, HeadHash: hash, OpenCalls: open}, Verdict: code}
	}
	broken := func(name string, n int64, hash string, closed bool, open ...string) receiptVector {
		return head(name, "chain_broken", n, hash, closed, open...)
	}
	hash := func(n int) string { return evidence.HashToken(f.Receipts[n-1]) }
	return []receiptVector{
		head("none", "ok", 0, "", true), head("the second", "ok", 2, hash(2), true), head("the last", "ok", 5, hash(5), true),
		broken("of another chain", 2, otherHash, true),
		broken("of another number", 3, hash(2), true),
		broken("below zero", -1, "", true), broken("below zero, of a receipt", -1, hash(1), true),
		broken("none, of a receipt", 0, hash(1), true),
		broken("beyond the chain, without a hash", 9, "", true),
		broken("beyond the chain", 5, hash(5), false),
		head("open, ended later", "ok", 2, hash(2), true, "post_3", "post_4"),
		broken("open, ended before", 2, hash(2), true, "post_1"),
		broken("open, never ended", 2, hash(2), true, "post_9"),
		head("open, and the chain too", "ok", 2, hash(2), false, "post_9"),
	}
}
