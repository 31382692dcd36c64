package vectors_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

type chainVector struct {
	Name     string            `json:"name"`
	Request  string            `json:"request,omitempty"`
	Envelope map[string]any    `json:"envelope,omitempty"`
	Manifest *policy.Manifest  `json:"manifest,omitempty"`
	Binding  *evidence.Binding `json:"binding,omitempty"`
	Revoked  string            `json:"revoked,omitempty"`
	At       int64             `json:"at,omitempty"`
	Verdict  string            `json:"verdict"`
}

type postVector struct {
	Name            string            `json:"name"`
	Capability      string            `json:"capability,omitempty"`
	RequestProof    string            `json:"requestProof,omitempty"`
	AccessTokenHash string            `json:"accessTokenHash,omitempty"`
	Manifest        *policy.Manifest  `json:"manifest,omitempty"`
	Binding         *evidence.Binding `json:"binding,omitempty"`
	Revoked         string            `json:"revoked,omitempty"`
	At              int64             `json:"at,omitempty"`
	Verdict         string            `json:"verdict"`
}

type gateFile struct {
	About    string           `json:"about"`
	At       int64            `json:"at"`
	Skew     int64            `json:"skew"`
	Trust    trustJSON        `json:"trust"`
	Manifest *policy.Manifest `json:"manifest"`
	Gate     gateJSON         `json:"gate"`
	Binding  evidence.Binding `json:"binding"`
}

type gateJSON struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

type chainsFile struct {
	gateFile
	Envelope evidence.Envelope `json:"envelope"`
	Vectors  []chainVector     `json:"vectors,omitempty"`
}

type postsFile struct {
	gateFile
	Capability      string       `json:"capability"`
	RequestProof    string       `json:"requestProof"`
	AccessTokenHash string       `json:"accessTokenHash"`
	Vectors         []postVector `json:"vectors,omitempty"`
}

func (f gateFile) gate(now int64, revoked string, other *policy.Manifest) *gate.Gate {
	f.Trust.Revocations = revoked
	if other != nil {
		f.Manifest = other
	}
	clock := func() time.Time { return time.Unix(now, 0) }
	secret := must(evidence.NewSecret(must(b64.DecodeString(f.Gate.Secret))))
	return must(gate.New(gate.Options{
		Challenges: must(
			challenge.NewIssuer(secret,
				challenge.Options{Issuer: f.Gate.Name, Audience: f.Gate.Name, Difficulty: challenge.Lite, Now: clock})),
		Secret: secret, Issuer: f.Gate.Name, Verifier: must(f.Trust.verifier(now)), Strict: must(f.Manifest.Strict()),
	}))
}

func (f chainsFile) verify(v chainVector) string {
	now, b := f.At, f.Binding
	if v.At != 0 {
		now = v.At
	}
	if v.Binding != nil {
		b = *v.Binding
	}
	request := v.Request
	if request == "" {
		var members map[string]any
		mustDo(json.Unmarshal(must(json.Marshal(f.Envelope)), &members))
		for name, value := range v.Envelope {
			members[name] = value
		}
		request = string(compact(map[string]any{"envelope": members, "binding": b}))
	}
	consume := func(context.Context, ...ledger.Key) error { return nil }
	answer := httptest.NewRecorder()
	must(gate.NewServer(f.gate(now, v.Revoked, v.Manifest), consume)).Verify().ServeHTTP(answer,
		httptest.NewRequest("POST", "/", strings.NewReader(request)))
	if answer.Code == http.StatusOK {
		return "ok"
	}
	return codeOf(problem.Read(answer.Result()))
}

func (f postsFile) verify(v postVector) string {
	now, r := f.At,
		gate.AuthorizeRequest{Capability: f.Capability, RequestProof: f.RequestProof, AccessTokenHash: f.AccessTokenHash,
			Binding: f.Binding}
	for _, o := range []struct {
		to *string
		by string
	}{{&r.Capability, v.Capability}, {&r.RequestProof, v.RequestProof}, {&r.AccessTokenHash, v.AccessTokenHash}} {
		if o.by != "" {
			*o.to = o.by
		}
	}
	if v.At != 0 {
		now = v.At
	}
	if v.Binding != nil {
		r.Binding = *v.Binding
	}
	_, err := f.gate(now, v.Revoked, v.Manifest).Authorize(context.Background(), r)
	return codeOf(err)
}

func (d deployment) gateFile(about string) gateFile {
	b := binding()
	b.Nonce = ""
	return gateFile{About: about, At: at, Skew: 2, Trust: d.trust(), Manifest: d.manifest,
		Gate: gateJSON{gateName, b64.EncodeToString(secretOf(gateSecret))}, Binding: b}
}

