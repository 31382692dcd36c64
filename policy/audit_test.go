package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/policytest"
)

func TestEachControl(t *testing.T) {
	controls := reflect.TypeFor[policy.Controls]()
	if controls.NumField() != 44 {
		t.Fatalf("there are %d controls", controls.NumField())
	}
	for i := range controls.NumField() {
		name := controls.Field(i).Tag.Get("json")
		t.Run(name, func(t *testing.T) {
			m := policytest.Example(t)
			v := reflect.ValueOf(&m.Controls).Elem().Field(i)
			v.SetBool(!v.Bool())
			wantIssues(t, m.Audit(), "control_"+snake(name)+" controls."+name)
			_, err := m.Strict()
			check.WantCode(t, err, "deployment_unsafe", "control_"+snake(name))
		})
	}
}

func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// TestEachFieldLeftOpen: the audit names the empty field and no other.
func TestEachFieldLeftOpen(t *testing.T) {
	codes := make(map[string]string)
	for _, f := range leaves(reflect.TypeFor[policy.Manifest](), "", nil) {
		if f.optional || strings.HasPrefix(f.path, "controls.") {
			continue
		}
		t.Run(f.path, func(t *testing.T) {
			m := policytest.WithStatements(policytest.WithAutonomy(policytest.Example(t)))
			reflect.ValueOf(m).Elem().FieldByIndex(f.index).SetZero()
			issues := m.Audit()
			if len(issues) == 0 {
				t.Fatal("nobody notices")
			}
			for _, i := range issues {
				if i.Path != f.path {
					t.Errorf("%s is about %s", i.Code, i.Path)
				}
				if other, ok := codes[i.Code]; ok && other != f.path {
					t.Errorf("%s is also the code of %s", i.Code, other)
				}
				codes[i.Code] = f.path
				if i.Sentence == "" || i.Mend == "" {
					t.Errorf("%s does not explain itself: %+v", i.Code, i)
				}
			}
		})
	}
	if len(codes) < 70 {
		t.Errorf("only %d codes were seen", len(codes))
	}
}

type leaf struct {
	path     string
	index    []int
	optional bool
}

func leaves(t reflect.Type, path string, index []int) (out []leaf) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		at, to := strings.Trim(path+"."+name, "."), append(slices.Clone(index), i)
		within := f.Type
		if within.Kind() == reflect.Pointer {
			within = within.Elem()
		}
		if within.Kind() == reflect.Struct {
			out = append(out, leaves(within, at, to)...)
			continue
		}
		out = append(out, leaf{at, to, option == "omitempty"})
	}
	return out
}

