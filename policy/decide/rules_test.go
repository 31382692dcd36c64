package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
)

func file(rules ...string) string {
	var b strings.Builder
	b.WriteString("version: \"1.0\"\nrules:\n")
	for _, r := range rules {
		parts := strings.SplitN(r, " ", 3)
		fmt.Fprintf(&b, "  - {name: %s, effect: %s, when: %q}\n", parts[0], parts[1], parts[2])
	}
	if len(rules) == 0 {
		b.WriteString("  []\n")
	}
	return b.String()
}

func TestParseRulesRefuses(t *testing.T) {
	condition := func(c string) string { return file("r allow " + c) }
	for name, c := range map[string]struct {
		raw  string
		want []string
	}{
		"misspelt variable": {condition(`request.metod == "POST"`),
			[]string{
				"line 3, column 36: rules[0].when: (r) does not compile, at line 1 column 8 of the " +
					"condition: undeclared reference to 'request.metod'"}},
		"every misspelt one": {condition(`foo && bar`), []string{"'foo'", "'bar'"}},
		"in the second line": {"version: \"1.0\"\nrules:\n  - name: r\n    when: |\n      true &&\n      nonsense\n",
			[]string{"line 4, column 11: rules[0].when: (r)", "at line 2 column 1 of the condition"}},
		"wrong types": {condition(`request.size > "a"`),
			[]string{"no matching overload for '_>_' applied to '(int, string)'"}},
		"not a boolean":   {condition(`request.size`), []string{"is of type int; it must be true or false"}},
		"dynamic":         {condition(`dyn(true)`), []string{"is of type dyn"}},
		"mixed list":      {condition(`request.method in ["POST", 1]`), []string{"rules[0].when"}},
		"empty condition": {condition(` `), []string{"is empty"}},
		"loop: exists": {condition(`["a"].exists(x, x == request.method)`),
			[]string{"undeclared reference to 'exists'"}},
		"loop: all": {condition(`["a"].all(x, x == request.method)`),
			[]string{"undeclared reference to 'all'"}},
		"loop: map":              {condition(`["a"].map(x, x).size() > 0`), []string{"undeclared reference to 'map'"}},
		"bad regular expression": {condition(`request.path.matches("(")`), []string{"invalid matches argument"}},
		"bad duration":           {condition(`now + duration("1 day") > now`), []string{"invalid duration argument"}},
		"too long": {condition(`request.path == "` + strings.Repeat("a", 5000) + `"`),
			[]string{"rules[0].when"}},
		"too deep": {condition(strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300)),
			[]string{"rules[0].when"}},
		"one level too deep": {condition(nested(64)), []string{"expression recursion limit exceeded: 64"}},
		"unknown effect": {file("r maybe true"),
			[]string{`line 3, column 23: rules[0].effect: must be allow or deny, not "maybe"`}},
		"empty effect": {"version: \"1.0\"\nrules: [{name: r, effect: \"\", when: \"true\"}]",
			[]string{"rules[0].effect: may be left out, but not be empty"}},
		"condition that is true": {"version: \"1.0\"\nrules: [{name: r, when: true}]",
			[]string{"rules[0].when: must be a text, in quotes"}},
		"unknown key": {"version: \"1.0\"\nrules: [{name: r, when: \"true\", then: deny}]",
			[]string{"line 2, column 33: rules[0].then: is not known"}},
		"missing condition": {"version: \"1.0\"\nrules: [{name: r}]", []string{"rules[0].when: is missing"}},
		"missing rules":     {"version: \"1.0\"", []string{"rules: is missing"}},
		"other version": {strings.Replace(file("r allow true"), "1.0", "2.0", 1),
			[]string{`version: must be "1.0"`}},
		"bad name": {file("R/1 allow true"), []string{"line 3, column 12: rules[0].name: must match"}},
		"name twice": {file("r allow true", "r deny false"),
			[]string{`line 4, column 12: rules[1].name: is "r", like that of an earlier rule`}},
		"too many":        {file(many(257)...), []string{"at most 256"}},
		"too large":       {file("r allow true") + strings.Repeat("#", 256<<10), []string{"at most 262144 are read"}},
		"second document": {file("r allow true") + "---\n" + file("r allow true"), []string{"second document"}},
		"all that is wrong": {file("a allow foo", "b deny bar", "c maybe true"),
			[]string{"rules[0]", "rules[1]", "rules[2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := decide.ParseRules([]byte(c.raw))
			check.WantCode(t, err, "config_malformed", c.want...)
			if r != nil {
				t.Error("malformed rules were given back")
			}
		})
	}
}

func nested(levels int) string {
	return strings.Repeat("(true && ", levels) + "true" + strings.Repeat(")", levels)
}

func TestFindingsAreCut(t *testing.T) {
	for n, more := range map[int]string{200: "", 201: "and 1 more"} {
		rules := many(n)
		for i := range rules {
			rules[i] = "R" + rules[i]
		}
		_, err := decide.ParseRules([]byte(file(rules...)))
		if check.WantCode(t, err, "config_malformed", "rules[199].name", more); more == "" &&
			strings.Contains(err.Error(), " more") {
			t.Error("there is nothing more to say")
		}
	}
	for _, raw := range []string{file(many(256)...), file("r allow " + nested(60))} { // just within the bounds
		_, err := decide.ParseRules([]byte(raw))
		check.Must(t, err)
	}
}

