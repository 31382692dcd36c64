package interaction_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/check"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	hash = strings.Repeat("a1", 32)
	tag  = strings.Repeat("0f", 16)
)

func base() interaction.Receipt {
	ms := noon.UnixMilli()
	return interaction.Receipt{
		Registered: evidence.Registered{Audience: "api", Expires: noon.Unix() + 600, IssuedAt: noon.Unix(),
			Issuer: "sidecar",
			ID:     "id"},
		KeyClaims: evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
		RequestID: "post_1", ActionType: interaction.ActionGeneric, PolicyID: hash,
		InputsCommitment: hash, ConstraintsCommitment: hash, LLMCommitment: hash, OutputCleanHash: hash,
		OutputTransportHash: hash,
		Timing: interaction.Timing{RequestReceived: ms - 2000, LLMStart: ms - 1990, LLMEnd: ms - 100,
			ResponseSent: ms - 99},
		Chain: interaction.ChainLink{SessionID: "ses_1", SequenceNumber: 1},
		Owner: strings.Repeat("o", 43), Agent: "agent:worker-1", RuntimeID: "runtime", EventID: "evt_1",
		Outcome: interaction.OutcomeCompleted,
		Session: interaction.SessionTotals{OpenedMS: ms - 10_000, Calls: 3, CallsObserved: 2, BytesOut: 900,
			BytesOutObserved: 700},
		Probabilistic: true,
	}
}

func observed(c interaction.Receipt) interaction.Receipt {
	c.Observed = interaction.ObservedOf(c)
	return c
}

func modelCall() interaction.Receipt {
	c := base()
	o, d := interaction.Observed, interaction.Declared
	c.Model = &interaction.ModelCall{
		API: "openai-chat", Host: "api.example.com:443", Rule: "model", Model: "m", AnsweredBy: "m-1", Status: 200,
		Streamed:      true,
		ToolCalls:     []interaction.ToolCall{{ID: tag, Tool: "search", Arguments: tag}},
		ReturnedCalls: []string{tag},
		Figures: interaction.ModelFigures{
			Duration: o(1890), FirstDelta: o(300), Turnaround: interaction.NotMeasured, Deltas: o(42), InputTokens: d(1000),
			OutputTokens: interaction.Estimated(90),
			CachedTokens: d(0), ReasoningTokens: interaction.NotMeasured, HostedCalls: d(0), InputBytes: o(4000),
			OutputBytes: o(360), NewInputWords: o(12),
			OutputWords: o(60), ToolCallsMade: o(1), UnmatchedResults: o(0), SelfReferences: o(2), Depth: d(3),
			DepthRelayed: o(1), SampleBytes: o(5000),
			WordEntropy: o(6123), Compression: o(480),
		},
	}
	return observed(c)
}

func post() interaction.Receipt {
	c := base()
	c.ActionType = interaction.ActionComposePost
	c.Post = &interaction.PostMade{BindingHash: hash, Status: 201,
		Artifacts: []interaction.NamedArtifact{{Name: "sessionReceipt", Hash: hash}}}
	return observed(c)
}

func closing() interaction.Receipt {
	c := base()
	c.Closing = &interaction.Closing{Reason: interaction.ClosedEnded}
	return observed(c)
}

func sign(t *testing.T, c interaction.Receipt) (string, error) {
	t.Helper()
	return signBy(t, "interaction-receipt-key", c)
}

func signBy(t *testing.T, name string, c interaction.Receipt) (string, error) {
	t.Helper()
	return signAny(t, name, interaction.Kind, c)
}

func signAny[C any](t *testing.T, name string, kind evidence.Kind[C], c C) (string, error) {
	t.Helper()
	key, err := custody.NewMemory(name)
	check.Must(t, err)
	version, err := key.Current(t.Context())
	check.Must(t, err)
	return evidence.Sign(t.Context(), version, kind, c)
}

