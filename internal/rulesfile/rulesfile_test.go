package rulesfile_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/rulesfile"
	"github.com/actionproof/mediator/test/check"
)

func TestMerge(t *testing.T) {
	const rules = "egress:\n  - name: new   # read\n    match: {url: \"https://b.example/**\", methods: [GET]}\n"
	const added = "  - name: new # read\n    match: {url: \"https://b.example/**\", methods: [GET]}\n"
	for name, tt := range map[string]struct{ file, want string }{
		"after the last item, with its comments": {
			"# top\negress:   # reads\n  - name: old   # its own\n    match: {a: b}\n    # of old\n\n# of the " +
				"rest\nstate: x\n",
			"# top\negress:   # reads\n  - name: old   # its own\n    match: {a: b}\n    # of old\n" + added +
				"\n# of the rest\nstate: x\n"},
		"at the margin": {"egress:\n- name: old\nstate: x", "egress:\n- name: old\n" +
			strings.ReplaceAll(added[2:], "\n  ", "\n") + "state: x\n"},
		"a key that is not there": {"state: x # y\n", "state: x # y\n\negress:\n" + added},
		"an empty list":           {"egress: []\nstate: x\n", "egress:\n" + added + "state: x\n"},
		"no value":                {"egress:\n\nstate: x\n", "egress:\n" + added + "\nstate: x\n"},
		"after a rule with a purpose": {"egress:\n  - name: old\n    comment: why\n    owner: ann # of the team\n    " +
			"expires: 2027-01-31\n    match: {a: b}\n",
			"egress:\n  - name: old\n    comment: why\n    owner: ann # of the team\n    expires: 2027-01-31\n    " +
				"match: {a: b}\n" + added},
		"a list in brackets": {"egress: [{name: old}]\nstate: x\n", "egress:\n  - {name: old}\n" + added +
			"state: x\n"},
		"what is there already": {"egress:\n  - {name: new, match: {methods: [GET], url: \"https://b.example/**\"}}\n",
			""},
		"a text of several lines": {"egress:\n  - name: |\n      # no comment\n\n      x\n",
			"egress:\n  - name: |\n      # no comment\n\n      x\n" + added},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rulesfile.Merge([]byte(tt.file), []byte(rules))
			check.Must(t, err)
			want := tt.want
			if want == "" {
				want = tt.file
			}
			if string(got) != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	for name, tt := range map[string][2]string{
		"one line":             {"{egress: []}", rules},
		"another key":          {"state: x", "state: y"},
		"no list":              {"state: x", "egress: y"},
		"no rules":             {"state: x", ""},
		"an alias in the list": {"a: &a [x]\negress: *a\n", rules},
	} {
		if got, err := rulesfile.Merge([]byte(tt[0]), []byte(tt[1])); err == nil {
			t.Errorf("%s: got %s", name, got)
		} else {
			check.WantCode(t, err, "config_malformed")
		}
	}
}

// FuzzMerge checks that a merge adds a rule and changes nothing else.
func FuzzMerge(f *testing.F) {
	f.Add("egress:\n  - a\n# c\nb: |\n  x\n", "x")
	f.Add("? egress\n: - a\n---\n", "#")
	f.Add("egress: !!seq\n- a\n...\n", "- ")
	f.Fuzz(func(t *testing.T, file, host string) {
		rules, err := yaml.Dump(map[string][]string{"deny": {host}})
		check.Must(t, err)
		got, err := rulesfile.Merge([]byte(file), rules)
		if err != nil {
			return
		}
		if again, err := rulesfile.Merge(got, rules); err != nil || string(again) != string(got) {
			t.Errorf("%q and %q: %q, then %q, %v", file, host, got, again, err)
		}
	})
}
