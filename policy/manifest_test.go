package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/policytest"
)

func TestExamples(t *testing.T) {
	m := policytest.Example(t)
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

func TestParseManifestRefuses(t *testing.T) {
	replace := func(from, to string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, from) {
				t.Fatalf("the example lacks %q", from)
			}
			return strings.Replace(s, from, to, 1)
		}
	}
	add := func(line string) func(string) string { return func(s string) string { return line + "\n" + s } }
	for name, c := range map[string]struct {
		change func(string) string
		want   []string // in the sentence
	}{
		"unknown key":             {add("surprise: 1"), []string{"line 1, column 1: surprise: is not known"}},
		"unknown key below":       {replace("maxProofAgeMs: 15000\n", "maxProofAgeMs: 15000\n      maxproofagems: 1\n"), []string{"runtimePolicy.triggerReceiptPolicy.originProofPolicy.maxproofagems: is not known"}},
		"key in another case":     {replace("deploymentId:", "deploymentID:"), []string{"deploymentID: is not known", "deploymentId: is missing"}},
		"missing key":             {replace("consumeCapability: true", ""), []string{"controls.consumeCapability: is missing"}},
		"missing object":          {replace("grantPolicy:", "grantPolicies:"), []string{"grantPolicies: is not known", "grantPolicy: is missing"}},
		"duplicate key":           {add("deploymentId: other"), []string{"deploymentId: is there twice"}},
		"merge key":               {add("<<: {deploymentId: other}"), []string{"line 1, column 1: <<: is not known"}},
		"second document":         {func(s string) string { return s + "\n---\n" + s }, []string{"second document"}},
		"no document":             {func(string) string { return "# nothing\n" }, nil},
		"not an object":           {func(string) string { return "[1, 2]" }, []string{"line 1, column 1: the file: must be keys with values, not a list"}},
		"yes":                     {replace("proofRequiredForPost: true", "proofRequiredForPost: yes"), []string{`controls.proofRequiredForPost: must be true or false, not "yes"`}},
		"on":                      {replace("consumeCapability: true", "consumeCapability: on"), []string{`must be true or false, not "on"`}},
		"True":                    {replace("consumeCapability: true", "consumeCapability: True"), []string{`must be true or false, not "True"`}},
		"quoted boolean":          {replace("consumeCapability: true", `consumeCapability: "true"`), []string{`must be true or false`}},
		"null boolean":            {replace("consumeCapability: true", "consumeCapability:"), []string{`must be true or false, not ""`}},
		"tagged boolean":          {replace("consumeCapability: true", "consumeCapability: !!bool true"), []string{"a tag"}},
		"number as text":          {replace(`version: "1.0"`, "version: 1.0"), []string{"version: must be a text"}},
		"text as number":          {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 15s"), []string{`maxChallengeAgeMs: must be a whole number in decimal digits, from 0 to 9223372036854775807, not "15s"`}},
		"fraction":                {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 1.5"), []string{"must be a whole number"}},
		"one number too large":    {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 9223372036854775808"), nil},
		"quoted number":           {replace("maxChallengeAgeMs: 15000", `maxChallengeAgeMs: "15000"`), []string{"maxChallengeAgeMs: must be a whole number"}},
		"octal":                   {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 015000"), []string{"must be a whole number"}},
		"underscore":              {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 15_000"), []string{"must be a whole number"}},
		"negative":                {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: -15000"), []string{"must be a whole number"}},
		"number beyond 64 bits":   {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 99999999999999999999"), nil},
		"text for a list":         {replace("allowedIssuers: [mediator-runtime]", "allowedIssuers: mediator-runtime"), []string{"runtimePolicy.allowedIssuers: must be a list"}},
		"list for a text":         {replace("deploymentId: posting-dev", "deploymentId: [posting-dev]"), []string{"deploymentId: must be a single value"}},
		"null in a list":          {replace("allowedIssuers: [mediator-runtime]", "allowedIssuers: [~]"), []string{"runtimePolicy.allowedIssuers[0]: must be a text"}},
		"anchor":                  {replace("deploymentId: posting-dev", "deploymentId: &id posting-dev"), []string{"deploymentId: has an anchor"}},
		"optional but empty":      {replace("allowedRuntimeIds: [worker-1]", "allowedRuntimeIds: []"), []string{"runtimePolicy.allowedRuntimeIds: may be left out, but not be empty"}},
		"optional but false":      {replace("maxAttestationAgeMs:", "requireNonExportableKey: false\n  maxAttestationAgeMs:"), []string{"requireNonExportableKey: may be left out, but not be empty or false"}},
		"too large":               {func(s string) string { return s + strings.Repeat("#", 256<<10) }, []string{"at most 262144 are read"}},
		"invalid UTF-8":           {replace("posting-dev", "\"\xff\""), nil},
		"not YAML":                {func(string) string { return "a: [1\nb" }, []string{"line 3, column 1: this is no YAML"}},
		"nested without end":      {func(string) string { return strings.Repeat("[", 100_000) }, nil},
		"a bomb of aliases":       {func(string) string { return "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nversion: *c\n" }, []string{"version: has an anchor, an alias or a tag"}},
		"all that is wrong, once": {func(string) string { return "version: 1\ncontrols: {consumeCapability: yes}\n" }, []string{"line 1, column 10: version: must", "line 2, column 31: controls.consumeCapability: must", "line 2, column 11: controls.atomicConsumptionWithPost: is missing", "line 1, column 1: runtimePolicy: is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.ParseManifest([]byte(c.change(string(configs.Manifest()))))
			check.WantCode(t, err, "config_malformed", c.want...)
			if m != nil {
				t.Error("a malformed manifest was given back")
			}
		})
	}
}

// TestManifestAtItsLimits: the largest file is read, and zero is a number, whatever the audit says of it.
func TestManifestAtItsLimits(t *testing.T) {
	raw := strings.Replace(string(configs.Manifest()), "maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 0", 1) + "\n#"
	m, err := policy.ParseManifest([]byte(raw + strings.Repeat("#", 256<<10-len(raw))))
	check.Must(t, err)
	if m.MaxChallengeAgeMs != 0 || len(m.Audit()) != 1 {
		t.Errorf("%d, %v", m.MaxChallengeAgeMs, m.Audit())
	}
}

func TestFindingsBearTheirLine(t *testing.T) {
	lines := strings.Split(string(configs.Manifest()), "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "atomicConsumptionWithPost:") {
			lines[i] = "  atomicConsumptionWithPost: no"
			_, err := policy.ParseManifest([]byte(strings.Join(lines, "\n")))
			check.WantCode(t, err, "config_malformed", "line "+jsonOf(t, i+1)+", column 30: controls.atomicConsumptionWithPost")
			return
		}
	}
	t.Fatal("the example has no such line")
}

func TestHashIsOfTheMeaning(t *testing.T) {
	m := policytest.Example(t)
	compact := []byte(jsonOf(t, m))
	want, err := evidence.HashJSON(compact)
	check.Must(t, err)
	indented, err := json.MarshalIndent(m, "", "\t")
	check.Must(t, err)
	yaml := string(configs.Manifest())
	for name, raw := range map[string]string{
		"as it is": yaml, "JSON": string(compact), "indented JSON": string(indented),
		"with comments": "# one more\n" + strings.ReplaceAll(yaml, "allowedIssuers: [mediator-runtime]", "allowedIssuers:\n    - 'mediator-runtime' # the sidecar"),
		"controls first": func() string {
			i := strings.Index(yaml, "controls:")
			return yaml[i:] + yaml[:i]
		}(),
	} {
		got, err := policy.ParseManifest([]byte(raw))
		check.Must(t, err)
		check.WantEqual(t, got, m)
		if got.Hash() != want || got.ControlsHash() != m.ControlsHash() {
			t.Errorf("%s: the hash depends on how the file is written", name)
		}
	}
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
		other := policytest.Example(t)
		change(other)
		if other.Hash() == want {
			t.Errorf("%s does not change the hash", name)
		}
		if (other.ControlsHash() == m.ControlsHash()) != (name != "a control") {
			t.Errorf("%s: the hash of the controls is of something else", name)
		}
	}
}

// TestVersion10IsAsBefore: what came with version 1.1 stands in no manifest of 1.0, and changes no hash of one. The hash is that which the example had
// before there was a 1.1.
func TestVersion10IsAsBefore(t *testing.T) {
	m := policytest.Example(t)
	text, err := m.Canonical()
	check.Must(t, err)
	if m.Version != "1.0" || strings.Contains(text, "autonomy") || strings.Contains(text, "agentStatement") {
		t.Errorf("%s", text)
	}
	check.WantEqual(t, m.Hash(), "311c1b843213c125e6ad2ed34d08e6b9009555ec5739fdb41c3a03cc1fb52f5b")
	policytest.WithAutonomy(m)
	if strings.Contains(jsonOf(t, m), "requireVerification") || strings.Contains(jsonOf(t, m), "egraded") {
		t.Errorf("a manifest of 1.1 that asks for no verification names it: %s", jsonOf(t, m))
	}
	policytest.WithStatements(policytest.WithAutonomy(m))
	whole, err := policy.ParseManifest([]byte(jsonOf(t, m)))
	check.Must(t, err)
	check.WantEqual(t, whole, m)
}

// TestSeedNames holds the manifest against the names in the seed's deployment object.
func TestSeedNames(t *testing.T) {
	var doc map[string]any
	check.Must(t, json.Unmarshal([]byte(jsonOf(t, policytest.Example(t))), &doc))
	for path, names := range map[string]string{
		"":                                   "version deploymentId runtimePolicy deploymentCertificatePolicy agentSessionReceiptPolicy requestProofPolicy maxChallengeAgeMs capabilityTtlMs maxCapabilityAgeMs controls",
		"runtimePolicy":                      "allowedIssuers allowedAudiences allowedKeyIds maxAttestationAgeMs requiredPolicyHash requiredEnvironmentHash triggerReceiptPolicy",
		"runtimePolicy.triggerReceiptPolicy": "allowedIssuers allowedKeyIds allowedKinds allowedSources requireEventId maxReceiptAgeMs requireOriginProof requireVerifiedOriginProof originProofPolicy",
		"runtimePolicy.triggerReceiptPolicy.originProofPolicy": "allowedIssuers allowedKeyIds allowedKinds allowedSources allowedVerificationMethods requireEventId requireEvidenceId maxProofAgeMs",
		"deploymentCertificatePolicy":                          "allowedIssuers allowedAudiences allowedKeyIds allowedDeploymentIds maxCertificateAgeMs",
		"agentSessionReceiptPolicy":                            "allowedIssuers allowedAudiences allowedKeyIds allowedRuntimeIds allowedInputKinds deniedInputKinds requireChallengeId requireBindingHash requireNoHumanPrompt requireNoHumanOperator denyUserShellAccess denyUserAccessibleAgentEnvironment allowedKeyCustody requireNonExportableKey requiredPolicyHash requiredEnvironmentHash maxReceiptAgeMs",
		"requestProofPolicy":                                   "allowedIssuers allowedAudiences allowedKeyIds allowedKeyCustody requireNonExportableKey requireBindingHash requireCapabilityId maxProofAgeMs",
		"signerCertificatePolicy":                              "allowedIssuers allowedAudiences allowedKeyIds allowedKeyCustody requireNonExportableKey denyAgentAccessible denyUserAccessible requireSubjectPublicKeyHash",
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

func FuzzParseManifest(f *testing.F) {
	f.Add(configs.Manifest())
	f.Add([]byte("{}"))
	f.Add([]byte("version: \"1.0\"\ncontrols: {a: &a [*a]}\n"))
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
