package manifest_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestParseRefuses(t *testing.T) {
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
		"unknown key": {add("surprise: 1"), []string{"line 1, column 1: surprise: is not known"}},
		"unknown key below": {replace("maxProofAgeMs: 15000\n", "maxProofAgeMs: 15000\n      maxproofagems: 1\n"),
			[]string{"runtimePolicy.triggerReceiptPolicy.originProofPolicy.maxproofagems: is not known"}},
		"key in another case": {replace("deploymentId:", "deploymentID:"),
			[]string{"deploymentID: is not known", "deploymentId: is missing"}},
		"missing key": {replace("consumeCapability: true", ""),
			[]string{"controls.consumeCapability: is missing"}},
		"missing object": {replace("grantPolicy:", "grantPolicies:"),
			[]string{"grantPolicies: is not known", "grantPolicy: is missing"}},
		"duplicate key":   {add("deploymentId: other"), []string{"deploymentId: is there twice"}},
		"merge key":       {add("<<: {deploymentId: other}"), []string{"line 1, column 1: <<: is not known"}},
		"second document": {func(s string) string { return s + "\n---\n" + s }, []string{"second document"}},
		"no document":     {func(string) string { return "# nothing\n" }, nil},
		"not an object": {func(string) string {
			return "[1, 2]"
		}, []string{"line 1, column 1: the file: must be keys with values, not a list"}},
		"yes": {replace("proofRequiredForPost: true", "proofRequiredForPost: yes"),
			[]string{`controls.proofRequiredForPost: must be true or false, not "yes"`}},
		"on": {replace("consumeCapability: true", "consumeCapability: on"),
			[]string{`must be true or false, not "on"`}},
		"True": {replace("consumeCapability: true", "consumeCapability: True"),
			[]string{`must be true or false, not "True"`}},
		"quoted boolean": {replace("consumeCapability: true", `consumeCapability: "true"`),
			[]string{`must be true or false`}},
		"null boolean": {replace("consumeCapability: true", "consumeCapability:"),
			[]string{`must be true or false, not ""`}},
		"tagged boolean": {replace("consumeCapability: true", "consumeCapability: !!bool true"), []string{"a tag"}},
		"number as text": {replace(`version: "1.0"`, "version: 1.0"), []string{"version: must be a text"}},
		"text as number": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 15s"),
			[]string{`maxChallengeAgeMs: must be a whole number in decimal digits, from 0 to 9223372036854775807, not "15s"`}},
		"fraction": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 1.5"),
			[]string{"must be a whole number"}},
		"one number too large": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 9223372036854775808"), nil},
		"quoted number": {replace("maxChallengeAgeMs: 15000", `maxChallengeAgeMs: "15000"`),
			[]string{"maxChallengeAgeMs: must be a whole number"}},
		"octal": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 015000"),
			[]string{"must be a whole number"}},
		"underscore": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 15_000"),
			[]string{"must be a whole number"}},
		"negative": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: -15000"),
			[]string{"must be a whole number"}},
		"number beyond 64 bits": {replace("maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 99999999999999999999"), nil},
		"text for a list": {replace("allowedIssuers: [mediator-runtime]", "allowedIssuers: mediator-runtime"),
			[]string{"runtimePolicy.allowedIssuers: must be a list"}},
		"list for a text": {replace("deploymentId: posting-dev", "deploymentId: [posting-dev]"),
			[]string{"deploymentId: must be a single value"}},
		"null in a list": {replace("allowedIssuers: [mediator-runtime]", "allowedIssuers: [~]"),
			[]string{"runtimePolicy.allowedIssuers[0]: must be a text"}},
		"anchor": {replace("deploymentId: posting-dev", "deploymentId: &id posting-dev"),
			[]string{"deploymentId: has an anchor"}},
		"optional but empty": {replace("allowedRuntimeIds: [worker-1]", "allowedRuntimeIds: []"),
			[]string{"runtimePolicy.allowedRuntimeIds: may be left out, but not be empty"}},
		"optional but false": {replace("maxAttestationAgeMs:",
			"requireNonExportableKey: false\n  maxAttestationAgeMs:"),
			[]string{"requireNonExportableKey: may be left out, but not be empty or false"}},
		"too large": {func(s string) string {
			return s + strings.Repeat("#", 256<<10)
		}, []string{"at most 262144 are read"}},
		"invalid UTF-8":      {replace("posting-dev", "\"\xff\""), nil},
		"not YAML":           {func(string) string { return "a: [1\nb" }, []string{"line 3, column 1: this is not YAML"}},
		"nested without end": {func(string) string { return strings.Repeat("[", 100_000) }, nil},
		"a bomb of aliases": {func(string) string {
			return "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nversion: *c\n"
		}, []string{"version: has an anchor, an alias or a tag"}},
		"all that is wrong, once": {func(string) string {
			return "version: 1\ncontrols: {consumeCapability: yes}\n"
		}, []string{"line 1, column 10: version: must", "line 2, column 31: controls.consumeCapability: must",
			"line 2, column 11: controls.atomicConsumptionWithPost: is missing",
			"line 1, column 1: runtimePolicy: is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse([]byte(c.change(string(configs.Manifest()))))
			check.WantCode(t, err, "config_malformed", c.want...)
			if m != nil {
				t.Error("a malformed manifest was given back")
			}
		})
	}
}

