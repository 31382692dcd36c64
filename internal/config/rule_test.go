package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/test/check"
)

// TestPurposes reads what rules are for, and refuses what says nothing.
func TestPurposes(t *testing.T) {
	for keys, says := range map[string]string{
		"comment: why\n    owner: ann\n    expires: 2027-01-31": "",
		"expires: \"2027-01-31T09:00:00+02:00\"":                "",
		"expires: 2027-02-30":                                   `must be a date such as 2027-01-31, or a time`,
		"expires: tomorrow":                                     `actions[0].expires: must be a date such as 2027-01-31`,
		"expires: 2027-01-31T09:00:00":                          "or a time such as 2027-01-31T09:00:00Z, not",
		"expires: 1970-01-01":                                   "must be a date",
		"expires: 14d":                                          "must be a date",
		"expires: [2027-01-31]":                                 "must be a single value, not a list",
		"owner: {name: ann}":                                    "must be a single value",
		"owner: " + strings.Repeat("a", 201):                    "actions[0].owner: has 201 bytes; at most 200 are allowed",
		"comment: " + strings.Repeat("a", 501):                  "actions[0].comment: has 501 bytes; at most 500 are allowed",
		"expire: 2027-01-31": "actions[0].expire: is not known; did you mean " +
			"expires?",
	} {
		_, err := Load[Sidecar](write(t, strings.Replace(correctSidecar, "subject: agent", keys+"\n    subject: agent",
			1)))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", keys, err, says)
		}
	}
}

// TestRulesThatExpire warns from 14 days before the end of a rule.
func TestRulesThatExpire(t *testing.T) {
	c, err := Load[Sidecar](write(t, strings.NewReplacer("    subject: agent",
		"    expires: 2027-01-31\n    owner: ann\n    subject: agent", "name: reads",
		"name: reads\n    expires: 2027-02-02T12:00:00Z").Replace(correctSidecar)))
	check.Must(t, err)
	for at, want := range map[string]string{
		"2027-01-16T23:59:59Z": "",
		"2027-01-17T00:00:00Z": "actions[0].expires: the rule post expires at 2027-01-31T00:00:00Z; its owner is ann " +
			"(rule_expires)",
		"2027-02-01T00:00:00Z": "actions[0].expires: the rule post expired at 2027-01-31T00:00:00Z; its owner is ann " +
			"(rule_expired)\negress[0].expires: the rule reads expires at 2027-02-02T12:00:00Z (rule_expires)",
	} {
		now, err := time.Parse(time.RFC3339, at)
		check.Must(t, err)
		var got []string
		for _, w := range c.judgeRules(now) {
			got = append(got, w.String())
		}
		check.WantEqual(t, strings.Join(got, "\n"), want)
	}
	p := c.Actions[0].Purpose()
	if err := p.Check("post", p.Expires.Add(-time.Second)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	check.WantCode(t, p.Check("post", p.Expires), "rule_expired")
}

// TestCheckedPurposes has a check of the file keep what a rule is for, and say it.
func TestCheckedPurposes(t *testing.T) {
	checked, err := CheckFile(write(t, strings.Replace(correctSidecar, "    subject: agent",
		"    comment: why\n    expires: 2020-01-31\n    owner: ann\n    subject: agent", 1)), true)
	check.Must(t, err)
	want := match.Purpose{Comment: "why", Owner: "ann", Expires: time.Date(2020, 1, 31, 0, 0, 0, 0, time.UTC)}
	check.WantEqual(t, checked.Sidecar.Actions[0].Purpose(), want)
	check.WantEqual(t, fmt.Sprint(checked.Warnings),
		"[actions[0].expires: the rule post expired at 2020-01-31T00:00:00Z; its owner is ann (rule_expired)]")
}

func FuzzTime(f *testing.F) {
	for _, text := range []string{"2027-01-31", "2027-01-31T09:00:00+02:00", "0000-01-01", "9999-12-31T23:59:60Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var first, again Time
		if first.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(first.Time().Format(time.RFC3339))); err != nil || again != first ||
			first <= 0 {
			t.Errorf("%q is %d, and its text %d, %v", text, first, again, err)
		}
	})
}

func FuzzSplitEndpoint(f *testing.F) {
	for _, text := range []string{"unix:/run/a.sock", "unix:a,7", "https://a:1", "https://[::1]:1,file.yaml",
		"https://:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, file, ok := SplitEndpoint(text)
		if ok && ((at.Unix == "") == (at.TCP == "") || at.Unix != "" && file != "") {
			t.Errorf("%q is %+v and %q", text, at, file)
		}
	})
}