func TestWeakFields(t *testing.T) {
	const (
		receipt = "runtimePolicy.triggerReceiptPolicy"
		origin  = receipt + ".originProofPolicy"
		session = "agentSessionReceiptPolicy"
	)
	hash, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for name, c := range map[string]struct {
		weaken func(m *policy.Manifest)
		want   []string // code and path
	}{
		"version": {func(m *policy.Manifest) { m.Version = "2.0" }, []string{"version_unknown version"}},
		"a reputation in 1.0": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).Version = "1.0"
		}, []string{"autonomy_version version"}},
		"1.1 without one": {func(m *policy.Manifest) { m.Version = "1.1" }, nil},
		"a reputation":    {func(m *policy.Manifest) { policytest.WithAutonomy(m) }, nil},
		"an old reputation": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).AutonomyPolicy.MaxReputationAgeMs = 600_001
		},
			[]string{"autonomy_max_age_over_bound autonomyPolicy.maxReputationAgeMs"}},
		"an observer's reputation": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).AutonomyPolicy.AllowedKeyIDs = []string{"interaction-receipt-key:v3"}
		}, []string{"key_purpose autonomyPolicy.allowedKeyIds"}},
		"the policy engine's reputation": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).AutonomyPolicy.AllowedIssuers = []string{"mediator-policy"}
		},
			[]string{"issuer_shared autonomyPolicy.allowedIssuers"}},
		"a shared secret for reputations": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).AutonomyPolicy.AllowedKeyIDs = []string{"mac:1"}
		},
			[]string{"autonomy_key_ids_shared autonomyPolicy.allowedKeyIds"}},
		"appraiser's custody": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).AutonomyPolicy.AllowedKeyCustody = []string{"file"}
		},
			[]string{"autonomy_key_custody_weak autonomyPolicy.allowedKeyCustody"}},
		"formulas in capitals": {func(m *policy.Manifest) {
			policytest.WithAutonomy(m).AutonomyPolicy.ScoringHash = strings.ToUpper(hash)
		},
			[]string{"autonomy_scoring_hash_missing autonomyPolicy.scoringHash"}},
		"a statement in 1.0": {func(m *policy.Manifest) {
			policytest.WithStatements(m).Version = "1.0"
		}, []string{"agent_statement_version version"}},
		"a statement": {func(m *policy.Manifest) { policytest.WithStatements(m) }, nil},
		"an old statement": {func(m *policy.Manifest) {
			policytest.WithStatements(m).AgentStatementPolicy.MaxStatementAgeMs = 60_001
		},
			[]string{"agent_statement_max_age_over_bound agentStatementPolicy.maxStatementAgeMs"}},
		"an observer's statement": {func(m *policy.Manifest) {
			policytest.WithStatements(m).AgentStatementPolicy.AllowedKeyIDs = []string{"interaction-receipt-key"}
		}, []string{"key_purpose agentStatementPolicy.allowedKeyIds"}},
		"speaker's custody": {func(m *policy.Manifest) {
			policytest.WithStatements(m).AgentStatementPolicy.AllowedKeyCustody = []string{"file"}
		}, []string{"agent_statement_key_custody_weak agentStatementPolicy.allowedKeyCustody"}},
		"deployment not listed": {func(m *policy.Manifest) { m.DeploymentID = "other" },
			[]string{"deployment_id_not_listed deploymentCertificatePolicy.allowedDeploymentIds"}},
		"an empty issuer": {func(m *policy.Manifest) {
			m.GrantPolicy.AllowedIssuers = []string{"a", ""}
		}, []string{"action_grant_issuers_missing grantPolicy.allowedIssuers"}},
		"human trigger": {func(m *policy.Manifest) {
			runtime(m).AllowedKinds = []string{"human_request"}
		}, []string{"trigger_receipt_kinds_unsafe " + receipt + ".allowedKinds"}},
		"unknown trigger": {func(m *policy.Manifest) {
			runtime(m).OriginProofPolicy.AllowedKinds = []string{"scheduled", "unknown"}
		}, []string{"origin_proof_kinds_unsafe " + origin + ".allowedKinds"}},
		"misspelt kind": {func(m *policy.Manifest) {
			runtime(m).AllowedKinds = []string{"source_events"}
		}, []string{"trigger_receipt_kinds_unsafe " + receipt + ".allowedKinds"}},
		"manual method": {func(m *policy.Manifest) {
			runtime(m).OriginProofPolicy.AllowedVerificationMethods = []string{"manual"}
		}, []string{"origin_proof_methods_unsafe " + origin + ".allowedVerificationMethods"}},
		"self-reported method": {func(m *policy.Manifest) {
			runtime(m).OriginProofPolicy.AllowedVerificationMethods = []string{"self_reported"}
		}, []string{"origin_proof_methods_unsafe " + origin + ".allowedVerificationMethods"}},
		"prompt as input": {func(m *policy.Manifest) {
			m.AgentSessionReceiptPolicy.AllowedInputKinds = []string{"human_prompt"}
		}, []string{"agent_session_input_kinds_unsafe " + session + ".allowedInputKinds"}},
		"prompt not denied": {func(m *policy.Manifest) {
			m.AgentSessionReceiptPolicy.DeniedInputKinds = []string{"manual_shell", "unknown"}
		}, []string{"agent_session_input_kind_human_prompt_not_denied " + session + ".deniedInputKinds"}},
		"runtime custody": {func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedKeyCustody = []string{"agent_process"}
		}, []string{"runtime_key_custody_weak runtimePolicy.allowedKeyCustody"}},
		"session custody": {func(m *policy.Manifest) {
			m.AgentSessionReceiptPolicy.AllowedKeyCustody = []string{"hardware_backed", "file"}
		}, []string{"agent_session_key_custody_weak " + session + ".allowedKeyCustody"}},
		"signer custody": {func(m *policy.Manifest) {
			m.SignerCertificatePolicy.AllowedKeyCustody = []string{"file"}
		}, []string{"signer_certificate_key_custody_weak signerCertificatePolicy.allowedKeyCustody"}},
		"decision custody": {func(m *policy.Manifest) {
			m.PolicyDecisionPolicy.AllowedKeyCustody = []string{"file"}
		}, []string{"policy_decision_key_custody_weak policyDecisionPolicy.allowedKeyCustody"}},
		"grant custody": {func(m *policy.Manifest) {
			m.GrantPolicy.AllowedKeyCustody = []string{"file"}
		}, []string{"action_grant_key_custody_weak grantPolicy.allowedKeyCustody"}},
		"request custody": {func(m *policy.Manifest) {
			m.RequestProofPolicy.AllowedKeyCustody = []string{"file"}
		}, []string{"request_proof_key_custody_weak requestProofPolicy.allowedKeyCustody"}},
		"old attestation": {func(m *policy.Manifest) {
			m.RuntimePolicy.MaxAttestationAgeMs = 60_001
		}, []string{"runtime_max_age_over_bound runtimePolicy.maxAttestationAgeMs"}},
		"old receipt": {func(m *policy.Manifest) {
			runtime(m).MaxReceiptAgeMs = 60_001
		}, []string{"trigger_receipt_max_age_over_bound " + receipt + ".maxReceiptAgeMs"}},
		"old origin proof": {func(m *policy.Manifest) {
			runtime(m).OriginProofPolicy.MaxProofAgeMs = 1 << 62
		}, []string{"origin_proof_max_age_over_bound " + origin + ".maxProofAgeMs"}},
		"old session": {func(m *policy.Manifest) {
			m.AgentSessionReceiptPolicy.MaxReceiptAgeMs = 60_001
		}, []string{"agent_session_max_age_over_bound " + session + ".maxReceiptAgeMs"}},
		"old decision": {func(m *policy.Manifest) {
			m.PolicyDecisionPolicy.MaxProofAgeMs = 60_001
		}, []string{"policy_decision_max_age_over_bound policyDecisionPolicy.maxProofAgeMs"}},
		"old grant": {func(m *policy.Manifest) {
			m.GrantPolicy.MaxProofAgeMs = 60_001
		}, []string{"action_grant_max_age_over_bound grantPolicy.maxProofAgeMs"}},
		"old request proof": {func(m *policy.Manifest) {
			m.RequestProofPolicy.MaxProofAgeMs = 60_001
		}, []string{"request_proof_max_age_over_bound requestProofPolicy.maxProofAgeMs"}},
		"old challenge": {func(m *policy.Manifest) {
			m.MaxChallengeAgeMs = 60_001
		}, []string{"challenge_max_age_over_bound maxChallengeAgeMs"}},
		"long capability": {func(m *policy.Manifest) {
			m.CapabilityTTLMs = 60_001
		}, []string{"capability_ttl_over_bound capabilityTtlMs"}},
		"old capability": {func(m *policy.Manifest) {
			m.MaxCapabilityAgeMs = 60_001
		}, []string{"capability_max_age_over_bound maxCapabilityAgeMs"}},
		"under a second": {func(m *policy.Manifest) {
			m.MaxChallengeAgeMs = 999
		}, []string{"challenge_max_age_missing maxChallengeAgeMs"}},
		"old revocations": {func(m *policy.Manifest) { m.SignerCertificatePolicy.MaxRevocationListAgeMs = 7*86_400_000 + 1 },
			[]string{"revocation_list_max_age_over_bound signerCertificatePolicy.maxRevocationListAgeMs"}},
		"no time for revocations": {func(m *policy.Manifest) { m.SignerCertificatePolicy.MaxRevocationListAgeMs = 999 },
			[]string{"revocation_list_max_age_missing signerCertificatePolicy.maxRevocationListAgeMs"}},
		"fresh revocations": {func(m *policy.Manifest) {
			m.SignerCertificatePolicy.MaxRevocationListAgeMs = 86_400_000
		}, nil},
		"old deployment": {func(m *policy.Manifest) { m.DeploymentCertificatePolicy.MaxCertificateAgeMs = 8 * 86_400_000 },
			[]string{"deployment_certificate_max_age_over_bound deploymentCertificatePolicy.maxCertificateAgeMs"}},
		"old certificate": {func(m *policy.Manifest) { m.SignerCertificatePolicy.MaxCertificateAgeMs = 401 * 86_400_000 },
			[]string{"signer_certificate_max_age_over_bound signerCertificatePolicy.maxCertificateAgeMs"}},
		"malformed hash": {func(m *policy.Manifest) { m.RuntimePolicy.RequiredEnvironmentHash = strings.ToUpper(hash) },
			[]string{"runtime_environment_hash_missing runtimePolicy.requiredEnvironmentHash",
				"agent_session_environment_hash_differs " + session + ".requiredEnvironmentHash"}},
		"other policy hash": {func(m *policy.Manifest) { m.AgentSessionReceiptPolicy.RequiredPolicyHash = other },
			[]string{"agent_session_policy_hash_differs " + session + ".requiredPolicyHash"}},
		"malformed pins": {func(m *policy.Manifest) {
			runtime(m).RequiredPayloadHash, runtime(m).RequiredBindingHash = "x", "x"
			o := &runtime(m).OriginProofPolicy
			o.RequiredPayloadHash, o.RequiredBindingHash, o.RequiredEvidenceHash = "x", "x", "x"
		}, []string{
			"trigger_receipt_payload_hash_missing " + receipt + ".requiredPayloadHash",
			"trigger_receipt_binding_hash_missing " + receipt + ".requiredBindingHash",
			"origin_proof_payload_hash_missing " + origin + ".requiredPayloadHash",
			"origin_proof_binding_hash_missing " + origin + ".requiredBindingHash",
			"origin_proof_evidence_hash_missing " + origin + ".requiredEvidenceHash",
		}},
		"proper pins": {func(m *policy.Manifest) {
			runtime(m).RequiredPayloadHash, runtime(m).OriginProofPolicy.RequiredEvidenceHash = hash, hash
		}, nil},
		"shared issuer": {func(m *policy.Manifest) { m.GrantPolicy.AllowedIssuers = []string{"mediator-policy"} },
			[]string{"issuer_shared grantPolicy.allowedIssuers"}},
		"shared key": {func(m *policy.Manifest) { m.RequestProofPolicy.AllowedKeyIDs = []string{"runtime-key"} },
			[]string{"key_purpose requestProofPolicy.allowedKeyIds"}},
		"shared key, another version": {func(m *policy.Manifest) {
			m.RequestProofPolicy.AllowedKeyIDs = []string{"runtime-key:v7"}
		},
			[]string{"key_purpose requestProofPolicy.allowedKeyIds"}},
		"root key that signs": {func(m *policy.Manifest) { m.PolicyDecisionPolicy.AllowedKeyIDs = []string{"auditor:v1"} },
			[]string{"key_purpose policyDecisionPolicy.allowedKeyIds"}},
		"a shared secret for attestations": {func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedKeyIDs = []string{"runtime-key", "mac:vRq1"}
		},
			[]string{"runtime_key_ids_shared runtimePolicy.allowedKeyIds"}},
		"a shared secret for grants": {func(m *policy.Manifest) {
			m.GrantPolicy.AllowedKeyIDs = []string{"mac:1"}
		}, []string{"action_grant_key_ids_shared grantPolicy.allowedKeyIds"}},
		"two versions for one role": {func(m *policy.Manifest) {
			m.GrantPolicy.AllowedKeyIDs = []string{"g:v1", "g:v2"}
		}, nil},
		"a narrower custody": {func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedKeyCustody = []string{"hardware_backed"}
		}, nil},
		"another mode": {func(m *policy.Manifest) {
			m.RuntimePolicy.RequiredMode = "interactive"
		}, []string{"runtime_mode_unsafe runtimePolicy.requiredMode"}},
		"the mode said again": {func(m *policy.Manifest) { m.RuntimePolicy.RequiredMode = "autonomous" }, nil},
		"a human as trigger": {func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedTriggerKinds = []string{"scheduled", "human_request"}
		},
			[]string{"runtime_trigger_kinds_unsafe runtimePolicy.allowedTriggerKinds"}},
		"an empty trigger": {func(m *policy.Manifest) { m.RuntimePolicy.AllowedTriggerKinds = []string{"scheduled", ""} },
			[]string{"runtime_trigger_kinds_unsafe runtimePolicy.allowedTriggerKinds"}},
		"a human's trigger not denied": {func(m *policy.Manifest) {
			m.RuntimePolicy.DeniedTriggerKinds = []string{"scheduled"}
		},
			[]string{"runtime_trigger_kind_human_request_not_denied runtimePolicy.deniedTriggerKinds",
				"runtime_trigger_kind_unknown_not_denied runtimePolicy.deniedTriggerKinds"}},
		"no trigger left": {func(m *policy.Manifest) {
			m.RuntimePolicy.AllowedTriggerKinds, m.RuntimePolicy.DeniedTriggerKinds = []string{"scheduled"},
				[]string{"human_request", "unknown", "scheduled"}
		}, []string{"runtime_trigger_kinds_none runtimePolicy.allowedTriggerKinds"}},
		"no deployment": {func(m *policy.Manifest) { m.DeploymentCertificatePolicy.AllowedDeploymentIDs = nil },
			[]string{"deployment_certificate_deployment_ids_missing deploymentCertificatePolicy.allowedDeploymentIds"}},
		"an empty kind": {func(m *policy.Manifest) {
			runtime(m).AllowedKinds = []string{"scheduled", ""}
		}, []string{"trigger_receipt_kinds_missing " + receipt + ".allowedKinds"}},
		"no kind": {func(m *policy.Manifest) {
			runtime(m).AllowedKinds = nil
		}, []string{"trigger_receipt_kinds_missing " + receipt + ".allowedKinds"}},
		"two empty issuers": {func(m *policy.Manifest) {
			m.GrantPolicy.AllowedIssuers, m.RequestProofPolicy.AllowedIssuers = []string{"g", ""}, []string{"r", ""}
		}, []string{"action_grant_issuers_missing grantPolicy.allowedIssuers",
			"request_proof_issuers_missing requestProofPolicy.allowedIssuers"}},
		"a second": {func(m *policy.Manifest) {
			m.MaxChallengeAgeMs, m.RuntimePolicy.MaxAttestationAgeMs = 1000, 1000
		}, nil},
		"a minute": {func(m *policy.Manifest) {
			m.MaxChallengeAgeMs, m.RuntimePolicy.MaxAttestationAgeMs = 60_000, 60_000
		}, nil},
		"any runtime": {func(m *policy.Manifest) { m.RuntimePolicy.AllowedRuntimeIDs = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := policytest.Example(t)
			c.weaken(m)
			wantIssues(t, m.Audit(), c.want...)
			if s, err := m.Strict(); len(c.want) > 0 {
				check.WantCode(t, err, "deployment_unsafe", fmt.Sprintf("%d safeguard", len(c.want)))
				if s != nil {
					t.Error("an unsafe manifest was made strict")
				}
			} else {
				check.Must(t, err)
			}
		})
	}
}

