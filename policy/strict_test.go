package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestStrictDemandsWhatTheManifestSays fills the manifest with distinct values and looks for each.
func TestStrictDemandsWhatTheManifestSays(t *testing.T) {
	hash := func(c string) string { return strings.Repeat(c, 64) }
	allowed := func(name string) policy.Allowed {
		return policy.Allowed{AllowedIssuers: []string{name + "-issuer"},
			AllowedAudiences: []string{name + "-audience"},
			AllowedKeyIDs:    []string{name + "-key"}}
	}
	external, hardware := []string{"external_mediator"}, []string{"hardware_backed"}
	both := []string{"external_mediator", "hardware_backed"}
	m := gatetest.Example(t)
	m.DeploymentID = "d"
	r, d, s := &m.RuntimePolicy, &m.DeploymentCertificatePolicy, &m.AgentSessionReceiptPolicy
	r.Allowed, r.MaxAttestationAgeMs, r.AllowedRuntimeIDs, r.AllowedKeyCustody = allowed("runtime"), 2_001,
		[]string{"r1"},
		hardware
	r.RequiredPolicyHash, r.RequiredEnvironmentHash, r.AlsoEnvironmentHashes = hash("a"), hash("b"), []string{hash("1")}
	r.AllowedTriggerKinds, r.DeniedTriggerKinds = []string{"source_event", "scheduled"},
		[]string{"human_request", "unknown"}
	receipt, origin := &r.TriggerReceiptPolicy, &r.TriggerReceiptPolicy.OriginProofPolicy
	receipt.Allowed, receipt.MaxReceiptAgeMs = allowed("receipt"), 2_002
	receipt.AllowedKinds, receipt.AllowedSources = []string{"autonomous_policy", "scheduled"},
		[]string{"receipt-source"}
	receipt.RequiredPayloadHash, receipt.RequiredBindingHash = hash("c"), hash("d")
	origin.Allowed, origin.MaxProofAgeMs = allowed("origin"), 2_003
	origin.AllowedKinds, origin.AllowedSources, origin.AllowedVerificationMethods = []string{"source_event"},
		[]string{"origin-source"}, []string{"queue_claim"}
	origin.RequiredPayloadHash, origin.RequiredBindingHash, origin.RequiredEvidenceHash = hash("e"), hash("f"),
		hash("0")
	d.Allowed, d.MaxCertificateAgeMs, d.AllowedDeploymentIDs, d.RequirePostQuantumSignature = allowed("deployment"),
		2_004, []string{"d", "e"}, true
	c := &m.SignerCertificatePolicy
	c.Allowed, c.MaxCertificateAgeMs, c.AllowedKeyCustody = allowed("registry"), 2_005, both
	c.MaxRevocationListAgeMs, c.RequirePostQuantumSignature = 2_006, true
	s.Allowed, s.MaxReceiptAgeMs, s.AllowedKeyCustody, s.AllowedRuntimeIDs = allowed("session"), 2_007, external,
		[]string{"r1", "r2"}
	s.AllowedInputKinds, s.DeniedInputKinds = []string{"scheduled"}, []string{"human_prompt", "manual_shell", "unknown"}
	s.RequiredPolicyHash, s.RequiredEnvironmentHash = hash("a"), hash("b")
	m.PolicyDecisionPolicy.Allowed, m.PolicyDecisionPolicy.MaxProofAgeMs, m.PolicyDecisionPolicy.
		AllowedKeyCustody = allowed("decision"), 2_008, external
	m.GrantPolicy.Allowed, m.GrantPolicy.MaxProofAgeMs, m.GrantPolicy.AllowedKeyCustody = allowed("grant"), 2_009,
		hardware
	m.RequestProofPolicy.Allowed, m.RequestProofPolicy.MaxProofAgeMs, m.RequestProofPolicy.AllowedKeyCustody = allowed(
		"request"), 2_010, both
	i := m.InteractionReceiptPolicy
	i.Allowed, i.MaxReceiptAgeMs, i.AllowedKeyCustody = allowed("interaction"), 2_014, hardware
	gatetest.Autonomous(m)
	gatetest.Speaking(m)
	gatetest.Signing(m)
	bot := m.WebBotAuthPolicy
	bot.Allowed, bot.MaxDirectoryAgeMs, bot.AllowedKeyCustody = allowed("bot"), 2_017, both
	a, statements := m.AutonomyPolicy, m.AgentStatementPolicy
	a.Allowed, a.MaxReputationAgeMs, a.AllowedKeyCustody, a.ScoringHash = allowed("autonomy"), 2_015, external,
		hash("9")
	a.RequireVerification, a.AllowDegraded = true, true
	statements.Allowed, statements.MaxStatementAgeMs, statements.AllowedKeyCustody = allowed("statement"), 2_016,
		hardware
	m.MaxChallengeAgeMs, m.CapabilityTTLMs, m.MaxCapabilityAgeMs = 2_011, 2_012, 2_013

	got, err := m.Strict()
	check.Must(t, err)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	expected := func(name string, age int, custody []string) evidence.Expected {
		a := allowed(name)
		return evidence.Expected{Issuers: a.AllowedIssuers, Audiences: a.AllowedAudiences, KeyIDs: a.AllowedKeyIDs,
			MaxAge: ms(age), Custody: custody, RequireNonExportable: custody != nil}
	}
	deployment, signers := expected("deployment", 2_004, nil), expected("registry", 2_005, both)
	deployment.RequirePostQuantum, signers.RequirePostQuantum = true, true
	check.WantEqual(t, got, &policy.Strict{
		DeploymentID: "d", ManifestHash: m.Hash(), ControlsHash: m.ControlsHash(),
		Deployment: policy.DeploymentExpected{Expected: deployment, DeploymentIDs: []string{"d", "e"}},
		Signers: evidence.SignerPolicy{Expected: signers, DenyAgentAccessible: true, DenyUserAccessible: true,
			MaxRevocationAge: ms(2_006)},
		Runtime: policy.RuntimeExpected{Expected: expected("runtime", 2_001, hardware), RuntimeIDs: []string{"r1"},
			TriggerKinds: []string{"scheduled"}, PolicyHash: hash("a"), EnvironmentHashes: []string{hash("b"), hash("1")}},
		Receipt: policy.ReceiptExpected{
			Expected: expected("receipt", 2_002, hardware), Kinds: []string{"autonomous_policy", "scheduled"},
			Sources: []string{"receipt-source"}, PayloadHash: hash("c"), BindingHash: hash("d"),
		},
		Origin: policy.OriginExpected{
			Expected: expected("origin", 2_003, hardware), Kinds: []string{"source_event"}, Sources: []string{"origin-source"},
			Methods:     []string{"queue_claim"},
			PayloadHash: hash("e"), BindingHash: hash("f"), EvidenceHash: hash("0"),
		},
		Session: policy.SessionExpected{
			Expected: expected("session", 2_007, external), RuntimeIDs: []string{"r1", "r2"}, InputKinds: []string{"scheduled"},
			DeniedInputKinds: []string{"human_prompt", "manual_shell", "unknown"}, PolicyHash: hash("a"),
		},
		Decision: expected("decision", 2_008, external), Grant: expected("grant", 2_009, hardware),
		RequestProof: expected("request", 2_010, both),
		Interaction:  expected("interaction", 2_014, hardware),
		Autonomy: policy.AutonomyExpected{Expected: expected("autonomy", 2_015, external), ScoringHash: hash("9"),
			RequireVerification: true, AllowDegraded: true},
		Statement:       expected("statement", 2_016, hardware),
		WebBotAuth:      expected("bot", 2_017, both),
		MaxChallengeAge: ms(2_011), CapabilityTTL: ms(2_012), MaxCapabilityAge: ms(2_013),
	})

	check.WantEqual(t, got.Expected(evidence.PurposeStatement), got.Statement)
	check.WantEqual(t, got.Expected(evidence.PurposeWebBotAuth), got.WebBotAuth)

	// A manifest without receipts, reputations or statements accepts none.
	m.InteractionReceiptPolicy, m.AutonomyPolicy, m.AgentStatementPolicy, m.WebBotAuthPolicy = nil, nil, nil, nil
	got, err = m.Strict()
	check.Must(t, err)
	check.WantEqual(t, got.Expected(evidence.PurposeInteraction), evidence.Expected{})
	check.WantEqual(t, got.Expected(evidence.PurposeStatement), evidence.Expected{})
	check.WantEqual(t, got.Expected(evidence.PurposeWebBotAuth), evidence.Expected{})
	check.WantEqual(t, got.Autonomy, policy.AutonomyExpected{})

	// The strict answer is the default.
	r.AllowedTriggerKinds, r.DeniedTriggerKinds, r.AllowedKeyCustody = nil, nil, nil
	got, err = m.Strict()
	check.Must(t, err)
	check.WantEqual(t, got.Runtime.TriggerKinds, receipt.AllowedKinds)
	check.WantEqual(t, got.Runtime.Custody, both)
	r.DeniedTriggerKinds = []string{"human_request", "unknown", "scheduled"}
	got, err = m.Strict()
	check.Must(t, err)
	check.WantEqual(t, got.Runtime.TriggerKinds, []string{"autonomous_policy"})
}

