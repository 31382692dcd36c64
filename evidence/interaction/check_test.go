package interaction_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/check"
)

func TestClaimsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 300)
	type f = interaction.Figure
	figure := func(at func(*interaction.ModelFigures) *f, to f) func(*receipt) {
		return func(c *receipt) { *at(&c.Model.Figures) = to }
	}
	duration := func(m *interaction.ModelFigures) *f { return &m.Duration }
	tokens := func(m *interaction.ModelFigures) *f { return &m.OutputTokens }
	depth := func(m *interaction.ModelFigures) *f { return &m.Depth }
	hosted := func(m *interaction.ModelFigures) *f { return &m.HostedCalls }
	challenge := func(r interaction.ChallengeRef) func(*receipt) {
		return func(c *receipt) { c.Challenge = &r; c.Observed = interaction.ObservedOf(*c) }
	}
	relayed := func(n int, count int64) func(*receipt) {
		return func(c *receipt) {
			c.Relayed, c.RelayedCount = slices.Repeat([]interaction.RelayedCall{{Host: "h", Tool: "t"}}, n), count
		}
	}
	none := interaction.NotMeasured
	sample := func(bytes, entropy, compression f) func(*receipt) {
		return func(c *receipt) {
			m := &c.Model.Figures
			m.SampleBytes, m.WordEntropy, m.Compression = bytes, entropy, compression
		}
	}
	for name, spoil := range map[string]func(*receipt){
		"a proof":          func(c *receipt) { c.NonHumanIdentityProven = true },
		"certain":          func(c *receipt) { c.Probabilistic = false },
		"another lifetime": func(c *receipt) { c.Expires-- },
		"nothing observed": func(c *receipt) { c.Observed = nil },
		"more observed": func(c *receipt) {
			c.Observed = append(slices.Clone(c.Observed), "model_call.model")
		},
		"less observed":                   func(c *receipt) { c.Observed = c.Observed[1:] },
		"no owner":                        func(c *receipt) { c.Owner = "" },
		"no agent":                        func(c *receipt) { c.Agent = "" },
		"a long agent":                    func(c *receipt) { c.Agent = long },
		"no request":                      func(c *receipt) { c.RequestID = "" },
		"no session":                      func(c *receipt) { c.Chain.SessionID = "" },
		"no event":                        func(c *receipt) { c.EventID = "" },
		"no runtime":                      func(c *receipt) { c.RuntimeID = "" },
		"no custody":                      func(c *receipt) { c.KeyCustody = "" },
		"no policy":                       func(c *receipt) { c.PolicyID = "" },
		"a commitment in capitals":        func(c *receipt) { c.InputsCommitment = strings.ToUpper(hash) },
		"a short commitment":              func(c *receipt) { c.ConstraintsCommitment = tag },
		"no commitment":                   func(c *receipt) { c.LLMCommitment = "" },
		"no clean output":                 func(c *receipt) { c.OutputCleanHash = "" },
		"no transported output":           func(c *receipt) { c.OutputTransportHash = "" },
		"number 0":                        func(c *receipt) { c.Chain.SequenceNumber = 0 },
		"number 0, after another":         func(c *receipt) { c.Chain.SequenceNumber, c.Chain.PreviousReceiptHash = 0, hash },
		"the first with one before it":    func(c *receipt) { c.Chain.PreviousReceiptHash = hash },
		"the second with none":            func(c *receipt) { c.Chain.SequenceNumber = 2 },
		"one before it that is none":      func(c *receipt) { c.Chain.SequenceNumber, c.Chain.PreviousReceiptHash = 2, "x" },
		"about nothing":                   func(c *receipt) { c.Model = nil; c.Observed = interaction.ObservedOf(*c) },
		"about two":                       func(c *receipt) { c.Closing = closing().Closing },
		"a post's action":                 func(c *receipt) { c.ActionType = interaction.ActionComposePost },
		"another action":                  func(c *receipt) { c.ActionType = "other" },
		"another outcome":                 func(c *receipt) { c.Outcome = "other" },
		"not measured, and no reason":     func(c *receipt) { c.Outcome = interaction.OutcomeNotMeasured },
		"a reason, and complete":          func(c *receipt) { c.Model.Unread = "behind" },
		"no time":                         func(c *receipt) { c.Timing = interaction.Timing{} },
		"an end before the start":         func(c *receipt) { c.Timing.LLMEnd = c.Timing.LLMStart - 1 },
		"sent before it came":             func(c *receipt) { c.Timing.ResponseSent = c.Timing.RequestReceived - 1 },
		"signed before it was over":       func(c *receipt) { c.Timing.ResponseSent += 5000 },
		"a challenge without nonce":       challenge(interaction.ChallengeRef{}),
		"nothing to reveal":               challenge(interaction.ChallengeRef{ChallengeNonce: "n", CommitmentRevealed: true}),
		"committed to no hash":            challenge(interaction.ChallengeRef{ChallengeNonce: "n", CommitmentHash: tag}),
		"no opening":                      func(c *receipt) { c.Session.OpenedMS = 0 },
		"more calls observed":             func(c *receipt) { c.Session.CallsObserved = c.Session.Calls + 1 },
		"more bytes observed":             func(c *receipt) { c.Session.BytesOutObserved = c.Session.BytesOut + 1 },
		"calls below nought":              func(c *receipt) { c.Session.CallsObserved = -1 },
		"bytes below nought":              func(c *receipt) { c.Session.BytesOutObserved = -1 },
		"relayed, and not counted":        relayed(1, 0),
		"relayed calls that are not said": relayed(0, 1),
		"more relayed than counted":       relayed(interaction.MaxRelayed, interaction.MaxRelayed-1),
		"too many relayed":                relayed(interaction.MaxRelayed+1, interaction.MaxRelayed+1),
		"relayed by no tool": func(c *receipt) {
			c.Relayed, c.RelayedCount = []interaction.RelayedCall{{Host: "h"}}, 1
		},
		"relayed to nobody": func(c *receipt) {
			c.Relayed, c.RelayedCount = []interaction.RelayedCall{{Tool: "t"}}, 1
		},
		"relayed with a text": func(c *receipt) {
			c.Relayed, c.RelayedCount = []interaction.RelayedCall{{Host: "h", Tool: "t", Arguments: "a text"}}, 1
		},
		"no host":                   func(c *receipt) { c.Model.Host = "" },
		"no API":                    func(c *receipt) { c.Model.API = "" },
		"no rule":                   func(c *receipt) { c.Model.Rule = "" },
		"a long model":              func(c *receipt) { c.Model.Model = long },
		"a long answerer":           func(c *receipt) { c.Model.AnsweredBy = long },
		"a long reason":             func(c *receipt) { c.Outcome, c.Model.Unread = interaction.OutcomeNotMeasured, long },
		"a status below HTTP's":     func(c *receipt) { c.Model.Status = 99 },
		"a status above HTTP's":     func(c *receipt) { c.Model.Status = 1000 },
		"a call that is not said":   func(c *receipt) { c.Model.ToolCalls = nil },
		"an id that is no tag":      func(c *receipt) { c.Model.ToolCalls[0].ID = "call_1" },
		"arguments that are no tag": func(c *receipt) { c.Model.ToolCalls[0].Arguments = `{"q":"x"}` },
		"a result that is no tag":   func(c *receipt) { c.Model.ReturnedCalls = []string{"call_1"} },
		"a result twice":            func(c *receipt) { c.Model.ReturnedCalls = []string{tag, tag} },
		"a result without tag":      func(c *receipt) { c.Model.ReturnedCalls = []string{""} },
		"too many results": func(c *receipt) {
			for i := range interaction.MaxReturned {
				c.Model.ReturnedCalls = append(c.Model.ReturnedCalls, evidence.HashBytes([]byte{byte(i)})[:32])
			}
		},
		"too many hosted tools": func(c *receipt) {
			c.Model.HostedTools = slices.Repeat([]string{"web"}, interaction.MaxHosted+1)
		},
		"a probe without id":        func(c *receipt) { c.Model.Probe = &interaction.Probe{Answer: tag} },
		"a probe's text":            func(c *receipt) { c.Model.Probe = &interaction.Probe{ID: "p", Answer: "42"} },
		"a figure of no state":      figure(duration, f{"", 1}),
		"a figure of another state": figure(duration, f{"proven", 1}),
		"a declared duration":       figure(duration, interaction.Declared(1)),
		"an estimated duration":     figure(duration, interaction.Estimated(1)),
		"a duration below nought":   figure(duration, interaction.Observed(-1)),
		"not measured, and a value": figure(duration, f{interaction.StateNotMeasured, 1}),
		"tokens that were observed": figure(tokens, interaction.Observed(1)),
		"a depth that was observed": figure(depth, interaction.Observed(1)),
		"hosted calls observed":     figure(hosted, interaction.Observed(1)),
		"a little sample":           sample(interaction.Observed(interaction.MinSample-1), none, none),
		"the entropy of nothing":    sample(none, interaction.Observed(1), none),
		"the size of nothing":       sample(none, none, interaction.Observed(1)),
	} {
		t.Run(name, func(t *testing.T) {
			c := modelCall()
			c.Model.ReturnedCalls = slices.Clone(c.Model.ReturnedCalls)
			if _, err := sign(t, c); err != nil {
				t.Fatal(err)
			}
			spoil(&c)
			_, err := sign(t, c)
			wantCode(t, err, "artifact_malformed")
		})
	}
	for name, spoil := range map[string]func(*receipt){
		"no binding":         func(c *receipt) { c.Post.BindingHash = "" },
		"no artifacts":       func(c *receipt) { c.Post.Artifacts = nil },
		"one without a hash": func(c *receipt) { c.Post.Artifacts[0].Hash = "" },
		"one without a name": func(c *receipt) { c.Post.Artifacts[0].Name = "" },
		"one twice":          func(c *receipt) { c.Post.Artifacts = slices.Repeat(c.Post.Artifacts, 2) },
		"too many artifacts": func(c *receipt) {
			for i := range interaction.MaxNamed {
				c.Post.Artifacts = append(c.Post.Artifacts, interaction.NamedArtifact{Name: string(rune('a' + i)), Hash: hash})
			}
		},
		"a status below HTTP's": func(c *receipt) { c.Post.Status = 99 },
		"a status above HTTP's": func(c *receipt) { c.Post.Status = 1000 },
		"a model's outcome":     func(c *receipt) { c.Outcome = interaction.OutcomeCut },
		"a model call's action": func(c *receipt) { c.ActionType = interaction.ActionGeneric },
	} {
		t.Run("a post: "+name, func(t *testing.T) {
			c := post()
			c.Post.Artifacts = slices.Clone(c.Post.Artifacts)
			spoil(&c)
			_, err := sign(t, c)
			wantCode(t, err, "artifact_malformed")
		})
	}
	c := closing()
	c.Closing.Reason = "other"
	_, err := sign(t, c)
	wantCode(t, err, "artifact_malformed")
	if err == nil || !strings.Contains(err.Error(), "interaction-receipt+jwt") {
		t.Errorf("%v does not say what is malformed", err)
	}
}

