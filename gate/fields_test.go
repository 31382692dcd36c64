package gate_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// violation breaks the demand of one field of the manifest; edit gives the field another value.
type violation func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error

func under(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) {
	t.Helper()
	text, err := k.Manifest.Canonical()
	check.Must(t, err)
	k.Manifest, err = policy.ParseManifest([]byte(text))
	check.Must(t, err)
	edit(k.Manifest)
	k.Strict, err = k.Manifest.Strict()
	check.Must(t, err)
	k.Deployment = k.Certify(t, k.Manifest)
	k.Verifier.SetTrust(k.Trust(t))
	k.Gate = gateWith(t, k, k.Verifier)
}

func admits(t testing.TB, g *gate.Gate, r gate.AdmitRequest, consume gate.Consume) {
	t.Helper()
	_, err := gatetest.Admit(t.Context(), g, r, consume)
	check.Must(t, err)
}

func admit(t *testing.T, k *gatetest.Kit, r gate.AdmitRequest) error {
	t.Helper()
	var used gatetest.Used
	_, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume)
	return err
}

func authorize(t *testing.T, k *gatetest.Kit, r gate.AuthorizeRequest) error {
	_, err := k.Gate.Authorize(t.Context(), r)
	return err
}

// late is later than one second and the skew, and sooner than the example's 15 s.
const late = 5 * time.Second

func aged(by time.Duration) violation {
	return func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
		r := k.Chain(t)
		under(t, k, edit)
		r.Envelope.DeploymentCertificate = k.Deployment
		k.Clock.Advance(by)
		return admit(t, k, r)
	}
}

var narrowed = aged(0)

func posted(by time.Duration) violation {
	return func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
		r := authorizing(t, k)
		under(t, k, edit)
		k.Clock.Advance(by)
		return authorize(t, k, r)
	}
}

func receipted(by time.Duration) violation {
	return func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
		token := k.Session(t, "ses_1").Call(t, nil)
		under(t, k, edit)
		k.Clock.Advance(by)
		_, err := evidence.Open(k.Verifier, interaction.Kind, token, k.Strict.Expected(evidence.PurposeInteraction))
		return err
	}
}

func appraised(by time.Duration) violation {
	return func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
		under(t, k, gatetest.Autonomous)
		token := k.Reputation(t, k.Agent(t), 20, 50)
		under(t, k, edit)
		k.Clock.Advance(by)
		_, err := policy.OpenReputation(k.Verifier, k.Strict, token, gatetest.Binding().Subject)
		return err
	}
}

func verified(edit func(*accrual.Verified)) violation {
	return func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
		under(t, k, func(m *policy.Manifest) {
			gatetest.Autonomous(m)
			m.AutonomyPolicy.RequireVerification = true
		})
		open := func(v *accrual.Verified) error {
			_, err := policy.OpenReputation(k.Verifier, k.Strict, k.ReputationVerified(t, k.Agent(t), 20, 50, v),
				gatetest.Binding().Subject)
			return err
		}
		v := k.Verified()
		check.Must(t, open(v))
		edit(v)
		err := open(v)
		under(t, k, func(m *policy.Manifest) { m.AutonomyPolicy.AllowDegraded = true })
		if allowed := open(v); (allowed == nil) != v.Degraded {
			t.Errorf("degraded %v, and the manifest allows that: %v", v.Degraded, allowed)
		}
		return err
	}
}

func stated(by time.Duration) violation {
	return func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
		under(t, k, gatetest.Speaking)
		hash := evidence.HashBytes(nil)
		made, err := k.Speak(t).Issue(t.Context(), interaction.Statement{
			Owner: k.Owner(t), Agent: "agent:worker-1", Session: "ses_1", EventID: "evt_1", Kind: interaction.StatesSignal,
			StatementHash: hash, BindingHash: hash, Probabilistic: true,
		})
		check.Must(t, err)
		under(t, k, edit)
		k.Clock.Advance(by)
		_, err = evidence.Open(k.Verifier, interaction.StatementKind, made.Token(),
			k.Strict.Expected(evidence.PurposeStatement))
		return err
	}
}