func runtime(m *policy.Manifest) *policy.ReceiptPolicy { return &m.RuntimePolicy.TriggerReceiptPolicy }

func wantIssues(t *testing.T, got []policy.Issue, want ...string) {
	t.Helper()
	var codes []string
	for _, i := range got {
		codes = append(codes, i.Code+" "+i.Path)
	}
	slices.Sort(codes)
	slices.Sort(want)
	if !slices.Equal(codes, want) {
		t.Errorf("got the issues\n%s\nwant\n%s", strings.Join(codes, "\n"), strings.Join(want, "\n"))
	}
}

func TestRefusalNamesTheFirstIssues(t *testing.T) {
	_, err := (&policy.Manifest{}).Strict()
	check.WantCode(t, err, "deployment_unsafe", "version_unknown (version), deployment_id_missing (deploymentId)",
		"mediator deployment audit")
	if strings.Contains(err.Error(), "control_") {
		t.Error("the refusal names everything")
	}
}

func TestDefaultRuntimePolicy(t *testing.T) {
	open := policy.AuditRuntimePolicy(policy.DefaultRuntimePolicy(policy.RuntimePolicy{}))
	wantIssues(t, open,
		"runtime_issuers_missing runtimePolicy.allowedIssuers", "runtime_audiences_missing runtimePolicy.allowedAudiences",
		"runtime_key_ids_missing runtimePolicy.allowedKeyIds",
		"trigger_receipt_issuers_missing runtimePolicy.triggerReceiptPolicy.allowedIssuers",
		"trigger_receipt_audiences_missing runtimePolicy.triggerReceiptPolicy.allowedAudiences",
		"trigger_receipt_key_ids_missing runtimePolicy.triggerReceiptPolicy.allowedKeyIds",
		"trigger_receipt_sources_missing runtimePolicy.triggerReceiptPolicy.allowedSources",
		"origin_proof_issuers_missing runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedIssuers",
		"origin_proof_audiences_missing runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedAudiences",
		"origin_proof_key_ids_missing runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedKeyIds",
		"origin_proof_sources_missing runtimePolicy.triggerReceiptPolicy.originProofPolicy.allowedSources",
		"runtime_policy_hash_missing runtimePolicy.requiredPolicyHash",
		"runtime_environment_hash_missing runtimePolicy.requiredEnvironmentHash",
	)
	fresh := []string{"source_event", "scheduled", "autonomous_policy"}
	check.WantEqual(t, policy.DefaultRuntimePolicy(policy.RuntimePolicy{}), policy.RuntimePolicy{
		AllowedKeyCustody: []string{"external_mediator", "hardware_backed"}, RequireNonExportableKey: true,
		AllowedTriggerKinds: fresh,
		DeniedTriggerKinds:  []string{"human_request", "unknown"}, RequiredMode: "autonomous", MaxAttestationAgeMs: 15_000,
		TriggerReceiptPolicy: policy.ReceiptPolicy{
			AllowedKinds: fresh, RequireEventID: true, MaxReceiptAgeMs: 15_000, RequireOriginProof: true,
			RequireVerifiedOriginProof: true,
			OriginProofPolicy: policy.OriginPolicy{
				AllowedKinds: fresh, RequireEventID: true, RequireEvidenceID: true, MaxProofAgeMs: 15_000,
				AllowedVerificationMethods: []string{"webhook_signature", "scheduler_lock", "policy_engine_decision", "queue_claim",
					"external_attestation"},
			},
		},
	})
	own := policy.DefaultRuntimePolicy(policy.RuntimePolicy{ // required lists stay
		AllowedKeyCustody: []string{"k"}, AllowedTriggerKinds: []string{"a"}, DeniedTriggerKinds: []string{"d"},
		RequiredMode: "m", MaxAttestationAgeMs: 1,
	})
	if own.AllowedKeyCustody[0] != "k" || own.AllowedTriggerKinds[0] != "a" || own.DeniedTriggerKinds[0] != "d" ||
		own.RequiredMode != "m" || own.MaxAttestationAgeMs != 1 {
		t.Errorf("replaced: %+v", own)
	}
	want := policytest.Example(t).RuntimePolicy
	p := want
	p.MaxAttestationAgeMs = 0
	p.TriggerReceiptPolicy.RequireOriginProof = false
	p = policy.DefaultRuntimePolicy(p)
	if !p.TriggerReceiptPolicy.RequireOriginProof || p.MaxAttestationAgeMs != 15_000 {
		t.Errorf("not strict: %+v", p)
	}
	if p.RequiredMode != "autonomous" || !slices.Equal(p.DeniedTriggerKinds, []string{"human_request", "unknown"}) ||
		!slices.Equal(p.AllowedTriggerKinds, []string{"source_event", "scheduled", "autonomous_policy"}) {
		t.Errorf("open to humans: %+v", p)
	}
	wantIssues(t, policy.AuditRuntimePolicy(p))
	p.TriggerReceiptPolicy.AllowedIssuers = p.AllowedIssuers
	wantIssues(t, policy.AuditRuntimePolicy(p), "issuer_shared runtimePolicy.triggerReceiptPolicy.allowedIssuers")
}

func TestStrictAlwaysDemandsProtectedRuntimeKeys(t *testing.T) {
	s, err := policytest.Example(t).Strict()
	check.Must(t, err)
	for name, e := range map[string]struct {
		custody       []string
		nonExportable bool
	}{
		"runtime": {s.Runtime.Custody, s.Runtime.RequireNonExportable},
		"receipt": {s.Receipt.Custody, s.Receipt.RequireNonExportable},
		"origin":  {s.Origin.Custody, s.Origin.RequireNonExportable},
	} {
		if !slices.Equal(e.custody, []string{"external_mediator", "hardware_backed"}) || !e.nonExportable {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
