package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/signer"
)

const (
	signalsURL = "http://mediator.internal/v1/signals"
	disputeURL = "http://mediator.internal/v1/dispute"
)

var (
	thisAgent  = strings.Repeat("o", 43) + ":agent"
	otherAgent = strings.Repeat("x", 43) + ":agent:worker-2"
	someHash   = strings.Repeat("0a", 32)
)

func aSignal(agent string) string {
	return `{"signal_id": "sig_1", "agent_id": "` + agent +
		`", "statement": "It will rain.", "horizon": "short", "timestamp": 1795176000}`
}

func aContract(agent string) string {
	return `{"challenge_id": "c_1", "original_signal_id": "sig_2", "challenger_agent_id": "` + agent +
		`", "counter_claim": "It will not.", "reasoning_trace": "Clouds.", "timestamp": 1795176000}`
}

func aChallenge(agent string) string {
	return `{"challenger_id": "` + agent + `", "target_id": "` + otherAgent + `", "target_receipts": ["` + someHash +
		`"], "challenge_type": "timing"}`
}

type speaker struct {
	*signer.Issuer[interaction.Statement]
	err error
}

func (s *speaker) Issue(ctx context.Context, c interaction.Statement) (evidence.Opened[interaction.Statement], error) {
	if s.err != nil {
		return evidence.Opened[interaction.Statement]{}, s.err
	}
	return s.Issuer.Issue(ctx, c)
}

// newSpeakingRig lets its agent publish at a node. Without a speaker it cannot sign.
func newSpeakingRig(t testing.TB, speaks bool) (*nodeRig, *speaker) {
	t.Helper()
	key, err := custody.NewMemory("agent-statement-key")
	must(t, err)
	by := &speaker{}
	by.Issuer, err = signer.New(interaction.StatementKind, key,
		signer.Options{Issuer: "speaker", Audience: "api", Lifetime: interaction.Lifetime, Now: time.Now})
	must(t, err)
	r := &nodeRig{node: &fakeNode{answer: func(string, []byte) (string, error) { return `{"status":"pending"}`, nil }}}
	r.postRig = newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		for i, url := range []string{signalsURL, disputeURL} {
			actions[i].Match = matching(t, url, "POST")
			actions[i].AgentSolves = false
		}
		o.Rules = rulesFor(t, actions[:2], nil)
		if o.Node = relayTo(t, r.node, nil); speaks {
			o.Node = relayTo(t, r.node, by)
		}
	})
	return r, by
}

// A published document leaves as a post, with the sidecar's statement for exactly this document.
func TestPublish(t *testing.T) {
	for _, tt := range []struct{ url, document, kind string }{
		{signalsURL, aSignal(thisAgent), interaction.StatesSignal},
		{disputeURL, aContract(thisAgent), interaction.StatesContract},
		{disputeURL, aChallenge(thisAgent), interaction.StatesChallenge},
	} {
		r, _ := newSpeakingRig(t, true)
		if answer := r.want(http.StatusOK, "POST", tt.url, tt.document, "Agent-Statement", "forged", "ActionProof-Caller",
			"forged"); answer != `{"status":"pending"}` {
			t.Errorf("%s: %s", tt.kind, answer)
		}
		rec := r.wantLast(1, ledger.Record{Flow: flowPost, State: ledger.StateForwarded})
		if len(r.node.asked) != 1 || r.node.asked[0].body != tt.document || r.node.asked[0].caller == nil {
			t.Fatalf("%s: the node was asked %+v", tt.kind, r.node.asked)
		}
		_, token, _ := strings.Cut(r.node.asked[0].header, "Agent-Statement: ")
		token, _, _ = strings.Cut(token, "\r\n")
		got, err := evidence.UnverifiedClaims(interaction.StatementKind, token)
		must(t, err)
		hash, err := evidence.HashJSON([]byte(tt.document))
		must(t, err)
		if got.Kind != tt.kind || got.StatementHash != hash || got.BindingHash != rec.BindingHash ||
			got.Owner+":"+got.Agent != thisAgent || got.Session != r.session.ID ||
			got.EventID != "evt_1" || !got.Probabilistic || got.NonHumanIdentityProven ||
			got.KeyCustody != evidence.CustodyExternalMediator {
			t.Errorf("%s: it says %+v", tt.kind, got)
		}
		if last := rec.Artifacts[len(rec.Artifacts)-1]; last != (ledger.Artifact{Name: "agentStatement",
			Token: token}) {
			t.Errorf("%s: the record ends with %+v", tt.kind, last)
		}
	}
}