// TestReadAsVIN: readers of VIN's ReceiptV0 and ReceiptV1 find their fields.
func TestReadAsVIN(t *testing.T) {
	for name, c := range map[string]interaction.Receipt{"a call to a model": modelCall(), "a post": post(),
		"the end": closing()} {
		t.Run(name, func(t *testing.T) {
			c.Chain.SequenceNumber, c.Chain.PreviousReceiptHash = 2, hash
			c.Challenge = &interaction.ChallengeRef{ChallengeNonce: "nonce", CommitmentHash: hash,
				CommitmentRevealed: true}
			token, err := sign(t, observed(c))
			check.Must(t, err)
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
			check.Must(t, err)
			var r struct {
				RequestID  string `json:"request_id"`
				ActionType string `json:"action_type"`
				PolicyID   string `json:"policy_id"`
				Inputs     string `json:"inputs_commitment"`
				Limits     string `json:"constraints_commitment"`
				LLM        string `json:"llm_commitment"`
				Clean      string `json:"output_clean_hash"`
				Transport  string `json:"output_transport_hash"`
				IssuedAt   int64  `json:"iat"`
				Expires    int64  `json:"exp"`
				Timing     map[string]int64
				Chain      struct {
					Previous string `json:"previous_receipt_hash"`
					Session  string `json:"session_id"`
					Number   int64  `json:"sequence_number"`
				}
				Challenge struct {
					Nonce    string `json:"challenge_nonce"`
					Hash     string `json:"commitment_hash"`
					Revealed bool   `json:"commitment_revealed"`
				}
			}
			check.Must(t, json.Unmarshal(payload, &r))
			for _, h := range []string{r.Inputs, r.Limits, r.LLM, r.Clean, r.Transport, r.Chain.Previous, r.Challenge.Hash} {
				if !evidence.IsHash(h) {
					t.Errorf("%q is no hash", h)
				}
			}
			if r.RequestID == "" || r.PolicyID == "" || r.Expires != r.IssuedAt+600 || r.Chain.Session == "" ||
				r.Chain.Number != 2 || r.Challenge.Nonce == "" || !r.Challenge.Revealed {
				t.Errorf("%+v", r)
			}
			if !slices.Contains([]string{"compose_post", "challenge_response", "generic", "confidential_llm_call"},
				r.ActionType) {
				t.Errorf("the action is %q", r.ActionType)
			}
			for _, name := range []string{"request_received_ms", "llm_start_ms", "llm_end_ms", "response_sent_ms"} {
				if r.Timing[name] == 0 {
					t.Errorf("there is no %s", name)
				}
			}
		})
	}
}