func TestFiguresOfAnotherState(t *testing.T) {
	const observed, declared, estimated = interaction.StateObserved, interaction.StateDeclared, interaction.StateEstimated
	refused := map[string][]string{ // of every other figure: declared, estimated
		"InputTokens": {observed}, "OutputTokens": {observed}, "CachedTokens": {observed, estimated},
		"ReasoningTokens": {observed, estimated},
		"HostedCalls":     {observed, estimated}, "Depth": {observed, estimated},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[interaction.ModelFigures]()) {
		states, ok := refused[field.Name]
		if !ok {
			states = []string{declared, estimated}
		}
		for _, state := range append(slices.Clone(states), "", "other") {
			t.Run(field.Name+" "+state, func(t *testing.T) {
				c := modelCall()
				reflect.ValueOf(&c.Model.Figures).Elem().FieldByIndex(field.Index).FieldByName("State").SetString(state)
				_, err := sign(t, c)
				wantCode(t, err, "artifact_malformed")
			})
		}
	}
}

func TestClaimsThatAreTaken(t *testing.T) {
	ms := noon.UnixMilli()
	action := func(to string) func(*receipt) { return func(c *receipt) { c.ActionType = to } }
	outcome := func(to string) func(*receipt) { return func(c *receipt) { c.Outcome = to } }
	status := func(to int64) func(*receipt) {
		return func(c *receipt) {
			if c.Model != nil {
				c.Model.Status = to
			} else {
				c.Post.Status = to
			}
		}
	}
	challenge := func(r interaction.ChallengeRef) func(*receipt) { return func(c *receipt) { c.Challenge = &r } }
	reason := func(to string) func(*receipt) { return func(c *receipt) { c.Closing.Reason = to } }
	for _, tt := range []struct {
		name string
		of   func() receipt
		edit func(*receipt)
	}{
		{"a generic call", modelCall, action(interaction.ActionGeneric)},
		{"an answer to a challenge", modelCall, action(interaction.ActionChallengeResponse)},
		{"a confidential call", modelCall, action(interaction.ActionConfidentialCall)},
		{"failed", modelCall, outcome(interaction.OutcomeFailed)},
		{"unfinished", modelCall, outcome(interaction.OutcomeUnfinished)},
		{"cut", modelCall, outcome(interaction.OutcomeCut)},
		{"indeterminate", modelCall, outcome(interaction.OutcomeIndeterminate)},
		{"not measured", modelCall, func(c *receipt) {
			c.Outcome, c.Model.Unread = interaction.OutcomeNotMeasured, "behind"
		}},
		{"failed and not read", modelCall, func(c *receipt) {
			c.Outcome, c.Model.Unread = interaction.OutcomeFailed, "behind"
		}},
		{"no status", modelCall, status(0)},
		{"the least status", modelCall, status(100)},
		{"the last status", modelCall, status(999)},
		{"a post that failed", post, outcome(interaction.OutcomeFailed)},
		{"an indeterminate post", post, outcome(interaction.OutcomeIndeterminate)},
		{"a post without status", post, status(0)},
		{"a post's least status", post, status(100)},
		{"a post's last status", post, status(999)},
		{"an end by shutdown", closing, reason(interaction.ClosedShutdown)},
		{"an end that was lost", closing, reason(interaction.ClosedLost)},
		{"all at one time", modelCall, func(c *receipt) {
			c.Timing = interaction.Timing{RequestReceived: ms, LLMStart: ms, LLMEnd: ms, ResponseSent: ms}
		}},
		{"a challenge", modelCall, challenge(interaction.ChallengeRef{ChallengeNonce: "n"})},
		{"a commitment", modelCall, challenge(interaction.ChallengeRef{ChallengeNonce: "n", CommitmentHash: hash})},
		{"nothing counted", modelCall, func(c *receipt) { c.Session = interaction.SessionTotals{OpenedMS: 1} }},
		{"a call without tags", modelCall, func(c *receipt) { c.Model.ToolCalls = []interaction.ToolCall{{}} }},
		{"tokens not measured", modelCall, func(c *receipt) { c.Model.Figures.OutputTokens = interaction.NotMeasured }},
		{"the least sample", modelCall, func(c *receipt) { c.Model.Figures.SampleBytes.Value = interaction.MinSample }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.of()
			tt.edit(&c)
			if _, err := sign(t, observed(c)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSessionReceiptsThatNameAChain(t *testing.T) {
	ids := func(n int) (all []string) {
		for i := range n {
			all = append(all, "post_"+string(rune('A'+i/26))+string(rune('a'+i%26)))
		}
		return all
	}
	for name, tt := range map[string]struct {
		head *evidence.InteractionHead
		ok   bool
	}{
		"none":                   {nil, true},
		"an empty chain":         {&evidence.InteractionHead{}, true},
		"a chain":                {&evidence.InteractionHead{Number: 7, HeadHash: hash, OpenCalls: ids(2)}, true},
		"as many as can be open": {&evidence.InteractionHead{OpenCalls: ids(evidence.MaxOpenCalls)}, true},
		"more":                   {&evidence.InteractionHead{OpenCalls: ids(evidence.MaxOpenCalls + 1)}, false},
		"a head without number":  {&evidence.InteractionHead{HeadHash: hash}, false},
		"a number without head":  {&evidence.InteractionHead{Number: 1}, false},
		"no hash":                {&evidence.InteractionHead{Number: 1, HeadHash: "x"}, false},
		"below nought":           {&evidence.InteractionHead{Number: -1, HeadHash: hash}, false},
		"not in order":           {&evidence.InteractionHead{OpenCalls: []string{"b", "a"}}, false},
		"one twice":              {&evidence.InteractionHead{OpenCalls: []string{"a", "a"}}, false},
		"an empty id":            {&evidence.InteractionHead{OpenCalls: []string{""}}, false},
		"a long id":              {&evidence.InteractionHead{OpenCalls: []string{strings.Repeat("x", 65)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := signAny(t, "session-key", evidence.SessionReceiptKind(), evidence.SessionReceipt{
				Registered: base().Registered, KeyClaims: base().KeyClaims, BindingHash: hash, ChallengeID: "c",
				EnvironmentHash: hash, EventID: "e", InputKind: "k",
				InputSource: "s", Interactions: tt.head, PolicyHash: hash, RuntimeID: "r", SessionID: "s", TranscriptHash: hash,
			})
			if !tt.ok {
				wantCode(t, err, "artifact_malformed")
				return
			}
			check.Must(t, err)
			if _, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), token); err != nil {
				t.Error(err)
			}
		})
	}
}
