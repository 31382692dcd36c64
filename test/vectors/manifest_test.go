package vectors_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
)

// setting is a member of a document, by its path, with a value; nil removes it.
type setting struct {
	path  string
	value any
}

func (s setting) in(members map[string]any) {
	if parent, rest, below := strings.Cut(s.path, "."); below {
		setting{rest, s.value}.in(members[parent].(map[string]any))
	} else if members[s.path] = s.value; s.value == nil {
		delete(members, s.path)
	}
}

// under is the deployment with another manifest.
func (d deployment) under(settings ...setting) deployment {
	var members map[string]any
	mustDo(json.Unmarshal(must(json.Marshal(d.manifest)), &members))
	for _, s := range settings {
		s.in(members)
	}
	d.manifest = new(policy.Manifest)
	mustDo(json.Unmarshal(must(json.Marshal(members)), d.manifest))
	d.strict = must(d.manifest.Strict())
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

const (
	ofRuntime = "runtimePolicy."
	ofReceipt = ofRuntime + "triggerReceiptPolicy."
	ofOrigin  = ofReceipt + "originProofPolicy."
	ofSession = "agentSessionReceiptPolicy."
)

func (d deployment) manifestChains(e evidence.Envelope) []chainVector {
	rests := func(name, code string, c changes, settings ...setting) chainVector {
		other := d.under(settings...)
		return chainVector{Name: "another manifest, " + name, Manifest: other.manifest,
			Envelope: differences(e, other.envelope(c)), Verdict: code}
	}
	under := func(name, code string, settings ...setting) chainVector { return rests(name, code, nil, settings...) }
	refuses := func(name, path string, value any) chainVector {
		return under(name, "not_allowed", setting{path, value})
	}
	payload, delivery := evidence.HashBytes([]byte("payload")), evidence.HashBytes([]byte("delivery"))
	scheduled, hooks, two := only("scheduled"), only("hooks"), only("worker-1", "worker-2")
	elsewhere := func(typ string) changes { return changes{typ: {"runtimeId": "worker-2"}} }
	const pod = "pod/agents/1"
	inPod := changes{
		evidence.PolicyDecisionKind().Typ: {"runtimeId": pod}, evidence.ActionGrantKind().Typ: {"runtimeIds": only(pod)},
		evidence.RuntimeAttestationKind().Typ: {"runtimeId": pod}, evidence.SessionReceiptKind().Typ: {"runtimeId": pod},
	}
	decided := []string{evidence.PolicyDecisionKind().Typ, evidence.ActionGrantKind().Typ}
	attested := []string{evidence.RuntimeAttestationKind().Typ, evidence.SessionReceiptKind().Typ}
	third, upgrade := evidence.HashBytes([]byte("third")), setting{ofRuntime + "alsoEnvironmentHashes", only(otherHash)}
	ran := func(hash string, of ...[]string) changes {
		c := make(changes)
		for _, typ := range slices.Concat(of...) {
			c[typ] = map[string]any{"environmentHash": hash}
		}
		return c
	}
	below := func(entry string) []setting {
		return []setting{{ofRuntime + "allowedRuntimeIds", only(entry)}, {ofSession + "allowedRuntimeIds", only(entry)}}
	}
	unsigned := under("which nobody has signed", "deployment_mismatch", setting{"maxChallengeAgeMs", 14000})
	unsigned.Envelope = nil
	return []chainVector{
		unsigned,
		under("which demands a second signature of its certificate", "roots_not_pinned",
			setting{"deploymentCertificatePolicy.requirePostQuantumSignature", true}),
		under("which pins what the chain has", "ok", setting{ofReceipt + "requiredPayloadHash", payload},
			setting{ofReceipt + "requiredBindingHash", binding().Hash()}, setting{ofOrigin + "requiredPayloadHash", payload},
			setting{ofOrigin + "requiredBindingHash", binding().Hash()}, setting{ofOrigin + "requiredEvidenceHash", delivery}),
		refuses("which pins the receipt's payload", ofReceipt+"requiredPayloadHash", otherHash),
		refuses("which pins the receipt's binding", ofReceipt+"requiredBindingHash", otherHash),
		refuses("which pins the origin's payload", ofOrigin+"requiredPayloadHash", otherHash),
		refuses("which pins the origin's binding", ofOrigin+"requiredBindingHash", otherHash),
		refuses("which pins the origin's evidence", ofOrigin+"requiredEvidenceHash", otherHash),
		refuses("with other kinds of receipts", ofReceipt+"allowedKinds", scheduled),
		refuses("with other kinds of origins", ofOrigin+"allowedKinds", scheduled),
		refuses("with other sources of receipts", ofReceipt+"allowedSources", hooks),
		refuses("with other sources of origins", ofOrigin+"allowedSources", hooks),
		refuses("with other kinds of triggers for the runtime", ofRuntime+"allowedTriggerKinds", scheduled),
		under("with any kind of trigger for the runtime that a receipt may have", "ok",
			setting{ofRuntime + "allowedTriggerKinds", nil}),
		under("with other keys for the runtime", "key_custody",
			setting{ofRuntime + "allowedKeyCustody", only(evidence.CustodyHardwareBacked)}),
		rests("with two runtimes, and an attestation by the other", "artifacts_mismatch",
			elsewhere(evidence.RuntimeAttestationKind().Typ), setting{ofRuntime + "allowedRuntimeIds", two}),
		rests("with any runtime, and an attestation by another", "artifacts_mismatch",
			elsewhere(evidence.RuntimeAttestationKind().Typ), setting{ofRuntime + "allowedRuntimeIds", nil}),
		rests("with two runtimes for sessions, and one of the other", "artifacts_mismatch",
			elsewhere(evidence.SessionReceiptKind().Typ), setting{ofSession + "allowedRuntimeIds", two}),
		rests("which allows two programs, and a post of the second", "ok", ran(otherHash, decided, attested), upgrade),
		rests("which allows two programs, and a post of a third", "pin_mismatch", ran(third, decided, attested), upgrade),
		rests("which allows two programs, and a decision for the second", "pin_mismatch", ran(otherHash, decided), upgrade),
		rests("which allows two programs, and a session receipt of the second", "pin_mismatch",
			ran(otherHash, attested[1:]), upgrade),
		rests("with the runtimes of one segment below another", "ok", inPod, below("pod/agents/*")...),
		rests("with runtimes one segment higher", "not_allowed", inPod, below("pod/*")...),
	}
}

func (d deployment) manifestPosts(capability func(map[string]any) string) []postVector {
	under := func(name, code, capability string, settings ...setting) postVector {
		return postVector{Name: "another manifest, " + name, Manifest: d.under(settings...).manifest, Capability: capability,
			Verdict: code}
	}
	elsewhere := capability(map[string]any{"runtime": d.runtime("runtimeId", "worker-2")})
	anyRuntime := setting{ofRuntime + "allowedRuntimeIds", nil}
	return []postVector{
		under("with any runtime that sessions may have", "ok", "", anyRuntime),
		under("with any runtime that sessions may have, and another", "not_allowed", elsewhere, anyRuntime),
		under("with other kinds of triggers", "not_allowed", "",
			setting{ofRuntime + "allowedTriggerKinds", only("scheduled")}),
		under("with other kinds of receipts", "not_allowed", "", setting{ofReceipt + "allowedKinds", only("scheduled")}),
		under("with a policy that another hash is required of", "not_allowed", "",
			setting{ofRuntime + "requiredPolicyHash", otherHash}, setting{ofSession + "requiredPolicyHash", otherHash}),
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