// TestTheLongestReceipt: with all texts and lists at their bounds it fits a token.
func TestTheLongestReceipt(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	const most = 1<<53 - 1
	fill := func(c *interaction.Receipt) {
		c.Issuer, c.Audience, c.ID = long(256), long(256), long(256)
		c.KeyCustody = long(64)
		c.RequestID, c.Agent, c.RuntimeID, c.EventID, c.Chain.SessionID = long(128), long(256), long(128), long(256),
			long(128)
		c.Chain.SequenceNumber, c.Chain.PreviousReceiptHash = most, hash
		c.Challenge = &interaction.ChallengeRef{ChallengeNonce: long(128), CommitmentHash: hash,
			CommitmentRevealed: true}
		c.RelayedCount = most
		for range interaction.MaxRelayed {
			c.Relayed = append(c.Relayed, interaction.RelayedCall{Host: long(128), Tool: long(128), Arguments: tag,
				CallID: tag})
		}
		c.Session = interaction.SessionTotals{OpenedMS: most, Calls: most, CallsObserved: most, BytesOut: most,
			BytesOutObserved: most}
	}
	model := modelCall()
	fill(&model)
	m := model.Model
	m.API, m.Host, m.Rule, m.Model, m.AnsweredBy, m.Unread = long(64), long(128), long(128), long(128), long(128),
		long(64)
	model.Outcome = interaction.OutcomeNotMeasured
	m.ToolCalls, m.ReturnedCalls = nil, nil
	for range interaction.MaxHosted {
		m.HostedTools = append(m.HostedTools, long(64))
	}
	m.HostedTools, m.UnknownMembers = m.HostedTools[1:], []string{long(64)}
	for range interaction.MaxToolCalls {
		m.ToolCalls = append(m.ToolCalls, interaction.ToolCall{ID: tag, Tool: long(64), Arguments: tag})
	}
	for i := range interaction.MaxReturned {
		m.ReturnedCalls = append(m.ReturnedCalls, evidence.HashBytes([]byte{byte(i)})[:32])
	}
	m.Probe = &interaction.Probe{ID: long(128), Answer: tag}
	figures := reflect.ValueOf(&m.Figures).Elem()
	for i := range figures.NumField() {
		if f := figures.Field(i).Addr().Interface().(*interaction.Figure); f.State == interaction.StateObserved {
			*f = interaction.Observed(most)
		}
	}
	m.Figures.Turnaround = interaction.Observed(most)
	made := post()
	fill(&made)
	made.Post.Artifacts = nil
	for i := range interaction.MaxNamed {
		made.Post.Artifacts = append(made.Post.Artifacts,
			interaction.NamedArtifact{Name: long(63) + string(rune('a'+i)), Hash: hash})
	}
	for name, c := range map[string]interaction.Receipt{"a call to a model": observed(model), "a post": observed(made)} {
		t.Run(name, func(t *testing.T) {
			token, err := signBy(t, long(250), c)
			check.Must(t, err)
			if _, err := evidence.UnverifiedClaims(interaction.Kind, token); err != nil {
				t.Fatalf("%d bytes: %v", len(token), err)
			}
		})
	}
}

func TestObservedOf(t *testing.T) {
	challenged := modelCall()
	challenged.Challenge = &interaction.ChallengeRef{ChallengeNonce: "n"}
	guarded, apart := closing(), closing()
	guarded.Enforcement, apart.Enforcement = evidence.EnforcedGuard, evidence.EnforcedPod
	const (
		model = " model_call.api model_call.host model_call.hosted_tools model_call.returned_calls model_call.rule " +
			"model_call.status model_call.streamed" +
			" model_call.tool_calls"
		before = "constraints_commitment event_id inputs_commitment llm_commitment"
		output = " outcome output_clean_hash output_transport_hash policy_id"
		after  = " relayed relayed_count request_id session timing"
	)
	for name, tt := range map[string]struct {
		of   interaction.Receipt
		want string
	}{
		"a call to a model":  {modelCall(), "chain " + before + model + output + after},
		"a challenged agent": {challenged, "chain challenge " + before + model + output + after},
		"a post":             {post(), "chain " + before + output + " post" + after},
		"the end":            {closing(), "chain closing " + before + output + after},
		"behind kernel rules": {guarded,
			"chain closing constraints_commitment enforcement event_id inputs_commitment " +
				"llm_commitment" + output + after},
		"behind NetworkPolicies": {apart, "chain closing " + before + output + after},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(interaction.ObservedOf(tt.of), " "); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	public, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	check.Must(t, err)
	if got := interaction.Owner(public); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("owner %s", got)
	}
}

func TestCommit(t *testing.T) {
	got, err := interaction.Commit(interaction.Salt{}, map[string]any{"b": 1, "a": "x"})
	if want := evidence.HashBytes([]byte(`{"salt":"AAAAAAAAAAAAAAAAAAAAAA","value":{"a":"x","b":1}}`)); err != nil ||
		got != want {
		t.Errorf("%s, %v", got, err)
	}
	other, err := interaction.Commit(interaction.Salt{1}, map[string]any{"b": 1, "a": "x"})
	if err != nil || other == got {
		t.Error("the salt changes nothing")
	}
	if got, err := interaction.Commit(interaction.Salt{}, make(chan int)); err == nil {
		t.Errorf("%q commits to what cannot be written", got)
	}
}
