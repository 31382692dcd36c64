package gate_test

import (
	"context"
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

// violation breaks the demand of one field of the manifest.
type violation func(t *testing.T, k *gatetest.Kit) error

func under(t *testing.T, k *gatetest.Kit, edit func(*policy.Manifest)) {
	t.Helper()
	m := *k.Manifest
	edit(&m)
	s, err := m.Strict()
	check.Must(t, err)
	k.Manifest, k.Strict = &m, s
	k.Deployment = k.Certify(t, &m)
	k.Verifier.SetTrust(k.Trust(t))
	if k.Gate, err = gate.New(
		gate.Options{Challenges: k.Challenges, Secret: k.Secret, Issuer: "gate", Verifier: k.Verifier,
			Strict: s}); err != nil {
		t.Fatal(err)
	}
}

func admit(t *testing.T, k *gatetest.Kit, r gate.AdmitRequest) error {
	t.Helper()
	var used gatetest.Used
	_, err := gatetest.Admit(context.Background(), k.Gate, r, used.Consume)
	return err
}

// late is later than one second and the skew, and sooner than the example's 15 s.
const late = 5 * time.Second

func narrowed(edit func(*policy.Manifest)) violation { return aged(0, edit) }

func aged(by time.Duration, edit func(*policy.Manifest)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		r := k.Chain(t)
		under(t, k, edit)
		r.Envelope.DeploymentCertificate = k.Deployment
		k.Clock.Advance(by)
		return admit(t, k, r)
	}
}

func posted(by time.Duration, edit func(*policy.Manifest)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		r := authorizing(t, k)
		under(t, k, edit)
		k.Clock.Advance(by)
		_, err := k.Gate.Authorize(context.Background(), r)
		return err
	}
}

func receipted(by time.Duration, edit func(*policy.Manifest)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		token := k.Session(t, "ses_1").Call(t, nil)
		own := *k.Manifest.InteractionReceiptPolicy
		under(t, k, func(m *policy.Manifest) {
			m.InteractionReceiptPolicy = &own
			edit(m)
		})
		k.Clock.Advance(by)
		_, err := evidence.Open(k.Verifier, interaction.Kind, token, k.Strict.Expected(evidence.PurposeInteraction))
		return err
	}
}

func appraised(by time.Duration, edit func(*policy.Manifest)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		under(t, k, gatetest.Autonomous)
		token := k.Reputation(t, k.Agent(t), 20, 50)
		under(t, k, edit)
		k.Clock.Advance(by)
		_, err := policy.OpenReputation(k.Verifier, k.Strict, token, gatetest.Binding().Subject)
		return err
	}
}

func verified(edit func(*accrual.Verified)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
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
		if err := open(v); err != nil {
			t.Fatalf("one that counts: %v", err)
		}
		edit(v)
		err := open(v)
		under(t, k, func(m *policy.Manifest) {
			m.AutonomyPolicy.RequireVerification, m.AutonomyPolicy.AllowDegraded = true, true
		})
		if allowed := open(v); (allowed == nil) != v.Degraded {
			t.Errorf("degraded %v, and the manifest allows that: %v", v.Degraded, allowed)
		}
		return err
	}
}

func stated(by time.Duration, edit func(*policy.Manifest)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		under(t, k, gatetest.Speaking)
		hash := evidence.HashBytes(nil)
		made, err := k.Speak(t).Issue(context.Background(), interaction.Statement{
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
	return func(t *testing.T, k *gatetest.Kit) error { return admit(t, k, k.Build(t, p)) }
}

func without[C any](claim string, kind evidence.Kind[C], at func(*evidence.Envelope) *string) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		r := k.Chain(t)
		token := at(&r.Envelope)
		*token = reclaim(kind.Purpose, kind, func(c map[string]any) { c[claim] = "" })(t, k, *token)
		return admit(t, k, r)
	}
}

func unproven(claim string) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		r := authorizing(t, k)
		r.RequestProof = reclaim(evidence.PurposeRequestProof, evidence.RequestProofKind(), func(c map[string]any) {
			c[claim] = ""
		})(t, k, r.RequestProof)
		_, err := k.Gate.Authorize(context.Background(), r)
		return err
	}
}

