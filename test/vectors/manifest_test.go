package vectors_test

import (
	"encoding/json"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
)

func (d deployment) under(change func(*policy.Manifest)) deployment {
	var m policy.Manifest
	mustDo(json.Unmarshal(must(json.Marshal(d.manifest)), &m))
	change(&m)
	d.manifest, d.strict = &m, must(m.Strict())
	return d
}

func (d deployment) triggerFaults(e evidence.Envelope) []chainVector {
	both := func(name, claim string, value any, code string) chainVector {
		c := map[string]any{claim: value}
		return chainVector{Name: "the trigger's two artifacts, " + name, Verdict: code,
			Envelope: differences(e,
				d.envelope(changes{evidence.TriggerOriginProofKind().Typ: c, evidence.TriggerReceiptKind().Typ: c}))}
	}
	return []chainVector{
		both("kind human_request", "kind", "human_request", "not_allowed"),
		both("kind unknown", "kind", "unknown", "not_allowed"),
		both("source other", "source", "other", "not_allowed"), both("source GitHub", "source", "GitHub", "not_allowed"),
		both("another event", "eventId", "evt_2", "artifacts_mismatch"),
		both("another payload, which nothing else names", "payloadHash", otherHash, "ok"),
	}
}

func (d deployment) manifestChains(e evidence.Envelope) []chainVector {
	under := func(name, code string, c changes, change func(*policy.Manifest)) chainVector {
		other := d.under(change)
		return chainVector{Name: "another manifest, " + name, Manifest: other.manifest,
			Envelope: differences(e, other.envelope(c)), Verdict: code}
	}
	receipt := func(m *policy.Manifest) *policy.ReceiptPolicy { return &m.RuntimePolicy.TriggerReceiptPolicy }
	origin := func(m *policy.Manifest) *policy.OriginPolicy { return &receipt(m).OriginProofPolicy }
	payload, delivery := evidence.HashBytes([]byte("payload")), evidence.HashBytes([]byte("delivery"))
	two := []string{"worker-1", "worker-2"}
	elsewhere := func(typ string) changes { return changes{typ: {"runtimeId": "worker-2"}} }
	unsigned := under("which nobody has signed", "deployment_mismatch", nil, func(m *policy.Manifest) {
		m.MaxChallengeAgeMs = 14000
	})
	unsigned.Envelope = nil
	return []chainVector{
		unsigned,
		under("which demands a second signature of its certificate", "roots_not_pinned", nil, func(m *policy.Manifest) {
			m.DeploymentCertificatePolicy.RequirePostQuantumSignature = true
		}),
		under("which pins what the chain has", "ok", nil, func(m *policy.Manifest) {
			receipt(m).RequiredPayloadHash, receipt(m).RequiredBindingHash = payload, binding().Hash()
			origin(m).RequiredPayloadHash, origin(m).RequiredBindingHash, origin(m).RequiredEvidenceHash = payload,
				binding().Hash(), delivery
		}),
		under("which pins the receipt's payload", "not_allowed", nil, func(m *policy.Manifest) {
			receipt(m).RequiredPayloadHash = otherHash
		}),
		under("which pins the receipt's binding", "not_allowed", nil, func(m *policy.Manifest) {
			receipt(m).RequiredBindingHash = otherHash
		}),
		under("which pins the origin's payload", "not_allowed", nil, func(m *policy.Manifest) {
			origin(m).RequiredPayloadHash = otherHash
		}),
		under("which pins the origin's binding", "not_allowed", nil, func(m *policy.Manifest) {
			origin(m).RequiredBindingHash = otherHash
		}),
		under("which pins the origin's evidence", "not_allowed", nil, func(m *policy.Manifest) {
			origin(m).RequiredEvidenceHash = otherHash
		}),
		under("with other kinds of receipts", "not_allowed", nil, func(m *policy.Manifest) {
			receipt(m).AllowedKinds = []string{"scheduled"}
		}),
		under("with other kinds of origins", "not_allowed", nil, func(m *policy.Manifest) {
			origin(m).AllowedKinds = []string{"scheduled"}
		}),
		under("with other sources of receipts", "not_allowed", nil, func(m *policy.Manifest) {
			receipt(m).AllowedSources = []string{"hooks"}
		}),
		under("with other sources of origins", "not_allowed", nil, func(m *policy.Manifest) {
			origin(m).AllowedSources = []string{"hooks"}
		}),
		under("with other kinds of triggers for the runtime", "not_allowed", nil, func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedTriggerKinds = []string{"scheduled"}
		}),
		under("with any kind of trigger for the runtime that a receipt may have", "ok", nil, func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedTriggerKinds = nil
		}),
		under("with other keys for the runtime", "key_custody", nil, func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedKeyCustody = []string{evidence.CustodyHardwareBacked}
		}),
		under("with two runtimes, and an attestation by the other", "artifacts_mismatch",
			elsewhere(evidence.RuntimeAttestationKind().Typ), func(m *policy.Manifest) {
				m.RuntimePolicy.AllowedRuntimeIDs = two
			}),
		under("with any runtime, and an attestation by another", "artifacts_mismatch",
			elsewhere(evidence.RuntimeAttestationKind().Typ), func(m *policy.Manifest) {
				m.RuntimePolicy.AllowedRuntimeIDs = nil
			}),
		under("with two runtimes for sessions, and one of the other", "artifacts_mismatch",
			elsewhere(evidence.SessionReceiptKind().Typ), func(m *policy.Manifest) {
				m.AgentSessionReceiptPolicy.AllowedRuntimeIDs = two
			}),
	}
}