func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("r%d allow true", i)
	}
	return out
}

func TestRulesDecide(t *testing.T) {
	// Forty regular expressions over a long path exceed the cost of one evaluation.
	costly := strings.TrimSuffix(
		strings.Repeat(`request.path.matches("^(/p|/q|/r|/s|/t|/u|/v|/w)+(a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t)*$") || `,
			40), " || ")
	for name, c := range map[string]struct {
		rules string
		path  string
		code  string // "" allows
		want  string // the rule that allowed, or part of the error
	}{
		"one allows": {rules: file("yes allow true"), want: "yes"},
		"allow is the default": {rules: "version: \"1.0\"\nrules: [{name: yes-by-default, when: \"true\"}]",
			want: "yes-by-default"},
		"the first that allows is named": {rules: file("no allow false", "first allow true", "second allow true"),
			want: "first"},
		"no rules": {rules: file(), code: "policy_denied",
			want: "no rule allows create_post on POST /posts"},
		"none allows": {rules: file("no allow false"), code: "policy_denied", want: "no rule allows"},
		"deny wins": {rules: file("yes allow true", "never deny true"), code: "policy_denied",
			want: "the rule never denies create_post"},
		"a deny that does not hold": {rules: file("never deny false", "yes allow true"), want: "yes"},
		"denying alone allows nothing": {rules: file("never deny false"), code: "policy_denied",
			want: "no rule allows"},
		"an error in a deny denies": {rules: file("broken deny 1 / (request.size - 7) == 1", "yes allow true"),
			code: "policy_error", want: "the rule broken"},
		"an error in an allow denies": {rules: file("broken allow 1 / (request.size - 7) == 1", "yes allow true"),
			code: "policy_error", want: "the rule broken"},
		"an unknown time zone denies": {rules: file(`broken deny now.getHours("Atlantis/Here") == 1`, "yes allow true"),
			code: "policy_error", want: "the rule broken"},
		"cost within the limit": {rules: file("costly deny !(" + costly + ")"), path: "/p", code: "policy_denied",
			want: "no rule allows"},
		"cost over the limit denies": {rules: file("costly allow " + costly), path: "/p" + strings.Repeat("0", 1500),
			code: "policy_error",
			want: "the rule costly cannot be evaluated, so the call is denied: operation cancelled: actual " +
				"cost limit exceeded"},
		"the example allows a post": {rules: string(configs.Policy()), want: "verified-events"},
		"the example denies cleartext": {rules: string(configs.Policy()), path: "/cleartext", code: "policy_denied",
			want: "the rule no-cleartext"},
		"the example denies what is large": {rules: string(configs.Policy()), path: "/large", code: "policy_denied",
			want: "the rule no-huge-posts"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.rules)
			d, err := w.decide(w.request(func(r *request) {
				if c.path != "" {
					r.Call.Path, r.Binding.Resource = c.path, "POST "+c.path
				}
				switch c.path {
				case "/large":
					r.Call.Size = 5 << 20
				case "/cleartext":
					r.Call.Scheme = "http"
				}
			}))
			if c.code != "" {
				check.WantCode(t, err, c.code, c.want)
				return
			}
			check.Must(t, err)
			check.WantEqual(t, d.Rule, c.want)
		})
	}
}

func TestRulesHashIsOfTheMeaning(t *testing.T) {
	hash := func(raw string) string {
		t.Helper()
		r, err := decide.ParseRules([]byte(raw))
		check.Must(t, err)
		return r.Hash()
	}
	want := hash(
		"version: \"1.0\"\nrules:\n  - name: a\n    when: request.size > 1\n  - {name: b, effect: " +
			"deny, when: 'now == " + "now'}\n")
	for name, same := range map[string]string{
		"JSON": `{"rules": [{"when": "request.size > 1", "name": "a", "effect": "allow"}, {"name": "b",` +
			` "when": "now == now", "effect": "deny"}], "version": "1.0"}`,
		"block scalars": "# a comment\nversion: '1.0'\nrules:\n  - when: |\n      request.size > 1\n    name: a\n  - " +
			"effect: deny\n    name: b\n    when: >-\n      now ==\n      now\n",
		"the effect said": "version: \"1.0\"\nrules:\n  - {name: a, effect: allow, when: request.size " +
			"> 1}\n  - {name: b, effect: deny, when: now == now}\n",
	} {
		if hash(same) != want {
			t.Errorf("%s: the hash depends on how the file is written", name)
		}
	}
	for name, other := range map[string]string{
		"an effect":     file("a allow request.size > 1", "b allow now == now"),
		"a condition":   file("a allow request.size > 2", "b deny now == now"),
		"a name":        file("c allow request.size > 1", "b deny now == now"),
		"the order":     file("b deny now == now", "a allow request.size > 1"),
		"one rule less": file("a allow request.size > 1"),
	} {
		if hash(other) == want {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

func FuzzParseRules(f *testing.F) {
	f.Add(configs.Policy())
	f.Add([]byte(file("r allow request.method == 'POST'")))
	f.Add([]byte(file(`r deny [1, "a"].exists(x, dyn(x) == now)`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decide.ParseRules(raw)
		if err != nil {
			check.WantCode(t, err, "config_malformed")
			return
		}
		if !evidence.IsHash(r.Hash()) {
			t.Errorf("the hash is %q", r.Hash())
		}
	})
}