func TestExpected(t *testing.T) {
	s, err := gatetest.Example(t).Strict()
	check.Must(t, err)
	for purpose, want := range map[string]evidence.Expected{
		evidence.PurposeTriggerOriginProof: s.Origin.Expected, evidence.PurposeTriggerReceipt: s.Receipt.Expected,
		evidence.PurposePolicyDecision: s.Decision,
		evidence.PurposeActionGrant:    s.Grant, evidence.PurposeRuntimeAttestation: s.Runtime.Expected,
		evidence.PurposeAgentSession: s.Session.Expected,
		evidence.PurposeRequestProof: s.RequestProof, evidence.PurposeInteraction: s.Interaction,
	} {
		if check.WantEqual(t, s.Expected(purpose), want); len(want.Issuers) == 0 {
			t.Errorf("%s: the example demands nothing", purpose)
		}
	}
	for _, none := range []string{"", "surprise", evidence.PurposeSignerCertificate} {
		check.WantEqual(t, s.Expected(none), evidence.Expected{})
	}
}

func TestPins(t *testing.T) {
	s, err := gatetest.Example(t).Strict()
	check.Must(t, err)
	check.Must(t, s.Pins(s.Runtime.PolicyHash))
	for _, other := range []string{"", strings.Repeat("0", 64), s.Runtime.PolicyHash + "0"} {
		check.WantCode(t, s.Pins(other), "pin_mismatch")
	}
	s.Runtime.PolicyHash = ""
	check.WantCode(t, s.Pins(""), "pin_mismatch")

	s.Session.RuntimeIDs, s.Runtime.RuntimeIDs = []string{"a", "b"}, []string{"b", "c"}
	check.Must(t, s.CheckRuntime("b"))
	for _, other := range []string{"a", "c", ""} {
		check.WantCode(t, s.CheckRuntime(other), "not_allowed")
	}
	s.Runtime.RuntimeIDs = nil // leaves it to the session's policy
	check.Must(t, s.CheckRuntime("a"))
	check.WantCode(t, s.CheckRuntime("c"), "not_allowed")
}