func (d deployment) chainsVectors() chainsFile {
	f := chainsFile{gateFile: d.gateFile("Whole envelopes: see docs/vectors.md, The chain."), Envelope: d.envelope(nil)}
	f.Vectors = append([]chainVector{{Name: "valid", Verdict: "ok"}}, d.envelopeFaults(f.Envelope)...)
	for _, row := range chainRows() {
		f.Vectors = append(f.Vectors,
			chainVector{Name: row.name, Envelope: differences(f.Envelope, d.envelope(changes{row.typ: row.change})),
				Verdict: row.code})
	}
	f.Vectors = slices.Concat(f.Vectors, d.triggerFaults(f.Envelope), d.manifestChains(f.Envelope), d.revokedChains(),
		f.requestFaults())
	return f
}

func differences(of, than evidence.Envelope) map[string]any {
	var a, b map[string]any
	mustDo(json.Unmarshal(must(json.Marshal(of)), &a))
	mustDo(json.Unmarshal(must(json.Marshal(than)), &b))
	out := make(map[string]any)
	for name, value := range b {
		if string(must(json.Marshal(value))) != string(must(json.Marshal(a[name]))) {
			out[name] = value
		}
	}
	return out
}

func (d deployment) envelopeFaults(e evidence.Envelope) []chainVector {
	member := func(name, code, at string, value any) chainVector {
		return chainVector{Name: name, Envelope: map[string]any{at: value}, Verdict: code}
	}
	asked := func(name, code string, change func(*evidence.Binding)) chainVector {
		b := binding()
		change(&b)
		return chainVector{Name: "asked for " + name, Binding: &b, Verdict: code}
	}
	response := func(name, code, id string, a map[string]string) chainVector {
		return member(name, code, "response", evidence.Response{ChallengeID: id, Answers: a})
	}
	right := answers()
	out := []chainVector{
		{Name: "another nonce, which does not count", Binding: ptr(binding()), Verdict: "ok"},
		{Name: "15 s later", At: at + 15, Verdict: "ok"},
		{Name: "18 s later", At: at + 18, Verdict: "expired"},
		{Name: "a day later", At: at + 24*3600 + 2, Verdict: "expired"},
		asked("other content", "challenge_refused", func(b *evidence.Binding) { b.ContentHash = otherHash }),
		asked("another subject", "challenge_refused", func(b *evidence.Binding) { b.Subject = "agent:other" }),
		asked("another action", "challenge_refused", func(b *evidence.Binding) { b.Action = "delete_post" }),
		asked("another resource", "challenge_refused", func(b *evidence.Binding) { b.Resource = "POST /posts?draft=1" }),
		asked("no subject", "artifact_malformed", func(b *evidence.Binding) { b.Subject = "" }),
		asked("a hash in capitals", "artifact_malformed", func(b *evidence.Binding) {
			b.ContentHash = strings.ToUpper(b.ContentHash)
		}),
		response("a response to another challenge", "challenge_refused", "other", right),
		response("an answer is missing", "challenge_refused", "challenge-1", map[string]string{"t1": right["t1"]}),
		response("an answer too many", "challenge_refused", "challenge-1",
			map[string]string{"t1": right["t1"], "t2": right["t2"], "t3": otherHash}),
		response("an answer to no task", "challenge_refused", "challenge-1",
			map[string]string{"t1": right["t1"], "t9": right["t2"]}),
		response("an answer in capitals", "challenge_refused", "challenge-1",
			map[string]string{"t1": right["t1"], "t2": strings.ToUpper(right["t2"])}),
		response("a wrong answer", "challenge_refused", "challenge-1",
			map[string]string{"t1": right["t1"], "t2": right["t1"]}),
	}
	for _, name := range []string{"deploymentCertificate", "challengeToken", "originProof", "triggerReceipt",
		"policyDecision", "grant", "attestation", "sessionReceipt"} {
		out = append(out, member("no "+name, "artifact_missing", name, ""))
	}
	again := d.envelope(
		changes{evidence.TriggerOriginProofKind().Typ: {"jti": "again"}, evidence.TriggerReceiptKind().Typ: {"jti": "again"},
			evidence.PolicyDecisionKind().Typ: {"jti": "again"}})
	return append(out,
		member("an origin proof that the receipt does not rest on", "artifacts_mismatch", "originProof", again.OriginProof),
		member("a receipt that the attestation does not rest on", "artifacts_mismatch", "triggerReceipt",
			d.signed(evidence.PurposeTriggerReceipt, evidence.TriggerReceiptKind().Typ, d.receiptClaims(e.OriginProof),
				changes{evidence.TriggerReceiptKind().Typ: {"jti": "again"}})),
		member("a decision that the grant does not rest on", "artifacts_mismatch", "policyDecision", again.PolicyDecision),
		member("the receipt in place of the origin proof", "artifact_malformed", "originProof", e.TriggerReceipt),
		member("a challenge by public key", "artifact_malformed", "challengeToken", e.Grant),
	)
}

func ptr[T any](v T) *T { return &v }
