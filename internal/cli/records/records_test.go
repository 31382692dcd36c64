package records

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestShowModel(t *testing.T) {
	var out bytes.Buffer
	Print(&out, admin.Record{Record: ledger.Record{ID: "post_1", Model: &ledger.ModelCall{
		API: "openai-chat", Model: "gpt-5", AnsweredBy: "gpt-5-2025", Outcome: "complete",
		Hosted: []string{"web_search"},
		Input:  &ledger.Figure{N: 9, State: "declared"}, Output: &ledger.Figure{N: 6, State: "estimated"},
		End: &ledger.Figure{N: 1500, State: "observed"},
	}}})
	for _, want := range []string{
		"model        openai-chat complete, asked gpt-5, answered by gpt-5-2025, unseen web_search\n",
		"tokens       input 9 declared, output 6 estimated, cached not measured, reasoning not measured\n",
		"model ms     sent not measured, head not measured, first content not measured, end 1.5 observed\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it shows\n%s, and not %q", out.String(), want)
		}
	}
}

func TestTimeline(t *testing.T) {
	key, err := custody.NewMemory("interaction-key")
	check.Must(t, err)
	issuer, err := signer.New(interaction.Kind, key,
		signer.Options{Issuer: "sidecar", Audience: "aud", Lifetime: interaction.Lifetime, Now: time.Now})
	check.Must(t, err)
	hash := evidence.HashBytes(nil)
	base := func(n int64, id, action string) interaction.Receipt {
		c := interaction.Receipt{
			RequestID: id, ActionType: action, PolicyID: hash, InputsCommitment: hash, ConstraintsCommitment: hash,
			LLMCommitment: hash, OutputCleanHash: hash,
			OutputTransportHash: hash, Timing: interaction.Timing{RequestReceived: 1_000_000 + n*1500},
			Chain: interaction.ChainLink{SessionID: "ses_1", SequenceNumber: n},
			Owner: strings.Repeat("o", 43), Agent: "agent", RuntimeID: "worker-1", EventID: "evt_1",
			Outcome: interaction.OutcomeCompleted,
			Session: interaction.SessionTotals{OpenedMS: 1}, Probabilistic: true,
		}
		if n > 1 {
			c.Chain.PreviousReceiptHash = hash
		}
		return c
	}
	sign := func(c interaction.Receipt) string {
		t.Helper()
		c.Observed = interaction.ObservedOf(c)
		o, err := issuer.Issue(t.Context(), c)
		check.Must(t, err)
		return o.Token()
	}
	model := base(1, "post_1", interaction.ActionGeneric)
	model.Model = &interaction.ModelCall{API: "openai-chat", Host: "api.example.com:443", Rule: "model", Model: "gpt-5",
		Status: 200, ToolCalls: []interaction.ToolCall{{Tool: "look"}}}
	f := reflect.ValueOf(&model.Model.Figures).Elem()
	for i := range f.NumField() {
		f.Field(i).Set(reflect.ValueOf(interaction.NotMeasured))
	}
	model.Model.Figures.InputTokens, model.Model.Figures.OutputTokens, model.Model.Figures.ToolCallsMade = interaction.
		Declared(9), interaction.Estimated(6), interaction.Observed(1)
	made := base(2, "post_2", interaction.ActionComposePost)
	made.Post = &interaction.PostMade{BindingHash: hash, Status: 201,
		Artifacts: []interaction.NamedArtifact{{Name: "grant", Hash: hash}}}
	made.Relayed, made.RelayedCount = []interaction.RelayedCall{{Host: "mcp.example.com:443", Tool: "look"}}, 1
	tokens := []string{sign(model), sign(made)}
	show := func(tokens []string) string {
		var out bytes.Buffer
		Print(&out, admin.Record{
			Record: ledger.Record{ID: "post_2",
				Interactions: &ledger.Standing{Number: 1, Head: hash, Open: []string{"post_9"}}},
			Receipts: tokens})
		return out.String()
	}
	for _, want := range []string{
		"  timeline     2 receipts; the post names number 1, with calls open: post_9\n",
		"       +0.000 s    1   model  completed gpt-5 at api.example.com:443 (200), tokens in 9 declared, out 6 " +
			"estimated, asks for look\n",
		"                      tool   look at mcp.example.com:443\n       +1.500 s    2   post   completed post_2 " +
			"(201)\n",
	} {
		if got := show(tokens); !strings.Contains(got, want) {
			t.Errorf("it shows\n%s, and not %q", got, want)
		}
	}
	if got := show(slices.Repeat(tokens, 1000)); strings.Count(got, "\n") > 100 ||
		!strings.Contains(got, "1960 earlier ones are left out") {
		t.Errorf("of many receipts it shows %d lines", strings.Count(got, "\n"))
	}
	if got := show([]string{"no receipt"}); !strings.Contains(got, "a receipt cannot be read") {
		t.Errorf("it shows %s", got)
	}
}

