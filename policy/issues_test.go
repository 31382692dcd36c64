package policy_test

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

var update = flag.Bool("update", false, "write docs/audit.md")

func everyIssue(t *testing.T) []policy.Issue {
	t.Helper()
	set := func(m *policy.Manifest, list, text string, ms int64) *policy.Manifest {
		for _, f := range leaves(reflect.TypeFor[policy.Manifest](), "", nil) {
			switch v := reflect.ValueOf(m).Elem().FieldByIndex(f.index); v.Kind() {
			case reflect.Slice:
				if v.Type().Elem().Kind() == reflect.String {
					v.Set(reflect.ValueOf([]string{list}))
				}
			case reflect.String:
				v.SetString(text)
			case reflect.Int64:
				v.SetInt(ms)
			}
		}
		return m
	}
	flipped := gatetest.Example(t)
	controls := reflect.ValueOf(&flipped.Controls).Elem()
	for i := range controls.NumField() {
		controls.Field(i).SetBool(!controls.Field(i).Bool())
	}
	differing, none := gatetest.Example(t), gatetest.Example(t)
	differing.AgentSessionReceiptPolicy.RequiredPolicyHash, differing.AgentSessionReceiptPolicy.
		RequiredEnvironmentHash = strings.Repeat("b", 64), strings.Repeat("b", 64)
	none.RuntimePolicy.AllowedTriggerKinds, none.RuntimePolicy.DeniedTriggerKinds = []string{"scheduled"},
		[]string{"human_request", "unknown", "scheduled"}

	early := whole(t)
	early.Version = "1.0"

	seen := make(map[string]bool)
	var all []policy.Issue
	for _, m := range []*policy.Manifest{
		{InteractionReceiptPolicy: &policy.InteractionPolicy{}, AutonomyPolicy: &policy.AutonomyPolicy{},
			AgentStatementPolicy: &policy.StatementPolicy{}, WebBotAuthPolicy: &policy.WebBotAuthPolicy{}},
		set(whole(t), "other", "other", 1<<53), set(whole(t), "mac:other*", "", 1),
		flipped, differing, none, early,
	} {
		for _, i := range m.Audit() {
			if !seen[i.Code] {
				seen[i.Code] = true
				all = append(all, i)
			}
		}
	}
	var order []string
	for _, f := range leaves(reflect.TypeFor[policy.Manifest](), "", nil) {
		order = append(order, f.path)
	}
	slices.SortStableFunc(all, func(a, b policy.Issue) int {
		return slices.Index(order, a.Path) - slices.Index(order, b.Path)
	})
	return all
}

var (
	snakeCase   = regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`)
	oneSentence = regexp.MustCompile(`^[A-Z][^.]*(\.[0-9a-zA-Z][^.]*)*\.$`)
)

func TestIssuesExplainThemselves(t *testing.T) {
	all := everyIssue(t)
	for _, i := range all {
		if !snakeCase.MatchString(i.Code) {
			t.Errorf("the code %s is not in snake case", i.Code)
		}
		if !oneSentence.MatchString(i.Sentence) || !oneSentence.MatchString(i.Mend) || len(i.Sentence) > 200 ||
			len(i.Mend) > 200 {
			t.Errorf("%s is not said in a sentence and mended in another: %q %q", i.Code, i.Sentence, i.Mend)
		}
		if i.Path == "" {
			t.Errorf("%s is nowhere", i.Code)
		}
	}
	controls := 0
	for _, i := range all {
		if strings.HasPrefix(i.Code, "control_") {
			controls++
		}
	}
	if controls != 44 || len(all) < 160 {
		t.Errorf("%d issues are known, %d of them about controls", len(all), controls)
	}
}

// TestDocsAudit compares docs/audit.md; -update writes it.
func TestDocsAudit(t *testing.T) {
	const path = "../docs/audit.md"
	want := auditPage(everyIssue(t))
	if *update {
		check.Must(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	check.Must(t, err)
	if string(got) != want {
		t.Error("docs/audit.md is not what the audit finds: run make docs")
	}
}

func auditPage(issues []policy.Issue) string {
	var controls strings.Builder
	var mends []string
	codes := make(map[string][]string)
	in := make(map[string]int) // how many codes with the same remedy have the same ending
	for _, i := range issues {
		in[i.Mend+ending(i.Code)]++
	}
	for _, i := range issues {
		if name, ok := strings.CutPrefix(i.Path, "controls."); ok {
			controls.WriteString(item("`" + name + "`: " + i.Sentence))
			continue
		}
		if codes[i.Mend] == nil {
			mends = append(mends, i.Mend)
		}
		code := "`" + i.Code + "`"
		if in[i.Mend+ending(i.Code)] > 1 {
			code = "`*_" + ending(i.Code) + "`"
		}
		if !slices.Contains(codes[i.Mend], code) {
			codes[i.Mend] = append(codes[i.Mend], code)
		}
	}
	var others strings.Builder
	for _, mend := range mends {
		others.WriteString(item(mend + " " + strings.Join(codes[mend], ", ")))
	}
	return `# What the audit of a manifest finds

` + "`make docs`" + ` makes this page.

` + "`mediator config check FILE`" + ` lists every safeguard that a manifest lacks: a stable code, the field,
what is wrong, and how to mend it. A manifest with any issue is neither certified nor loaded.

## Controls

The code of a control is ` + "`control_`" + ` and its name in snake case. Each line says what is wrong with the
other value.

` + controls.String() + `
## Policies and bounds

A code names the policy (* below) and the field. Each entry says how to mend its codes. Bounds are in milliseconds.

` + others.String()
}

// policies begin the codes that are about one policy of a manifest.
var policies = regexp.MustCompile(`^(runtime|trigger_receipt|origin_proof|(signer|deployment)_certificate|agent_session|` +
	`policy_decision|action_grant|request_proof|interaction_receipt|autonomy|agent_statement|challenge|capability)_`)

// ending returns a code without the policy that it names.
func ending(code string) string { return policies.ReplaceAllString(code, "") }

func item(text string) string {
	var b strings.Builder
	line := "-"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 120 {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}