func TestAtItsLimits(t *testing.T) {
	raw := strings.Replace(string(configs.Manifest()), "maxChallengeAgeMs: 15000", "maxChallengeAgeMs: 0", 1) + "\n#"
	m, err := manifest.Parse([]byte(raw + strings.Repeat("#", 256<<10-len(raw))))
	check.Must(t, err)
	if m.MaxChallengeAgeMs != 0 || len(m.Audit()) != 1 {
		t.Errorf("%d, %v", m.MaxChallengeAgeMs, m.Audit())
	}
}

func TestSpellings(t *testing.T) {
	m := gatetest.Example(t)
	compact, err := json.Marshal(m)
	check.Must(t, err)
	yaml := string(configs.Manifest())
	for name, raw := range map[string]string{
		"as it is": yaml, "JSON": string(compact),
		"with comments": "# one more\n" +
			strings.ReplaceAll(yaml, "allowedIssuers: [mediator-runtime]",
				"allowedIssuers:\n    - 'mediator-runtime' # the sidecar"),
		"controls first": func() string {
			i := strings.Index(yaml, "controls:")
			return yaml[i:] + yaml[:i]
		}(),
	} {
		got, err := manifest.Parse([]byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check.WantEqual(t, got, m)
	}
}

func TestEachLineOfTheExample(t *testing.T) {
	lines := strings.Split(string(configs.Manifest()), "\n")
	key := regexp.MustCompile(`^( *)([a-zA-Z]+):( *[^ #].*)?$`)
	n := 0
	for i, line := range lines {
		m := key.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n++
		indent, name, value := m[1], m[2], strings.TrimSpace(strings.Split(m[3], "  #")[0])
		with := func(replacement ...string) string {
			return strings.Join(slices.Replace(slices.Clone(lines), i, i+1, replacement...), "\n")
		}
		refuses := func(file string, at int, says string) {
			t.Helper()
			_, err := manifest.Parse([]byte(file))
			found := regexp.MustCompile(`(?m)^(the manifest is malformed: )?line (\d+), column \d+: ([^:]*\.)?` + says)
			var where []string
			if err != nil {
				where = found.FindStringSubmatch(err.Error())
			}
			if where == nil || at > 0 && where[2] != fmt.Sprint(at) {
				t.Errorf("line %d, %s: got %v, want line %d: %s", i+1, name, err, at, says)
			}
		}
		refuses(with(indent+name+"X:"+m[3]), i+1, name+"X: is not known")
		if value == "" {
			continue // an object
		}
		wrong := map[bool]string{true: "{a: b}", false: "[[a]]"}[strings.HasPrefix(value, "[")]
		refuses(with(indent+name+": "+wrong), i+1, name+`(\[0\])?: must be`)
		refuses(with(line, line), i+2, name+": is there twice")
		if name != "allowedRuntimeIds" || indent != "  " || i > slices.Index(lines, "signerCertificatePolicy:") {
			refuses(with(), 0, name+": is missing")
		}
	}
	if n < 120 {
		t.Errorf("only %d keys were found", n)
	}
}
func FuzzParse(f *testing.F) {
	f.Add(configs.Manifest())
	f.Add([]byte("{}"))
	f.Add([]byte("version: \"1.0\"\ncontrols: {a: &a [*a]}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := manifest.Parse(raw)
		if err != nil {
			check.WantCode(t, err, "config_malformed")
			return
		}
		text, err := m.Canonical()
		check.Must(t, err)
		again, err := policy.ParseManifest([]byte(text))
		check.Must(t, err)
		check.WantEqual(t, again, m)
	})
}