// TestCheckTrigger: what the golden vectors of chains do not show by themselves.
func TestCheckTrigger(t *testing.T) {
	h := func(s string) string { return evidence.HashBytes([]byte(s)) }
	type args struct {
		s                  policy.Strict
		o                  evidence.TriggerOriginProof
		r                  evidence.TriggerReceipt
		proof, bindingHash string
	}
	whole := func() args {
		a := args{proof: h("proof"), bindingHash: h("binding")}
		a.o = evidence.TriggerOriginProof{BindingHash: a.bindingHash, EventID: "e", EvidenceHash: h("evidence"),
			EvidenceID: "i", Kind: "scheduled", PayloadHash: h("payload"), Source: "s",
			VerificationMethod: "scheduler_lock"}
		a.r = evidence.TriggerReceipt{BindingHash: a.bindingHash, EventID: "e", Kind: "scheduled",
			OriginProofHash: a.proof,
			PayloadHash:     h("payload"), Source: "s"}
		a.s.Origin = policy.OriginExpected{Kinds: []string{"scheduled"}, Sources: []string{"s"},
			Methods: []string{"scheduler_lock"}}
		a.s.Receipt = policy.ReceiptExpected{Kinds: []string{"scheduled"}, Sources: []string{"s"}}
		return a
	}
	for name, tt := range map[string]struct {
		code   string
		change func(*args)
	}{
		"as it should be": {"", func(*args) {}},
		"another event":   {"artifacts_mismatch", func(a *args) { a.r.EventID = "x" }},
		"another kind":    {"artifacts_mismatch", func(a *args) { a.r.Kind = "source_event" }},
		"another source":  {"artifacts_mismatch", func(a *args) { a.r.Source = "x" }},
		"a human's, and all allow it": {"not_allowed", func(a *args) {
			a.o.Kind, a.r.Kind = "human_request", "human_request"
			a.s.Origin.Kinds, a.s.Receipt.Kinds = []string{"human_request"}, []string{"human_request"}
		}},
		"a kind of receipts alone":   {"not_allowed", func(a *args) { a.s.Origin.Kinds = nil }},
		"a kind of proofs alone":     {"not_allowed", func(a *args) { a.s.Receipt.Kinds = nil }},
		"a source of receipts alone": {"not_allowed", func(a *args) { a.s.Origin.Sources = nil }},
		"a source of proofs alone":   {"not_allowed", func(a *args) { a.s.Receipt.Sources = nil }},
		"unknown, and all allow it": {"not_allowed", func(a *args) {
			a.o.Kind, a.r.Kind = "unknown", "unknown"
			a.s.Origin.Kinds, a.s.Receipt.Kinds = []string{"unknown"}, []string{"unknown"}
		}},
		"by hand, and all allow it": {"not_allowed", func(a *args) {
			a.o.VerificationMethod, a.s.Origin.Methods = "manual", []string{"manual"}
		}},
		"self-reported, and all allow it": {"not_allowed", func(a *args) {
			a.o.VerificationMethod, a.s.Origin.Methods = "self_reported", []string{"self_reported"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := whole()
			tt.change(&a)
			wantCode(t, policy.CheckTrigger(&a.s, a.o, a.r, a.proof, a.bindingHash), tt.code)
		})
	}
}