func TestShowRemedy(t *testing.T) {
	for code, want := range map[string]string{
		"egress_denied":  "  refused      egress_denied at step match: no\n  remedy       Add an egress rule, with ",
		"of_another_day": "  refused      of_another_day at step match: no\n  ms ",
		"":               "GET a.example.com:443/b\n  ms ",
	} {
		var out bytes.Buffer
		Print(&out, admin.Record{
			Record: ledger.Record{ID: "post_1", Method: "GET", Host: "a.example.com:443", Path: "/b", Code: code,
				Step: "match", Reason: "no"}})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: it shows\n%s, and not %q", code, out.String(), want)
		}
	}
}

// A long path must not hide the other calls.
func TestListedCallsAreShort(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out, false)
	check.Must(t, errors.Join(
		table.Add(ledger.Record{ID: "post_1", Method: "GET", Host: "a.example.com", Path: "/" +
			strings.Repeat("a", 60<<10)}),
		table.Add(ledger.Record{ID: "post_2", Method: "GET", Host: "a.example.com", Path: "/b"}), table.Flush()))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[1], "aa…") || len(lines[1]) > 400 ||
		!strings.HasSuffix(lines[2], "GET a.example.com/b") {
		t.Errorf("%.1000q", lines)
	}
}

func TestPrintCall(t *testing.T) {
	r := ledger.Record{
		ID: "post_1", Flow: "post", State: ledger.StateRefused, Method: "POST", Host: "api.example.com:443",
		Path: "/\x1b[32m", Code: "policy_denied",
		Reason: "the rule r denies it", Started: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	}
	const text = "2026-03-01T00:00:00Z  post_1                           post      refused             -         -  " +
		"POST api.example.com:443/?[32m\n"
	const why = "    policy_denied: the rule r denies it\n    Change the policy file if the post should be allowed.\n"
	for _, colour := range []bool{false, true} {
		want := text + why
		if colour {
			want = "\x1b[31m" + text + "\x1b[0m" + why
		}
		var b strings.Builder
		if err := PrintCall(&b, r, colour); err != nil || b.String() != want {
			t.Errorf("%q, want %q: %v", b.String(), want, err)
		}
	}
}

func TestChainWithReputation(t *testing.T) {
	k := gatetest.New(t, gatetest.Autonomous)
	token := k.Reputation(t, k.Agent(t), 120, 62.5)
	post := k.PostOf(t, gatetest.Claim(evidence.PurposePolicyDecision, "reputationHash", evidence.HashToken(token)))
	var before, after bytes.Buffer
	DrawChain(&before, post.Artifacts)
	DrawChain(&after, append(post.Artifacts, ledger.Artifact{Name: "reputation", Token: token}))
	if strings.Contains(before.String(), "reputation") {
		t.Errorf("a post without it shows one:\n%s", &before)
	}
	decision, rest, _ := strings.Cut(after.String(), "reputation ")
	if !strings.Contains(decision, "policy decision") ||
		!strings.Contains(rest,
			"established: score 62.5 (at least 62.5), 120 interactions, 50 % observed, formulas ") ||
		!strings.Contains(rest, "by mediator-appraiser, key appraiser-key:v1, valid 10m0s") {
		t.Errorf("it shows\n%s", &after)
	}
}

func TestChainWithStatement(t *testing.T) {
	k := gatetest.New(t, gatetest.Speaking)
	post := k.PostOf(t, gatetest.Plan{})
	made, err := k.Speak(t).Issue(t.Context(), interaction.Statement{
		Owner: k.Owner(t), Agent: post.Subject, Session: post.Session, EventID: post.Event,
		Kind:          interaction.StatesContract,
		StatementHash: post.ContentHash, BindingHash: post.BindingHash, Probabilistic: true,
	})
	check.Must(t, err)
	var drawn bytes.Buffer
	DrawChain(&drawn, append(post.Artifacts, ledger.Artifact{Name: "agentStatement", Token: made.Token()}))
	first, rest, _ := strings.Cut(drawn.String(), "\n")
	if !strings.HasPrefix(first, "agent statement        contract ") ||
		!strings.HasSuffix(first, ", of "+post.Subject) || !strings.Contains(rest, "└─ request proof") {
		t.Errorf("it shows\n%s", &drawn)
	}
}