func vouched(purpose string, change func(*evidence.SignerCertificate)) violation {
	return func(t *testing.T, k *gatetest.Kit) error {
		r := authorizing(t, k)
		c := gatetest.Resign(t, k, evidence.SignerCertificateKind(), k.Certificates[purpose], change)
		k.Verifier.SetTrust(k.TrustWithout(t, purpose, c))
		if purpose == evidence.PurposeRequestProof {
			_, err := k.Gate.Authorize(context.Background(), r)
			return err
		}
		return admit(t, k, k.Chain(t))
	}
}

func unsafe(edit func(*policy.Manifest)) violation {
	return func(_ *testing.T, k *gatetest.Kit) error {
		edit(k.Manifest)
		_, err := k.Manifest.Strict()
		return err
	}
}

func exportable(c *evidence.SignerCertificate) { c.KeyExportable = true }

func common(at string, allowed func(*policy.Manifest) *policy.Allowed, age string, ms func(*policy.Manifest) *int64,
	try func(time.Duration, func(*policy.Manifest)) violation) map[string]breach {
	return map[string]breach{
		at + ".allowedIssuers": {"not_allowed", try(0, func(m *policy.Manifest) {
			allowed(m).AllowedIssuers = []string{"other"}
		})},
		at + ".allowedAudiences": {"not_allowed", try(0, func(m *policy.Manifest) {
			allowed(m).AllowedAudiences = []string{"other"}
		})},
		at + ".allowedKeyIds": {"not_allowed", try(0, func(m *policy.Manifest) {
			allowed(m).AllowedKeyIDs = []string{"other-key"}
		})},
		at + "." + age: {"expired", try(late, func(m *policy.Manifest) { *ms(m) = 1000 })},
	}
}

type breach struct {
	code string
	try  violation
}

