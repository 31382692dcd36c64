package interaction_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/check"
)

var abbreviations = strings.NewReplacer("LONG", strings.Repeat("x", 300), "HASH", hash, "TAG", tag,
	"CALL", `{"host":"h","tool":"t"}`, "NONE", `{"state":"not_measured"}`, "FIGS", "model_call.figures")

// edited changes members of claims: "path value; path value".
func edited[C any](t *testing.T, claims C, edits string) (out C) {
	t.Helper()
	raw, err := json.Marshal(claims)
	check.Must(t, err)
	var document any
	check.Must(t, json.Unmarshal(raw, &document))
	for edit := range strings.SplitSeq(abbreviations.Replace(strings.TrimSpace(edits)), "; ") {
		path, text, _ := strings.Cut(edit, " ")
		var value any
		check.Must(t, json.Unmarshal([]byte(text), &value))
		at, names := document, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			if list, ok := at.([]any); ok {
				at = list[0]
			} else {
				at = at.(map[string]any)[name]
			}
		}
		at.(map[string]any)[names[len(names)-1]] = value
	}
	raw, err = json.Marshal(document)
	check.Must(t, err)
	check.Must(t, json.Unmarshal(raw, &out))
	return out
}

// wantMalformed signs the claims with each line's edits.
func wantMalformed(t *testing.T, of receipt, lines string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		t.Run(line, func(t *testing.T) {
			_, err := sign(t, observed(edited(t, of, line)))
			wantCode(t, err, "artifact_malformed")
		})
	}
}

// TestClaimsThatAreRefused: what the golden vectors do not show.
func TestClaimsThatAreRefused(t *testing.T) {
	wantMalformed(t, modelCall(), `
		exp 1772366999
		chain.session_id ""
		event_id ""
		runtime_id ""
		keyCustody ""
		constraints_commitment "TAG"
		llm_commitment ""
		output_clean_hash ""
		chain.sequence_number 0; chain.previous_receipt_hash "HASH"
		chain.sequence_number 2; chain.previous_receipt_hash "x"
		action_type "other"
		timing.response_sent_ms 1772366397999
		challenge {}
		challenge {"challenge_nonce":"n","commitment_hash":"TAG"}
		session.bytes_out_observed 901
		session.calls_observed -1
		session.bytes_out_observed -1
		relayed_count 1
		relayed [CALL,CALL,CALL,CALL]; relayed_count 3
		relayed [CALL,CALL,CALL,CALL,CALL]; relayed_count 5
		relayed [{"host":"h"}]; relayed_count 1
		relayed [{"tool":"t"}]; relayed_count 1
		relayed [{"host":"h","tool":"t","arguments":"a text"}]; relayed_count 1
		model_call.api ""
		model_call.rule ""
		model_call.model "LONG"
		model_call.answered_by "LONG"
		outcome "not_measured"; model_call.unread "LONG"
		model_call.status 1000
		model_call.tool_calls []
		model_call.tool_calls.0.arguments "{}"
		model_call.returned_calls [""]
		model_call.hosted_tools ["a","a","a","a","a","a","a","a","a"]
		model_call.unknown_members ["a","a","a","a","a","a","a","a","a"]
		model_call.probe {"id":"p","answer":"42"}
		FIGS.duration_ms {"state":"proven","value":1}
		FIGS.duration_ms {"state":"estimated","value":1}
		FIGS.hosted_calls {"state":"observed","value":1}
		FIGS.sample_bytes {"state":"observed","value":4095}; FIGS.word_entropy_millibits NONE; FIGS.compression_permille NONE
		FIGS.sample_bytes NONE; FIGS.compression_permille NONE
		FIGS.sample_bytes NONE; FIGS.word_entropy_millibits NONE
	`)
	wantMalformed(t, post(), `
		post.binding_hash ""
		post.artifacts []
		post.artifacts.0.hash ""
		post.artifacts.0.name ""
		post.artifacts [{"name":"a","hash":"HASH"},{"name":"a","hash":"HASH"}]
		post.status 99
		post.status 1000
		outcome "cut"
		action_type "generic"
	`)
	wantMalformed(t, closing(), `closing.reason "other"`)
	for name, spoil := range map[string]func(*receipt){
		"less observed": func(c *receipt) { c.Observed = c.Observed[1:] },
		"too many results": func(c *receipt) {
			for i := range interaction.MaxReturned {
				c.Model.ReturnedCalls = append(c.Model.ReturnedCalls, evidence.HashBytes([]byte{byte(i)})[:32])
			}
		},
		"too many artifacts": func(c *receipt) {
			*c = post()
			for i := range interaction.MaxNamed {
				c.Post.Artifacts = append(c.Post.Artifacts,
					interaction.NamedArtifact{Name: string(rune('a' + i)), Hash: hash})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := modelCall()
			spoil(&c)
			_, err := sign(t, c)
			wantCode(t, err, "artifact_malformed")
			if err == nil || !strings.Contains(err.Error(), "interaction-receipt+jwt") {
				t.Errorf("%v does not say what is malformed", err)
			}
		})
	}
}

func TestFiguresOfAnotherState(t *testing.T) {
	const observed, declared, estimated = interaction.StateObserved, interaction.StateDeclared,
		interaction.StateEstimated
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
	for lines, of := range map[string]receipt{
		`action_type "generic"
		action_type "challenge_response"
		action_type "confidential_llm_call"
		outcome "failed"
		outcome "unfinished"
		outcome "cut"
		outcome "indeterminate"
		outcome "not_measured"; model_call.unread "behind"
		outcome "failed"; model_call.unread "behind"
		model_call.status 0
		model_call.status 100
		model_call.status 999
		timing {"request_received_ms":1,"llm_start_ms":1,"llm_end_ms":1,"response_sent_ms":1}
		challenge {"challenge_nonce":"n"}
		challenge {"challenge_nonce":"n","commitment_hash":"HASH"}
		session {"opened_ms":1}
		model_call.tool_calls [{}]
		FIGS.output_tokens {"state":"not_measured"}
		FIGS.sample_bytes {"state":"observed","value":4096}`: modelCall(),
		`outcome "completed"
		outcome "failed"
		outcome "indeterminate"
		post.status 0
		post.status 100
		post.status 999`: post(),
		`closing.reason "ended"
		closing.reason "shutdown"
		closing.reason "lost"`: closing(),
	} {
		for line := range strings.SplitSeq(lines, "\n") {
			t.Run(line, func(t *testing.T) {
				token, err := sign(t, observed(edited(t, of, line)))
				check.Must(t, err)
				_, err = evidence.UnverifiedClaims(interaction.Kind, token)
				check.Must(t, err)
			})
		}
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
				InputSource: "s", Interactions: tt.head, PolicyHash: hash, RuntimeID: "r", SessionID: "s",
				TranscriptHash: hash,
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
