package policy_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

func everything() policy.Held {
	var h policy.Held
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return h
}

func TestAssessClaimsOnlyTheWholeChain(t *testing.T) {
	if a := policy.Assess(everything()); !a.OK || a.Claim != "controlled_autonomous_path" || len(a.Issues) != 0 {
		t.Errorf("everything held: %+v", a)
	}
	issues := make(map[string]bool)
	for i := range reflect.TypeFor[policy.Held]().NumField() {
		name := reflect.TypeFor[policy.Held]().Field(i).Name
		t.Run("without "+name, func(t *testing.T) {
			h := everything()
			reflect.ValueOf(&h).Elem().Field(i).SetBool(false)
			a := policy.Assess(h)
			if a.OK || a.Claim == policy.ClaimControlledPath || len(a.Issues) != 1 {
				t.Fatalf("got %+v", a)
			}
			issues[a.Issues[0]] = true
			if want := policy.ClaimFreshWork; h.FreshWork && h.SingleUseConsumed && a.Claim != want {
				t.Errorf("the claim is %s, not %s", a.Claim, want)
			}
			if (!h.FreshWork || !h.SingleUseConsumed) && a.Claim != policy.ClaimNone {
				t.Errorf("the claim is %s", a.Claim)
			}
		})
	}
	if len(issues) != reflect.TypeFor[policy.Held]().NumField() {
		t.Errorf("parts share an issue: %v", issues)
	}
}

func TestThreats(t *testing.T) {
	want := map[string]string{ // the parts that cover it, in the order of Held
		"stolen_token": "RequestProof SingleUseConsumed", "replay": "FreshWork SingleUseConsumed",
		"altered_content":      "FreshWork RequestProof",
		"stale_or_copied_work": "FreshWork", "human_trigger": "TriggerEvidence PolicyDecision",
		"invented_trigger":   "TriggerEvidence Grant",
		"human_in_session":   "RuntimeAttested SessionReceipt",
		"stolen_signing_key": "DeploymentAudit RuntimeAttested SessionReceipt Grant",
		"unapproved_action":  "PolicyDecision Grant", "unsafe_deployment": "DeploymentAudit", "human_identity": "",
	}
	got := make(map[string]string)
	for _, threat := range policy.Assess(policy.Held{}).Threats {
		got[threat.Name] = ""
	}
	for i := range reflect.TypeFor[policy.Held]().NumField() {
		h := everything()
		reflect.ValueOf(&h).Elem().Field(i).SetBool(false)
		for _, threat := range policy.Assess(h).Threats {
			if threat.Name != "human_identity" && !threat.Covered {
				got[threat.Name] = strings.TrimSpace(got[threat.Name] + " " +
					reflect.TypeFor[policy.Held]().Field(i).Name)
			}
		}
	}
	check.WantEqual(t, got, want)
	nothing := policy.Assess(policy.Held{})
	for i, covered := range policy.Assess(everything()).Threats {
		if nothing.Threats[i].Covered {
			t.Errorf("%s is covered by nothing", covered.Name)
		}
		if covered.NotCovered == "" || covered.Covered != (covered.By != "") {
			t.Errorf("%s does not say what covers it and what does not: %+v", covered.Name, covered)
		}
	}
}

func TestNonHumanIdentityIsNeverProven(t *testing.T) {
	for _, h := range []policy.Held{{}, everything()} {
		a := policy.Assess(h)
		var doc map[string]any
		check.Must(t, json.Unmarshal([]byte(jsonOf(t, a)), &doc))
		if a.NonHumanIdentityProven() || doc["nonHumanIdentityProven"] != false {
			t.Errorf("%+v", doc)
		}
		if doc["claim"] != a.Claim || doc["ok"] != a.OK || doc["threats"] == nil {
			t.Errorf("the report lacks something: %v", doc)
		}
	}
	if _, ok := reflect.TypeFor[policy.Assurance]().FieldByName("NonHumanIdentityProven"); ok {
		t.Error("it can be set")
	}
}