func breaches() map[string]breach {
	type (
		m = *policy.Manifest
		c = evidence.SignerCertificate
	)
	hardware := []string{evidence.CustodyHardwareBacked}
	receiptOf := func(m m) *policy.ReceiptPolicy { return &m.RuntimePolicy.TriggerReceiptPolicy }
	originOf := func(m m) *policy.OriginPolicy { return &receiptOf(m).OriginProofPolicy }
	sessionOf := func(m m) *policy.SessionPolicy { return &m.AgentSessionReceiptPolicy }
	both := func(set func(m, string)) func(m) { return func(m m) { set(m, other) } }
	rows := map[string]breach{
		"version": {"deployment_unsafe", unsafe(func(m m) { m.Version = "1.2" })},
		"deploymentId": {"deployment_mismatch", func(t *testing.T, k *gatetest.Kit) error {
			old := k.Deployment
			under(t, k, func(m m) {
				m.DeploymentID, m.DeploymentCertificatePolicy.AllowedDeploymentIDs = "other", []string{"other", m.DeploymentID}
			})
			r := k.Chain(t)
			r.Envelope.DeploymentCertificate = old
			return admit(t, k, r)
		}},
		"controls":           {"deployment_unsafe", unsafe(func(m m) { m.Controls.ConsumeCapability = false })},
		"maxChallengeAgeMs":  {"expired", aged(late, func(m m) { m.MaxChallengeAgeMs = 1000 })},
		"maxCapabilityAgeMs": {"expired", posted(late, func(m m) { m.MaxCapabilityAgeMs = 1000 })},
		"capabilityTtlMs": {"expired", func(t *testing.T, k *gatetest.Kit) error {
			under(t, k, func(m m) { m.CapabilityTTLMs = 1000 })
			r := authorizing(t, k)
			k.Clock.Advance(late)
			_, err := k.Gate.Authorize(context.Background(), r)
			return err
		}},

		"runtimePolicy.allowedKeyCustody": {"key_custody", narrowed(func(m m) {
			m.RuntimePolicy.AllowedKeyCustody = hardware
		})},
		"runtimePolicy.requireNonExportableKey": {"key_custody", vouched(evidence.PurposeRuntimeAttestation, exportable)},
		"runtimePolicy.allowedRuntimeIds": {"not_allowed", narrowed(func(m m) {
			m.RuntimePolicy.AllowedRuntimeIDs = []string{"worker-2"}
		})},
		"runtimePolicy.allowedTriggerKinds": {"not_allowed", narrowed(func(m m) {
			m.RuntimePolicy.AllowedTriggerKinds = []string{evidence.TriggerScheduled}
		})},
		"runtimePolicy.deniedTriggerKinds": {"not_allowed", narrowed(func(m m) {
			m.RuntimePolicy.DeniedTriggerKinds = []string{evidence.TriggerHumanRequest, evidence.TriggerUnknown,
				evidence.TriggerSourceEvent}
		})},
		"runtimePolicy.requiredMode": {"human_involved",
			planning(gatetest.Plan{Attestation: func(a *evidence.RuntimeAttestation) {
				a.Mode = "interactive"
			}})},
		"runtimePolicy.requiredPolicyHash": {"pin_mismatch", narrowed(both(func(m m, h string) {
			m.RuntimePolicy.RequiredPolicyHash, sessionOf(m).RequiredPolicyHash = h, h
		}))},
		"runtimePolicy.requiredEnvironmentHash": {"pin_mismatch", narrowed(both(func(m m, h string) {
			m.RuntimePolicy.RequiredEnvironmentHash, sessionOf(m).RequiredEnvironmentHash = h, h
		}))},

		"runtimePolicy.triggerReceiptPolicy.allowedKinds": {"not_allowed", narrowed(func(m m) {
			receiptOf(m).AllowedKinds = []string{evidence.TriggerScheduled}
		})},
		"runtimePolicy.triggerReceiptPolicy.allowedSources": {"not_allowed", narrowed(func(m m) {
			receiptOf(m).AllowedSources = []string{"hooks"}
		})},
		"runtimePolicy.triggerReceiptPolicy.requireEventId": {"artifact_malformed",
			without("eventId", evidence.TriggerReceiptKind(), receipt)},
		"runtimePolicy.triggerReceiptPolicy.requiredPayloadHash": {"not_allowed", narrowed(func(m m) {
			receiptOf(m).RequiredPayloadHash = other
		})},
		"runtimePolicy.triggerReceiptPolicy.requiredBindingHash": {"not_allowed", narrowed(func(m m) {
			receiptOf(m).RequiredBindingHash = other
		})},
		"runtimePolicy.triggerReceiptPolicy.requireOriginProof": {"artifact_missing",
			func(t *testing.T, k *gatetest.Kit) error {
				r := k.Chain(t)
				r.Envelope.OriginProof = ""
				return admit(t, k, r)
			}},
		"runtimePolicy.triggerReceiptPolicy.requireVerifiedOriginProof": {"key_unknown",
			func(t *testing.T, k *gatetest.Kit) error {
				return admit(t, k,
					k.Build(t, gatetest.Plan{
						Signers: signers(evidence.PurposeTriggerOriginProof, gatetest.StrangerKey(t, "stranger:v1"))}))
			}},

		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedKinds": {"not_allowed", narrowed(func(m m) {
			originOf(m).AllowedKinds = []string{evidence.TriggerScheduled}
		})},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedSources": {"not_allowed", narrowed(func(m m) {
			originOf(m).AllowedSources = []string{"hooks"}
		})},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedVerificationMethods": {"not_allowed",
			narrowed(func(m m) {
				originOf(m).AllowedVerificationMethods = []string{evidence.MethodQueueClaim}
			})},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.requireEventId": {"artifact_malformed",
			without("eventId", evidence.TriggerOriginProofKind(), origin)},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.requireEvidenceId": {"artifact_malformed",
			without("evidenceId", evidence.TriggerOriginProofKind(), origin)},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.requiredPayloadHash": {"not_allowed", narrowed(func(m m) {
			originOf(m).RequiredPayloadHash = other
		})},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.requiredBindingHash": {"not_allowed", narrowed(func(m m) {
			originOf(m).RequiredBindingHash = other
		})},
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy.requiredEvidenceHash": {"not_allowed", narrowed(func(m m) {
			originOf(m).RequiredEvidenceHash = other
		})},

		"signerCertificatePolicy.allowedKeyCustody": {"key_custody", narrowed(func(m m) {
			m.SignerCertificatePolicy.AllowedKeyCustody = hardware
		})},
		"signerCertificatePolicy.requireNonExportableKey": {"key_custody", vouched(evidence.PurposeActionGrant, exportable)},
		"signerCertificatePolicy.denyAgentAccessible": {"key_custody", vouched(evidence.PurposeActionGrant, func(c *c) {
			c.AccessibleToAgent = true
		})},
		"signerCertificatePolicy.denyUserAccessible": {"key_custody", vouched(evidence.PurposeActionGrant, func(c *c) {
			c.AccessibleToUsers = true
		})},
		"signerCertificatePolicy.requireSubjectPublicKeyHash": {"artifact_malformed",
			func(t *testing.T, k *gatetest.Kit) error {
				const purpose = evidence.PurposeSignerCertificate
				token := reclaim(purpose, evidence.SignerCertificateKind(), func(c map[string]any) {
					c["subjectPublicKeyHash"] = ""
				})(t, k, k.Certificates[evidence.PurposeActionGrant])
				return k.Believe(t, token)
			}},
		"signerCertificatePolicy.maxRevocationListAgeMs": {"revocations_stale", narrowed(func(m m) {
			m.SignerCertificatePolicy.MaxRevocationListAgeMs = 1000
		})},
		"signerCertificatePolicy.requirePostQuantumSignature": {"roots_not_pinned",
			func(t *testing.T, k *gatetest.Kit) error {
				k.Strict.Signers.RequirePostQuantum = true
				return k.Believe(t, k.Certificates[evidence.PurposeActionGrant])
			}},

		"deploymentCertificatePolicy.allowedDeploymentIds": {"deployment_mismatch",
			func(t *testing.T, k *gatetest.Kit) error {
				r := k.Chain(t)
				r.Envelope.DeploymentCertificate = gatetest.Resign(t, k, evidence.DeploymentCertificateKind(), k.Deployment,
					func(c *evidence.DeploymentCertificate) {
						c.DeploymentID = "other"
					})
				return admit(t, k, r)
			}},
		"deploymentCertificatePolicy.requirePostQuantumSignature": {"roots_not_pinned", narrowed(func(m m) {
			m.DeploymentCertificatePolicy.RequirePostQuantumSignature = true
		})},

		"agentSessionReceiptPolicy.allowedKeyCustody": {"key_custody", narrowed(func(m m) {
			sessionOf(m).AllowedKeyCustody = hardware
		})},
		"agentSessionReceiptPolicy.requireNonExportableKey": {"key_custody",
			vouched(evidence.PurposeAgentSession, exportable)},
		"agentSessionReceiptPolicy.allowedRuntimeIds": {"not_allowed", narrowed(func(m m) {
			sessionOf(m).AllowedRuntimeIDs = []string{"worker-2"}
		})},
		"agentSessionReceiptPolicy.allowedInputKinds": {"not_allowed", narrowed(func(m m) {
			sessionOf(m).AllowedInputKinds = []string{evidence.TriggerScheduled}
		})},
		"agentSessionReceiptPolicy.deniedInputKinds": {"not_allowed", narrowed(func(m m) {
			sessionOf(m).DeniedInputKinds = append(slices.Clone(sessionOf(m).DeniedInputKinds), evidence.TriggerSourceEvent)
		})},
		"agentSessionReceiptPolicy.requireChallengeId": {"artifact_malformed",
			without("challengeId", evidence.SessionReceiptKind(), session)},
		"agentSessionReceiptPolicy.requireBindingHash": {"artifact_malformed",
			without("bindingHash", evidence.SessionReceiptKind(), session)},
		"agentSessionReceiptPolicy.requireNoHumanPrompt": {"human_involved",
			planning(gatetest.Plan{Session: func(c *evidence.SessionReceipt) {
				c.HumanPromptPresent = true
			}})},
		"agentSessionReceiptPolicy.requireNoHumanOperator": {"human_involved",
			planning(gatetest.Plan{Session: func(c *evidence.SessionReceipt) {
				c.HumanOperatorPresent = true
			}})},
		"agentSessionReceiptPolicy.denyUserShellAccess": {"human_involved",
			planning(gatetest.Plan{Session: func(c *evidence.SessionReceipt) {
				c.UserShellAccess = true
			}})},
		"agentSessionReceiptPolicy.denyUserAccessibleAgentEnvironment": {"human_involved",
			planning(gatetest.Plan{Session: func(c *evidence.SessionReceipt) {
				c.AgentEnvironmentUserAccessible = true
			}})},
		"agentSessionReceiptPolicy.requiredPolicyHash": {"pin_mismatch",
			planning(gatetest.Plan{Session: func(c *evidence.SessionReceipt) {
				c.PolicyHash = other
			}})},
		"agentSessionReceiptPolicy.requiredEnvironmentHash": {"pin_mismatch",
			planning(gatetest.Plan{Session: func(c *evidence.SessionReceipt) {
				c.EnvironmentHash = other
			}})},

		"policyDecisionPolicy.allowedKeyCustody": {"key_custody", narrowed(func(m m) {
			m.PolicyDecisionPolicy.AllowedKeyCustody = hardware
		})},
		"policyDecisionPolicy.requireNonExportableKey": {"key_custody", vouched(evidence.PurposePolicyDecision, exportable)},
		"interactionReceiptPolicy.allowedKeyCustody": {"key_custody", receipted(0, func(m m) {
			m.InteractionReceiptPolicy.AllowedKeyCustody = hardware
		})},
		"interactionReceiptPolicy.requireNonExportableKey": {"key_custody", func(t *testing.T, k *gatetest.Kit) error {
			k.Observe(t)
			k.Certificates[evidence.PurposeInteraction] = gatetest.Resign(t, k, evidence.SignerCertificateKind(),
				k.Certificates[evidence.PurposeInteraction], exportable)
			return receipted(0, func(m m) { m.SignerCertificatePolicy.RequireNonExportableKey = true })(t, k)
		}},
		"autonomyPolicy.allowedKeyCustody": {"key_custody", appraised(0, func(m m) {
			m.AutonomyPolicy.AllowedKeyCustody = hardware
		})},
		"autonomyPolicy.requireNonExportableKey": {"key_custody", func(t *testing.T, k *gatetest.Kit) error {
			under(t, k, gatetest.Autonomous)
			k.Appraise(t)
			k.Certificates[evidence.PurposeAppraiser] = gatetest.Resign(t, k, evidence.SignerCertificateKind(),
				k.Certificates[evidence.PurposeAppraiser], exportable)
			return appraised(0, func(m m) { m.SignerCertificatePolicy.RequireNonExportableKey = true })(t, k)
		}},
		"autonomyPolicy.scoringHash": {"pin_mismatch", appraised(0, func(m m) {
			m.AutonomyPolicy.ScoringHash = other
		})},
		"autonomyPolicy.requireVerification": {"reputation_insufficient", verified(func(v *accrual.Verified) {
			v.Mode = accrual.ModeSeed
		})},
		"autonomyPolicy.allowDegraded": {"reputation_insufficient", verified(func(v *accrual.Verified) {
			v.Degraded = true
		})},
		"agentStatementPolicy.allowedKeyCustody": {"key_custody", stated(0, func(m m) {
			m.AgentStatementPolicy.AllowedKeyCustody = hardware
		})},
		"agentStatementPolicy.requireNonExportableKey": {"key_custody", func(t *testing.T, k *gatetest.Kit) error {
			k.Speak(t)
			k.Certificates[evidence.PurposeStatement] = gatetest.Resign(t, k, evidence.SignerCertificateKind(),
				k.Certificates[evidence.PurposeStatement], exportable)
			return stated(0, func(m m) { m.SignerCertificatePolicy.RequireNonExportableKey = true })(t, k)
		}},
		"grantPolicy.allowedKeyCustody": {"key_custody", narrowed(func(m m) {
			m.GrantPolicy.AllowedKeyCustody = hardware
		})},
		"grantPolicy.requireNonExportableKey": {"key_custody", vouched(evidence.PurposeActionGrant, exportable)},

		"requestProofPolicy.allowedKeyCustody": {"key_custody", posted(0, func(m m) {
			m.RequestProofPolicy.AllowedKeyCustody = hardware
		})},
		"requestProofPolicy.requireNonExportableKey": {"key_custody", vouched(evidence.PurposeRequestProof, exportable)},
		"requestProofPolicy.requireBindingHash":      {"artifact_malformed", unproven("bindingHash")},
		"requestProofPolicy.requireCapabilityId":     {"artifact_malformed", unproven("capabilityId")},
	}
	for _, p := range []map[string]breach{
		common("runtimePolicy", func(m m) *policy.Allowed {
			return &m.RuntimePolicy.Allowed
		}, "maxAttestationAgeMs", func(m m) *int64 { return &m.RuntimePolicy.MaxAttestationAgeMs }, aged),
		common("runtimePolicy.triggerReceiptPolicy", func(m m) *policy.Allowed {
			return &receiptOf(m).Allowed
		}, "maxReceiptAgeMs", func(m m) *int64 { return &receiptOf(m).MaxReceiptAgeMs }, aged),
		common("runtimePolicy.triggerReceiptPolicy.originProofPolicy", func(m m) *policy.Allowed {
			return &originOf(m).Allowed
		}, "maxProofAgeMs", func(m m) *int64 { return &originOf(m).MaxProofAgeMs }, aged),
		common("signerCertificatePolicy", func(m m) *policy.Allowed {
			return &m.SignerCertificatePolicy.Allowed
		}, "maxCertificateAgeMs", func(m m) *int64 { return &m.SignerCertificatePolicy.MaxCertificateAgeMs }, aged),
		common("deploymentCertificatePolicy", func(m m) *policy.Allowed {
			return &m.DeploymentCertificatePolicy.Allowed
		}, "maxCertificateAgeMs", func(m m) *int64 { return &m.DeploymentCertificatePolicy.MaxCertificateAgeMs }, aged),
		common("agentSessionReceiptPolicy", func(m m) *policy.Allowed {
			return &sessionOf(m).Allowed
		}, "maxReceiptAgeMs", func(m m) *int64 { return &sessionOf(m).MaxReceiptAgeMs }, aged),
		common("policyDecisionPolicy", func(m m) *policy.Allowed {
			return &m.PolicyDecisionPolicy.Allowed
		}, "maxProofAgeMs", func(m m) *int64 { return &m.PolicyDecisionPolicy.MaxProofAgeMs }, aged),
		common("grantPolicy", func(m m) *policy.Allowed {
			return &m.GrantPolicy.Allowed
		}, "maxProofAgeMs", func(m m) *int64 { return &m.GrantPolicy.MaxProofAgeMs }, aged),
		common("requestProofPolicy", func(m m) *policy.Allowed {
			return &m.RequestProofPolicy.Allowed
		}, "maxProofAgeMs", func(m m) *int64 { return &m.RequestProofPolicy.MaxProofAgeMs }, posted),
		common("interactionReceiptPolicy", func(m m) *policy.Allowed {
			return &m.InteractionReceiptPolicy.Allowed
		}, "maxReceiptAgeMs", func(m m) *int64 { return &m.InteractionReceiptPolicy.MaxReceiptAgeMs }, receipted),
		common("autonomyPolicy", func(m m) *policy.Allowed {
			return &m.AutonomyPolicy.Allowed
		}, "maxReputationAgeMs", func(m m) *int64 { return &m.AutonomyPolicy.MaxReputationAgeMs }, appraised),
		common("agentStatementPolicy", func(m m) *policy.Allowed {
			return &m.AgentStatementPolicy.Allowed
		}, "maxStatementAgeMs", func(m m) *int64 { return &m.AgentStatementPolicy.MaxStatementAgeMs }, stated),
	} {
		for path, b := range p {
			rows[path] = b
		}
	}
	return rows
}

// TestEachFieldOfTheManifestIsEnforced violates each field by itself.
func TestEachFieldOfTheManifestIsEnforced(t *testing.T) {
	t.Parallel()
	rows := breaches()
	fields := manifestFields(reflect.TypeFor[policy.Manifest](), "")
	for _, f := range fields {
		if _, ok := rows[f]; !ok {
			t.Errorf("no violation of %s", f)
		}
	}
	for path, b := range rows {
		if !slices.Contains(fields, path) {
			t.Errorf("the manifest has no field %s", path)
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			gatetest.WantCode(t, b.try(t, gatetest.New(t)), b.code)
		})
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
