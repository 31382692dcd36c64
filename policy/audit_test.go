package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestEachControl(t *testing.T) {
	controls := reflect.TypeFor[policy.Controls]()
	if controls.NumField() != 44 {
		t.Fatalf("there are %d controls", controls.NumField())
	}
	for i := range controls.NumField() {
		name := controls.Field(i).Tag.Get("json")
		t.Run(name, func(t *testing.T) {
			m := gatetest.Example(t)
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
			m := whole(t)
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

func whole(t *testing.T) *policy.Manifest {
	t.Helper()
	m := gatetest.Example(t)
	gatetest.Autonomous(m)
	gatetest.Speaking(m)
	gatetest.Signing(m)
	return m
}

func TestWeakFields(t *testing.T) {
	const (
		receipt = "runtimePolicy.triggerReceiptPolicy."
		origin  = receipt + "originProofPolicy."
		session = "agentSessionReceiptPolicy."
		day     = 24 * 60 * 60 * 1000
	)
	list := func(values ...string) []string { return append([]string{}, values...) }
	hash, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, c := range []struct {
		path  string
		value any
		codes string // each with @path if the issue is about another field; empty if there is none
	}{
		{"version", "2.0", "version_unknown"},
		{"version", "1.0", "autonomy_version agent_statement_version web_bot_auth_version"},
		{"deploymentId", "other", "deployment_id_not_listed@deploymentCertificatePolicy.allowedDeploymentIds"},

		{"grantPolicy.allowedIssuers", list("a", ""), "action_grant_issuers_missing"},
		{"grantPolicy.allowedIssuers", list("mediator-policy"), "issuer_shared"},
		{"autonomyPolicy.allowedIssuers", list("mediator-policy"), "issuer_shared"},
		{"requestProofPolicy.allowedKeyIds", list("runtime-key"), "key_purpose"},
		{"requestProofPolicy.allowedKeyIds", list("runtime-key:v7"), "key_purpose"},
		{"policyDecisionPolicy.allowedKeyIds", list("auditor:v1"), "key_purpose"},
		{"autonomyPolicy.allowedKeyIds", list("interaction-receipt-key:v3"), "key_purpose"},
		{"agentStatementPolicy.allowedKeyIds", list("interaction-receipt-key"), "key_purpose"},
		{"grantPolicy.allowedKeyIds", list("g:v1", "g:v2"), ""},
		{"grantPolicy.allowedKeyIds", list("g/*", "g/a:v2"), ""},
		{"grantPolicy.allowedKeyIds", list("runtime-key/*"), ""},
		{"grantPolicy.allowedKeyIds", list("g*"), "action_grant_key_ids_pattern"},
		{"grantPolicy.allowedKeyIds", list("*/g/*"), "action_grant_key_ids_pattern"},
		{"runtimePolicy.allowedRuntimeIds", list("pod/agents/*"), ""},
		{"runtimePolicy.allowedRuntimeIds", list("/*"), "runtime_runtime_ids_pattern"},
		{session + "allowedRuntimeIds", list("pod/*/1"), "agent_session_runtime_ids_pattern"},
		{"grantPolicy.allowedKeyIds", list("mac:1"), "action_grant_key_ids_shared"},
		{"runtimePolicy.allowedKeyIds", list("runtime-key", "mac:vRq1"), "runtime_key_ids_shared"},
		{"autonomyPolicy.allowedKeyIds", list("mac:1"), "autonomy_key_ids_shared"},

		{receipt + "allowedKinds", list("human_request"), "trigger_receipt_kinds_unsafe"},
		{receipt + "allowedKinds", list("source_events"), "trigger_receipt_kinds_unsafe"},
		{receipt + "allowedKinds", list("scheduled", ""), "trigger_receipt_kinds_missing"},
		{receipt + "allowedKinds", list(), "trigger_receipt_kinds_missing"},
		{origin + "allowedKinds", list("scheduled", "unknown"), "origin_proof_kinds_unsafe"},
		{origin + "allowedVerificationMethods", list("manual"), "origin_proof_methods_unsafe"},
		{origin + "allowedVerificationMethods", list("self_reported"), "origin_proof_methods_unsafe"},
		{session + "allowedInputKinds", list("human_prompt"), "agent_session_input_kinds_unsafe"},
		{session + "deniedInputKinds", list("manual_shell", "unknown"),
			"agent_session_input_kind_human_prompt_not_denied"},
		{"deploymentCertificatePolicy.allowedDeploymentIds", list(), "deployment_certificate_deployment_ids_missing"},
		{"runtimePolicy.allowedRuntimeIds", list(), ""},
		{"runtimePolicy.requiredMode", "interactive", "runtime_mode_unsafe"},
		{"runtimePolicy.requiredMode", "autonomous", ""},
		{"runtimePolicy.allowedTriggerKinds", list("scheduled", "human_request"), "runtime_trigger_kinds_unsafe"},
		{"runtimePolicy.allowedTriggerKinds", list("scheduled", ""), "runtime_trigger_kinds_unsafe"},
		{"runtimePolicy.deniedTriggerKinds", list("scheduled"),
			"runtime_trigger_kind_human_request_not_denied runtime_trigger_kind_unknown_not_denied"},
		{"runtimePolicy.deniedTriggerKinds", list("human_request", "unknown", "source_event", "scheduled",
			"autonomous_policy"), "runtime_trigger_kinds_none@runtimePolicy.allowedTriggerKinds"},

		{"runtimePolicy.allowedKeyCustody", list("agent_process"), "runtime_key_custody_weak"},
		{"runtimePolicy.allowedKeyCustody", list("hardware_backed"), ""},
		{session + "allowedKeyCustody", list("hardware_backed", "file"), "agent_session_key_custody_weak"},
		{session + "allowedKeyCustody", list("hardware_backed", ""), "agent_session_key_custody_weak"},
		{"signerCertificatePolicy.allowedKeyCustody", list("file"), "signer_certificate_key_custody_weak"},
		{"policyDecisionPolicy.allowedKeyCustody", list("file"), "policy_decision_key_custody_weak"},
		{"grantPolicy.allowedKeyCustody", list("file"), "action_grant_key_custody_weak"},
		{"requestProofPolicy.allowedKeyCustody", list("file"), "request_proof_key_custody_weak"},
		{"autonomyPolicy.allowedKeyCustody", list("file"), "autonomy_key_custody_weak"},
		{"agentStatementPolicy.allowedKeyCustody", list("file"), "agent_statement_key_custody_weak"},
		{"webBotAuthPolicy.allowedKeyCustody", list("file"), "web_bot_auth_key_custody_weak"},
		{"webBotAuthPolicy.allowedKeyIds", list("runtime-key"), "key_purpose"},

		{"runtimePolicy.maxAttestationAgeMs", 60_001, "runtime_max_age_over_bound"},
		{"runtimePolicy.maxAttestationAgeMs", 60_000, ""},
		{"runtimePolicy.maxAttestationAgeMs", 1000, ""},
		{receipt + "maxReceiptAgeMs", 60_001, "trigger_receipt_max_age_over_bound"},
		{origin + "maxProofAgeMs", int64(1) << 62, "origin_proof_max_age_over_bound"},
		{session + "maxReceiptAgeMs", 60_001, "agent_session_max_age_over_bound"},
		{"policyDecisionPolicy.maxProofAgeMs", 60_001, "policy_decision_max_age_over_bound"},
		{"grantPolicy.maxProofAgeMs", 60_001, "action_grant_max_age_over_bound"},
		{"requestProofPolicy.maxProofAgeMs", 60_001, "request_proof_max_age_over_bound"},
		{"autonomyPolicy.maxReputationAgeMs", 600_001, "autonomy_max_age_over_bound"},
		{"agentStatementPolicy.maxStatementAgeMs", 60_001, "agent_statement_max_age_over_bound"},
		{"webBotAuthPolicy.maxDirectoryAgeMs", 120_001, "web_bot_auth_max_age_over_bound"},
		{"deploymentCertificatePolicy.maxCertificateAgeMs", 8 * day, "deployment_certificate_max_age_over_bound"},
		{"signerCertificatePolicy.maxCertificateAgeMs", 401 * day, "signer_certificate_max_age_over_bound"},
		{"signerCertificatePolicy.maxRevocationListAgeMs", 7*day + 1, "revocation_list_max_age_over_bound"},
		{"signerCertificatePolicy.maxRevocationListAgeMs", 999, "revocation_list_max_age_missing"},
		{"signerCertificatePolicy.maxRevocationListAgeMs", day, ""},
		{"maxChallengeAgeMs", 60_001, "challenge_max_age_over_bound"},
		{"maxChallengeAgeMs", 60_000, ""},
		{"maxChallengeAgeMs", 1000, ""},
		{"maxChallengeAgeMs", 999, "challenge_max_age_missing"},
		{"capabilityTtlMs", 60_001, "capability_ttl_over_bound"},
		{"maxCapabilityAgeMs", 60_001, "capability_max_age_over_bound"},

		{"runtimePolicy.requiredEnvironmentHash", strings.ToUpper(hash), "runtime_environment_hash_missing " +
			"agent_session_environment_hash_differs@" + session + "requiredEnvironmentHash"},
		{"runtimePolicy.alsoEnvironmentHashes", list(hash, other), ""},
		{"runtimePolicy.alsoEnvironmentHashes", list(hash, "x"), "runtime_also_environment_hash_missing"},
		{"runtimePolicy.alsoEnvironmentHashes", slices.Repeat(list(hash), 9), "runtime_also_environment_hashes_many"},
		{session + "requiredPolicyHash", other, "agent_session_policy_hash_differs"},
		{"autonomyPolicy.scoringHash", strings.ToUpper(hash), "autonomy_scoring_hash_missing"},
		{receipt + "requiredPayloadHash", "x", "trigger_receipt_payload_hash_missing"},
		{receipt + "requiredPayloadHash", hash, ""},
		{receipt + "requiredBindingHash", "x", "trigger_receipt_binding_hash_missing"},
		{origin + "requiredPayloadHash", "x", "origin_proof_payload_hash_missing"},
		{origin + "requiredBindingHash", "x", "origin_proof_binding_hash_missing"},
		{origin + "requiredEvidenceHash", "x", "origin_proof_evidence_hash_missing"},
		{origin + "requiredEvidenceHash", hash, ""},
	} {
		t.Run(fmt.Sprint(c.path, "=", c.value), func(t *testing.T) {
			m := whole(t)
			gatetest.Set(t, m, c.path, c.value)
			var want []string
			for code := range strings.FieldsSeq(c.codes) {
				code, at, elsewhere := strings.Cut(code, "@")
				if !elsewhere {
					at = c.path
				}
				want = append(want, code+" "+at)
			}
			wantIssues(t, m.Audit(), want...)
			s, err := m.Strict()
			if len(want) == 0 {
				check.Must(t, err)
				return
			}
			check.WantCode(t, err, "deployment_unsafe", fmt.Sprintf("%d safeguard", len(want)))
			if s != nil {
				t.Error("an unsafe manifest was made strict")
			}
		})
	}
	for _, shared := range [][2][]string{{list("k/*"), list("k/a:v1")}, {list("k/a", "k/*"), list("k/b")},
		{list("k/*"), list("k/*")}} {
		m := whole(t)
		gatetest.Set(t, m, "grantPolicy.allowedKeyIds", shared[0], "requestProofPolicy.allowedKeyIds", shared[1])
		wantIssues(t, m.Audit(), "key_purpose requestProofPolicy.allowedKeyIds")
	}
	m := whole(t)
	gatetest.Set(t, m, "grantPolicy.allowedIssuers", list("g", ""), "requestProofPolicy.allowedIssuers", list("r", ""))
	wantIssues(t, m.Audit(), "action_grant_issuers_missing grantPolicy.allowedIssuers",
		"request_proof_issuers_missing requestProofPolicy.allowedIssuers")
	for name, edit := range map[string]func(*policy.Manifest){
		"a reputation": gatetest.Autonomous, "a statement": gatetest.Speaking, "a signature": gatetest.Signing,
		"neither": func(*policy.Manifest) {},
	} {
		for version, codes := range map[string][]string{
			"1.1": nil, "1.0": {"autonomy_version version"},
		} {
			m := gatetest.Example(t)
			edit(m)
			switch m.Version = version; {
			case name == "neither":
				codes = nil
			case name == "a statement" && codes != nil:
				codes = []string{"agent_statement_version version"}
			case name == "a signature" && codes != nil:
				codes = []string{"web_bot_auth_version version"}
			}
			wantIssues(t, m.Audit(), codes...)
		}
	}
}

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
		"mediator config check")
	if strings.Contains(err.Error(), "control_") {
		t.Error("the refusal names everything")
	}
}

func TestDefaultRuntimePolicy(t *testing.T) {
	open := policy.AuditRuntimePolicy(policy.DefaultRuntimePolicy(policy.RuntimePolicy{}))
	wantIssues(t, open,
		"runtime_issuers_missing runtimePolicy.allowedIssuers",
		"runtime_audiences_missing runtimePolicy.allowedAudiences",
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
	want := gatetest.Example(t).RuntimePolicy
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