// A document that the node would refuse, or by another agent, costs no event and is not signed.
func TestPublishRefused(t *testing.T) {
	signature := func(document string) string { return strings.Replace(document, "{", `{"signature": "mine", `, 1) }
	for name, tt := range map[string]struct{ url, document, code string }{
		"another agent's signal":    {signalsURL, aSignal(otherAgent), "statement_mismatch"},
		"another agent's contract":  {disputeURL, aContract(otherAgent), "statement_mismatch"},
		"another agent's challenge": {disputeURL, aChallenge(otherAgent), "statement_mismatch"},
		"a signal with a signature": {signalsURL, signature(aSignal(thisAgent)), "statement_malformed"},
		"a dispute with one":        {disputeURL, signature(aContract(thisAgent)), "statement_malformed"},
		"a contract as a signal":    {signalsURL, aContract(thisAgent), "statement_malformed"},
		"a signal as a dispute":     {disputeURL, aSignal(thisAgent), "statement_malformed"},
		"no document":               {signalsURL, `[]`, "statement_malformed"},
		"an unknown member": {signalsURL, strings.Replace(aSignal(thisAgent), "{", `{"more": 1, `, 1),
			"statement_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newSpeakingRig(t, true)
			r.wantRefused(tt.code, "POST", tt.url, tt.document)
			if rec, _ := r.record.last(); len(r.node.asked) != 0 || len(rec.Artifacts) != 0 {
				t.Errorf("the node was asked %+v, and the record has %+v", r.node.asked, rec.Artifacts)
			}
		})
	}
	t.Run("no key", func(t *testing.T) {
		r, _ := newSpeakingRig(t, false)
		r.wantRefused("not_configured", "POST", signalsURL, aSignal(thisAgent))
	})
	t.Run("a key that does not answer", func(t *testing.T) {
		r, by := newSpeakingRig(t, true)
		by.err = errors.New("the custody is away")
		r.wantRefused("internal", "POST", signalsURL, aSignal(thisAgent))
		if len(r.node.asked) != 0 {
			t.Errorf("the node was asked %+v", r.node.asked)
		}
	})
	t.Run("a rule that takes another content", func(t *testing.T) {
		m := matching(t, signalsURL, "POST")
		if _, err := rules.New([]rules.Action{{Name: "a", Match: m, Content: rules.ContentRaw}}, nil, nil); err == nil ||
			!strings.Contains(err.Error(), "is JSON") {
			t.Errorf("%v", err)
		}
		if _, err := rules.New(nil, []rules.Egress{{Name: "a", Match: m}}, nil); err == nil ||
			!strings.Contains(err.Error(), "only an action may name it") {
			t.Errorf("%v", err)
		}
	})
}

func TestOwnID(t *testing.T) {
	r, _ := newSpeakingRig(t, true)
	if _, answer := r.send("GET", ownURL+"/v1/event", ""); !strings.Contains(answer,
		`"agent":"`+thisAgent+`"`) {
		t.Errorf("%s", answer)
	}
	r.send("GET", signalsURL+"/sig_1", "")
	if len(r.node.asked) != 1 || r.node.asked[0].path != "/v1/signals/sig_1" || r.node.asked[0].caller != nil {
		t.Errorf("the node was asked %+v", r.node.asked)
	}
	r.wantRefused("not_found", "GET", signalsURL+"?agent="+otherAgent, "")
}