func planning(p gatetest.Plan) violation {
	return func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error { return admit(t, k, k.Build(t, p)) }
}

func without[C any](claim string, kind evidence.Kind[C], at func(*evidence.Envelope) *string) violation {
	return func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
		r := k.Chain(t)
		token := at(&r.Envelope)
		*token = reclaim(kind, claim, "")(t, k, *token)
		return admit(t, k, r)
	}
}

func unproven(claim string) violation {
	return func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
		r := authorizing(t, k)
		r.RequestProof = reclaim(evidence.RequestProofKind(), claim, "")(t, k, r.RequestProof)
		return authorize(t, k, r)
	}
}

func vouched(purpose, claim string) violation {
	return func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
		r := authorizing(t, k)
		c := gatetest.Resign(t, k, evidence.SignerCertificateKind(), k.Certificates[purpose], claim, true)
		k.Verifier.SetTrust(k.TrustWithout(t, purpose, c))
		if purpose == evidence.PurposeRequestProof {
			return authorize(t, k, r)
		}
		return admit(t, k, k.Chain(t))
	}
}

func exported(purpose string, certify func(t *testing.T, k *gatetest.Kit), try violation) violation {
	return func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
		certify(t, k)
		k.Certificates[purpose] = gatetest.Resign(t, k, evidence.SignerCertificateKind(), k.Certificates[purpose],
			"keyExportable", true)
		return try(t, k, func(*policy.Manifest) {})
	}
}

func unsafe(_ *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
	edit(k.Manifest)
	_, err := k.Manifest.Strict()
	return err
}

type breach struct {
	path, code string
	value      any // of the field, unless try leaves the manifest as it is
	try        violation
}

