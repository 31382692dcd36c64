package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestExamples(t *testing.T) {
	m := gatetest.Example(t)
	if issues := m.Audit(); len(issues) != 0 {
		t.Errorf("the example manifest has issues: %v", issues)
	}
	if issues := policy.AuditRuntimePolicy(m.RuntimePolicy); len(issues) != 0 {
		t.Errorf("its runtime policy has issues: %v", issues)
	}
	rules, err := decide.ParseRules(configs.Policy())
	check.Must(t, err)
	if got := m.RuntimePolicy.RequiredPolicyHash; got != rules.Hash() {
		t.Errorf("the example manifest pins policy %s, but the example policy file has hash %s", got, rules.Hash())
	}
}

// TestVersion10IsAsBefore: version 1.1 changes no hash of 1.0.
func TestVersion10IsAsBefore(t *testing.T) {
	m := gatetest.Example(t)
	text, err := m.Canonical()
	check.Must(t, err)
	if m.Version != "1.0" || strings.Contains(text, "autonomy") || strings.Contains(text, "agentStatement") {
		t.Errorf("%s", text)
	}
	check.WantEqual(t, m.Hash(), "311c1b843213c125e6ad2ed34d08e6b9009555ec5739fdb41c3a03cc1fb52f5b")
	gatetest.Autonomous(m)
	if strings.Contains(jsonOf(t, m), "requireVerification") || strings.Contains(jsonOf(t, m), "egraded") {
		t.Errorf("a manifest of 1.1 that asks for no verification names it: %s", jsonOf(t, m))
	}
	gatetest.Speaking(m)
	whole, err := policy.ParseManifest([]byte(jsonOf(t, m)))
	check.Must(t, err)
	check.WantEqual(t, whole, m)
}

func TestSeedNames(t *testing.T) {
	var doc map[string]any
	check.Must(t, json.Unmarshal([]byte(jsonOf(t, gatetest.Example(t))), &doc))
	for path, names := range map[string]string{
		"": "version deploymentId runtimePolicy deploymentCertificatePolicy " +
			"agentSessionReceiptPolicy requestProofPolicy maxChallengeAgeMs capabilityTtlMs maxCapabilityAgeMs controls",
		"runtimePolicy": "allowedIssuers allowedAudiences allowedKeyIds maxAttestationAgeMs " +
			"requiredPolicyHash requiredEnvironmentHash triggerReceiptPolicy",
		"runtimePolicy." +
			"triggerReceiptPolicy": "allowedIssuers allowedKeyIds allowedKinds allowedSources requireEventId maxReceiptAgeMs " +
			"requireOriginProof requireVerifiedOriginProof originProofPolicy",
		"runtimePolicy.triggerReceiptPolicy." +
			"originProofPolicy": "allowedIssuers allowedKeyIds allowedKinds allowedSources allowedVerificationMethods " +
			"requireEventId requireEvidenceId maxProofAgeMs",
		"deploymentCertificatePolicy": "allowedIssuers allowedAudiences allowedKeyIds " +
			"allowedDeploymentIds maxCertificateAgeMs",
		"agentSessionReceiptPolicy": "allowedIssuers allowedAudiences allowedKeyIds " +
			"allowedRuntimeIds allowedInputKinds deniedInputKinds requireChallengeId requireBindingHash requireNoHumanPrompt " +
			"requireNoHumanOperator denyUserShellAccess denyUserAccessibleAgentEnvironment allowedKeyCustody " +
			"requireNonExportableKey requiredPolicyHash requiredEnvironmentHash maxReceiptAgeMs",
		"requestProofPolicy": "allowedIssuers allowedAudiences allowedKeyIds " +
			"allowedKeyCustody requireNonExportableKey requireBindingHash requireCapabilityId maxProofAgeMs",
		"signerCertificatePolicy": "allowedIssuers allowedAudiences allowedKeyIds " +
			"allowedKeyCustody requireNonExportableKey denyAgentAccessible denyUserAccessible requireSubjectPublicKeyHash",
	} {
		at := doc
		for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
			at = at[step].(map[string]any)
		}
		for name := range strings.FieldsSeq(names) {
			if _, ok := at[name]; !ok {
				t.Errorf("%s lacks the seed's %s", path, name)
			}
		}
	}
	if n := len(doc["controls"].(map[string]any)); n != 44 {
		t.Errorf("there are %d controls, not the seed's 44", n)
	}
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	check.Must(t, err)
	return string(raw)
}

func TestHashIsOfTheMeaning(t *testing.T) {
	m := gatetest.Example(t)
	want := m.Hash()
	for name, change := range map[string]func(*policy.Manifest){
		"a control":   func(m *policy.Manifest) { m.Controls.ConsumeCapability = false },
		"an issuer":   func(m *policy.Manifest) { m.GrantPolicy.AllowedIssuers = []string{"other"} },
		"an optional": func(m *policy.Manifest) { m.RuntimePolicy.AllowedRuntimeIDs = nil },
		"an order": func(m *policy.Manifest) {
			k := m.RuntimePolicy.TriggerReceiptPolicy.AllowedKinds
			k[0], k[1] = k[1], k[0]
		},
		"a millisecond": func(m *policy.Manifest) { m.CapabilityTTLMs++ },
	} {
		other := gatetest.Example(t)
		change(other)
		if other.Hash() == want {
			t.Errorf("%s does not change the hash", name)
		}
		if (other.ControlsHash() == m.ControlsHash()) != (name != "a control") {
			t.Errorf("%s: the hash of the controls is of something else", name)
		}
	}
}

func TestParseManifest(t *testing.T) {
	m := gatetest.Example(t)
	text := jsonOf(t, m)
	indented, err := json.MarshalIndent(m, "", "\t")
	check.Must(t, err)
	for _, same := range []string{text, string(indented), text + strings.Repeat(" ", policy.MaxFile-len(text))} {
		got, err := policy.ParseManifest([]byte(same))
		check.Must(t, err)
		check.WantEqual(t, got, m)
	}
	replace := func(from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("the example lacks %q", from)
		}
		return strings.Replace(text, from, to, 1)
	}
	for name, raw := range map[string]string{
		"unknown key":         replace(`{`, `{"surprise":1,`),
		"key in another case": replace(`"deploymentId"`, `"deploymentID"`),
		"duplicate key":       replace(`{`, `{"deploymentId":"other",`),
		"missing key":         replace(`"consumeCapability":true,`, ``),
		"null":                replace(`"consumeCapability":true`, `"consumeCapability":null`),
		"another type":        replace(`"maxChallengeAgeMs":15000`, `"maxChallengeAgeMs":"15000"`),
		"optional but empty":  replace(`"allowedRuntimeIds":["worker-1"]`, `"allowedRuntimeIds":[]`),
		"second document":     text + text,
		"too large":           text + strings.Repeat(" ", policy.MaxFile),
		"YAML":                "version: \"1.0\"",
		"nothing":             "",
	} {
		got, err := policy.ParseManifest([]byte(raw))
		check.WantCode(t, err, "config_malformed")
		if got != nil {
			t.Errorf("%s: a malformed manifest was given back", name)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(jsonOf(f, gatetest.Example(f))))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := policy.ParseManifest(raw)
		if err != nil {
			check.WantCode(t, err, "config_malformed")
			return
		}
		m.Audit()
		again, err := policy.ParseManifest([]byte(jsonOf(t, m)))
		check.Must(t, err)
		if m.Hash() == "" || again.Hash() != m.Hash() {
			t.Errorf("hash %q, written again %q", m.Hash(), again.Hash())
		}
	})
}