func (d deployment) manifestPosts(capability func(map[string]any) string) []postVector {
	under := func(name, code, capability string, change func(*policy.Manifest)) postVector {
		return postVector{Name: "another manifest, " + name, Manifest: d.under(change).manifest, Capability: capability,
			Verdict: code}
	}
	elsewhere := capability(map[string]any{"runtime": d.runtime("runtimeId", "worker-2")})
	return []postVector{
		under("with any runtime that sessions may have", "ok", "", func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedRuntimeIDs = nil
		}),
		under("with any runtime that sessions may have, and another", "not_allowed", elsewhere, func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedRuntimeIDs = nil
		}),
		under("with other kinds of triggers", "not_allowed", "", func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedTriggerKinds = []string{"scheduled"}
		}),
		under("with other kinds of receipts", "not_allowed", "", func(m *policy.Manifest) {
			m.RuntimePolicy.TriggerReceiptPolicy.AllowedKinds = []string{"scheduled"}
		}),
		under("with a policy that another hash is required of", "not_allowed", "", func(m *policy.Manifest) {
			m.RuntimePolicy.RequiredPolicyHash, m.AgentSessionReceiptPolicy.RequiredPolicyHash = otherHash, otherHash
		}),
	}
}

func (f chainsFile) requestFaults() []chainVector {
	whole := string(compact(map[string]any{"envelope": f.Envelope, "binding": f.Binding}))
	request := func(name, code, old, by string) chainVector {
		if !strings.Contains(whole, old) {
			panic(old + " is not in the request")
		}
		return chainVector{Name: "the request, " + name, Request: strings.Replace(whole, old, by, 1), Verdict: code}
	}
	given := func(name, code, member string, value any) chainVector {
		var members map[string]any
		mustDo(json.Unmarshal(must(json.Marshal(f.Envelope)), &members))
		members[member] = value
		return chainVector{Name: "the request, " + name,
			Request: string(compact(map[string]any{"envelope": members, "binding": f.Binding})), Verdict: code}
	}
	return []chainVector{
		request("in another spelling", "ok", `{"binding":`, ` { "bindin\u0067" : `),
		request("with another member", "query_malformed", `{"binding":`, `{"nonce":"n","binding":`),
		request("with another member in the envelope", "query_malformed", `"envelope":{`, `"envelope":{"requestProof":"",`),
		request("with another member in the response", "query_malformed", `"response":{`, `"response":{"token":"",`),
		request("with another member in the binding", "query_malformed", `"binding":{`, `"binding":{"tenant":"a",`),
		request("with a member twice", "query_malformed", `{"binding":`, `{"binding":{},"binding":`),
		request("with an artifact twice", "query_malformed", `"grant":`, `"grant":"","grant":`),
		request("with an artifact twice, once by an escape", "query_malformed", `"grant":`, `"gr\u0061nt":"","grant":`),
		request("with an answer twice", "query_malformed", `"t1":`, `"t1":"","t1":`),
		request("with a member in capitals", "query_malformed", `"grant":`, `"Grant":`),
		given("with a number in place of an artifact", "query_malformed", "grant", 1),
		given("with a text in place of the response", "query_malformed", "response", "t1"),
		given("with a list of answers", "query_malformed", "response",
			map[string]any{"challengeId": "challenge-1", "answers": []string{}}),
		given("with an answer that is no text", "query_malformed", "response",
			map[string]any{"challengeId": "challenge-1", "answers": map[string]any{"t1": 1, "t2": answers()["t2"]}}),
		given("with an artifact that is null", "artifact_missing", "grant", nil),
		given("with a response that is null", "challenge_refused", "response", nil),
		request("with text after it", "query_malformed", `{"binding":`, `{}{"binding":`),
		request("that asks for the report too", "ok", `{"binding":`, `{"assurance":true,"binding":`),
		{Name: "the request, nothing", Request: " ", Verdict: "query_malformed"},
		{Name: "the request, no object", Request: "[]", Verdict: "query_malformed"},
		{Name: "the request, null", Request: "null", Verdict: "artifact_missing"},
		{Name: "the request, an empty object", Request: "{}", Verdict: "artifact_missing"},
	}
}