func breaches() []breach {
	const (
		receipts = "runtimePolicy.triggerReceiptPolicy"
		origins  = receipts + ".originProofPolicy"
	)
	hardware := []string{evidence.CustodyHardwareBacked}
	scheduled := []string{evidence.TriggerScheduled}
	rows := []breach{
		{"version", "deployment_unsafe", "1.2", unsafe},
		{"controls", "deployment_unsafe", claims{"consumeCapability": false}, unsafe},
		{"deploymentId", "deployment_mismatch", nil,
			func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
				old := k.Deployment
				under(t, k, func(m *policy.Manifest) {
					m.DeploymentID, m.DeploymentCertificatePolicy.AllowedDeploymentIDs = "other",
						[]string{"other", m.DeploymentID}
				})
				r := k.Chain(t)
				r.Envelope.DeploymentCertificate = old
				return admit(t, k, r)
			}},
		{"maxChallengeAgeMs", "expired", 1000, aged(late)},
		{"maxCapabilityAgeMs", "expired", 1000, posted(late)},
		{"capabilityTtlMs", "expired", 1000, func(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
			under(t, k, edit)
			r := authorizing(t, k)
			k.Clock.Advance(late)
			return authorize(t, k, r)
		}},

		{"runtimePolicy.allowedKeyCustody", "key_custody", hardware, narrowed},
		{"runtimePolicy.requireNonExportableKey", "key_custody", nil,
			vouched(evidence.PurposeRuntimeAttestation, "keyExportable")},
		{"runtimePolicy.allowedRuntimeIds", "not_allowed", []string{"worker-2"}, narrowed},
		{"runtimePolicy.allowedTriggerKinds", "not_allowed", scheduled, narrowed},
		{"runtimePolicy.deniedTriggerKinds", "not_allowed",
			[]string{evidence.TriggerHumanRequest, evidence.TriggerUnknown, evidence.TriggerSourceEvent}, narrowed},
		{"runtimePolicy.requiredMode", "human_involved", nil,
			planning(gatetest.Claim(evidence.PurposeRuntimeAttestation, "mode", "interactive"))},
		{"runtimePolicy.requiredPolicyHash", "pin_mismatch", other, bothPins},
		{"runtimePolicy.requiredEnvironmentHash", "pin_mismatch", other, bothPins},
		{"runtimePolicy.alsoEnvironmentHashes", "pin_mismatch", []string{strings.Repeat("2", 64)},
			planning(gatetest.Claim(evidence.PurposeRuntimeAttestation, "environmentHash", other))},

		{receipts + ".allowedKinds", "not_allowed", scheduled, narrowed},
		{receipts + ".allowedSources", "not_allowed", []string{"hooks"}, narrowed},
		{receipts + ".requireEventId", "artifact_malformed", nil,
			without("eventId", evidence.TriggerReceiptKind(), receipt)},
		{receipts + ".requiredPayloadHash", "not_allowed", other, narrowed},
		{receipts + ".requiredBindingHash", "not_allowed", other, narrowed},
		{receipts + ".requireOriginProof", "artifact_missing", nil,
			func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
				r := k.Chain(t)
				r.Envelope.OriginProof = ""
				return admit(t, k, r)
			}},
		{receipts + ".requireVerifiedOriginProof", "key_unknown", nil,
			func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
				return admit(t, k, k.Build(t, gatetest.Plan{Signers: map[string]evidence.Key{
					evidence.PurposeTriggerOriginProof: gatetest.StrangerKey(t, "stranger:v1")}}))
			}},

		{origins + ".allowedKinds", "not_allowed", scheduled, narrowed},
		{origins + ".allowedSources", "not_allowed", []string{"hooks"}, narrowed},
		{origins + ".allowedVerificationMethods", "not_allowed", []string{evidence.MethodQueueClaim}, narrowed},
		{origins + ".requireEventId", "artifact_malformed", nil,
			without("eventId", evidence.TriggerOriginProofKind(), origin)},
		{origins + ".requireEvidenceId", "artifact_malformed", nil,
			without("evidenceId", evidence.TriggerOriginProofKind(), origin)},
		{origins + ".requiredPayloadHash", "not_allowed", other, narrowed},
		{origins + ".requiredBindingHash", "not_allowed", other, narrowed},
		{origins + ".requiredEvidenceHash", "not_allowed", other, narrowed},

		{"signerCertificatePolicy.allowedKeyCustody", "key_custody", hardware, narrowed},
		{"signerCertificatePolicy.requireNonExportableKey", "key_custody", nil,
			vouched(evidence.PurposeActionGrant, "keyExportable")},
		{"signerCertificatePolicy.denyAgentAccessible", "key_custody", nil,
			vouched(evidence.PurposeActionGrant, "accessibleToAgent")},
		{"signerCertificatePolicy.denyUserAccessible", "key_custody", nil,
			vouched(evidence.PurposeActionGrant, "accessibleToUsers")},
		{"signerCertificatePolicy.requireSubjectPublicKeyHash", "artifact_malformed", nil,
			func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
				return k.Believe(t, reclaim(evidence.SignerCertificateKind(), "subjectPublicKeyHash", "")(t, k,
					k.Certificates[evidence.PurposeActionGrant]))
			}},
		{"signerCertificatePolicy.maxRevocationListAgeMs", "revocations_stale", 1000, narrowed},
		{"signerCertificatePolicy.requirePostQuantumSignature", "roots_not_pinned", nil,
			func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
				k.Strict.Signers.RequirePostQuantum = true
				return k.Believe(t, k.Certificates[evidence.PurposeActionGrant])
			}},

		{"deploymentCertificatePolicy.allowedDeploymentIds", "deployment_mismatch", nil,
			func(t *testing.T, k *gatetest.Kit, _ func(*policy.Manifest)) error {
				r := k.Chain(t)
				r.Envelope.DeploymentCertificate = gatetest.Resign(t, k, evidence.DeploymentCertificateKind(),
					k.Deployment, "deploymentId", "other")
				return admit(t, k, r)
			}},
		{"deploymentCertificatePolicy.requirePostQuantumSignature", "roots_not_pinned", true, narrowed},

		{"agentSessionReceiptPolicy.allowedKeyCustody", "key_custody", hardware, narrowed},
		{"agentSessionReceiptPolicy.requireNonExportableKey", "key_custody", nil,
			vouched(evidence.PurposeAgentSession, "keyExportable")},
		{"agentSessionReceiptPolicy.allowedRuntimeIds", "not_allowed", []string{"worker-2"}, narrowed},
		{"agentSessionReceiptPolicy.allowedInputKinds", "not_allowed", scheduled, narrowed},
		{"agentSessionReceiptPolicy.deniedInputKinds", "not_allowed", []string{evidence.InputHumanPrompt,
			evidence.InputManualShell, evidence.TriggerUnknown, evidence.TriggerSourceEvent}, narrowed},
		{"agentSessionReceiptPolicy.requireChallengeId", "artifact_malformed", nil,
			without("challengeId", evidence.SessionReceiptKind(), session)},
		{"agentSessionReceiptPolicy.requireBindingHash", "artifact_malformed", nil,
			without("bindingHash", evidence.SessionReceiptKind(), session)},
		{"agentSessionReceiptPolicy.requireNoHumanPrompt", "human_involved", nil,
			ofSession("humanPromptPresent", true)},
		{"agentSessionReceiptPolicy.requireNoHumanOperator", "human_involved", nil,
			ofSession("humanOperatorPresent", true)},
		{"agentSessionReceiptPolicy.denyUserShellAccess", "human_involved", nil, ofSession("userShellAccess", true)},
		{"agentSessionReceiptPolicy.denyUserAccessibleAgentEnvironment", "human_involved", nil,
			ofSession("agentEnvironmentUserAccessible", true)},
		{"agentSessionReceiptPolicy.requiredPolicyHash", "pin_mismatch", nil, ofSession("policyHash", other)},
		{"agentSessionReceiptPolicy.requiredEnvironmentHash", "pin_mismatch", nil, ofSession("environmentHash", other)},

		{"policyDecisionPolicy.allowedKeyCustody", "key_custody", hardware, narrowed},
		{"policyDecisionPolicy.requireNonExportableKey", "key_custody", nil,
			vouched(evidence.PurposePolicyDecision, "keyExportable")},
		{"grantPolicy.allowedKeyCustody", "key_custody", hardware, narrowed},
		{"grantPolicy.requireNonExportableKey", "key_custody", nil,
			vouched(evidence.PurposeActionGrant, "keyExportable")},
		{"requestProofPolicy.allowedKeyCustody", "key_custody", hardware, posted(0)},
		{"requestProofPolicy.requireNonExportableKey", "key_custody", nil,
			vouched(evidence.PurposeRequestProof, "keyExportable")},
		{"requestProofPolicy.requireBindingHash", "artifact_malformed", nil, unproven("bindingHash")},
		{"requestProofPolicy.requireCapabilityId", "artifact_malformed", nil, unproven("capabilityId")},

		{"interactionReceiptPolicy.allowedKeyCustody", "key_custody", hardware, receipted(0)},
		{"interactionReceiptPolicy.requireNonExportableKey", "key_custody", nil, exported(evidence.PurposeInteraction,
			func(t *testing.T, k *gatetest.Kit) { k.Observe(t) }, receipted(0))},
		{"autonomyPolicy.allowedKeyCustody", "key_custody", hardware, appraised(0)},
		{"autonomyPolicy.requireNonExportableKey", "key_custody", nil, exported(evidence.PurposeAppraiser,
			func(t *testing.T, k *gatetest.Kit) { under(t, k, gatetest.Autonomous); k.Appraise(t) }, appraised(0))},
		{"autonomyPolicy.scoringHash", "pin_mismatch", other, appraised(0)},
		{"autonomyPolicy.requireVerification", "reputation_insufficient", nil, verified(func(v *accrual.Verified) {
			v.Mode = accrual.ModeSeed
		})},
		{"autonomyPolicy.allowDegraded", "reputation_insufficient", nil, verified(func(v *accrual.Verified) {
			v.Degraded = true
		})},
		{"agentStatementPolicy.allowedKeyCustody", "key_custody", hardware, stated(0)},
		{"agentStatementPolicy.requireNonExportableKey", "key_custody", nil, exported(evidence.PurposeStatement,
			func(t *testing.T, k *gatetest.Kit) { k.Speak(t) }, stated(0))},
	}
	for _, p := range []struct {
		at, age string
		try     func(by time.Duration) violation
	}{
		{"runtimePolicy", "maxAttestationAgeMs", aged}, {receipts, "maxReceiptAgeMs", aged},
		{origins, "maxProofAgeMs", aged},
		{"signerCertificatePolicy", "maxCertificateAgeMs", aged},
		{"deploymentCertificatePolicy", "maxCertificateAgeMs", aged},
		{"agentSessionReceiptPolicy", "maxReceiptAgeMs", aged}, {"policyDecisionPolicy", "maxProofAgeMs", aged},
		{"grantPolicy", "maxProofAgeMs", aged}, {"requestProofPolicy", "maxProofAgeMs", posted},
		{"interactionReceiptPolicy", "maxReceiptAgeMs", receipted}, {"autonomyPolicy", "maxReputationAgeMs", appraised},
		{"agentStatementPolicy", "maxStatementAgeMs", stated},
	} {
		rows = append(rows,
			breach{p.at + ".allowedIssuers", "not_allowed", []string{"other"}, p.try(0)},
			breach{p.at + ".allowedAudiences", "not_allowed", []string{"other"}, p.try(0)},
			breach{p.at + ".allowedKeyIds", "not_allowed", []string{"other-key"}, p.try(0)},
			breach{p.at + "." + p.age, "expired", 1000, p.try(late)})
	}
	return rows
}

func ofSession(claim string, value any) violation {
	return planning(gatetest.Claim(evidence.PurposeAgentSession, claim, value))
}

func bothPins(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) error {
	return narrowed(t, k, func(m *policy.Manifest) {
		edit(m)
		m.AgentSessionReceiptPolicy.RequiredPolicyHash = m.RuntimePolicy.RequiredPolicyHash
		m.AgentSessionReceiptPolicy.RequiredEnvironmentHash = m.RuntimePolicy.RequiredEnvironmentHash
	})
}

func TestEachFieldOfTheManifestIsEnforced(t *testing.T) {
	t.Parallel()
	fields := manifestFields(reflect.TypeFor[policy.Manifest](), "")
	tried := make(map[string]bool)
	for _, b := range breaches() {
		tried[b.path] = true
		if !slices.Contains(fields, b.path) {
			t.Errorf("the manifest has no field %s", b.path)
		}
		t.Run(b.path, func(t *testing.T) {
			t.Parallel()
			gatetest.WantCode(t, b.try(t, gatetest.New(t), func(m *policy.Manifest) {
				gatetest.Set(t, m, b.path, b.value)
			}), b.code)
		})
	}
	for _, f := range fields {
		// No gate sees rules, or signatures for edges: the tests of proxy and of the processes exceed their policies.
		if !tried[f] && f != "egressCeiling" && !strings.HasPrefix(f, "webBotAuthPolicy.") {
			t.Errorf("no violation of %s", f)
		}
	}
}

// manifestFields lists the fields by path. The controls are one; policy's tests flip each.
func manifestFields(t reflect.Type, path string) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := strings.Trim(path+"."+name, ".")
		within := f.Type
		if within.Kind() == reflect.Pointer {
			within = within.Elem()
		}
		if within.Kind() == reflect.Struct && within != reflect.TypeFor[policy.Controls]() {
			out = append(out, manifestFields(within, at)...)
			continue
		}
		out = append(out, at)
	}
	return out
}
