package accrual_test

import (
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
)

// TestForms: what the schemas of documents and the entries of logs do not show.
func TestForms(t *testing.T) {
	type member struct {
		Time    int64    `json:"time,omitempty" form:"time"`
		Count   int64    `json:"count" form:"count"`
		Rounded float64  `json:"rounded" form:"rounded:3"`
		Dispute string   `json:"dispute,omitempty" form:"dispute"`
		One     string   `json:"one,omitempty" form:"a|b"`
		Texts   []string `json:"texts,omitempty" form:"text:2 most:2 sorted"`
	}
	type whole struct {
		Inside member   `json:"inside"`
		List   []member `json:"list"`
		Free   string   `json:"free"`
	}
	for name, c := range map[string]struct {
		of member
		ok bool
	}{
		"nothing":              {member{}, true},
		"all":                  {member{1, 0, 3, "dsp_0123456789abcdef0123456789abcdef", "b", []string{"é", "éé"}}, true},
		"a time before 1":      {member{Time: -1}, false},
		"a count below 0":      {member{Count: -1}, false},
		"a number above":       {member{Rounded: 3.000001}, false},
		"a number of 7 digits": {member{Rounded: 0.0000001}, false},
		"a short dispute":      {member{Dispute: "dsp_0"}, false},
		"another word":         {member{One: "a|b"}, false},
		"a long text":          {member{Texts: []string{"éée"}}, false},
		"an empty text":        {member{Texts: []string{""}}, false},
		"many texts":           {member{Texts: []string{"a", "b", "c"}}, false},
		"texts in disorder":    {member{Texts: []string{"b", "a"}}, false},
		"a text twice":         {member{Texts: []string{"a", "a"}}, false},
	} {
		for place, of := range map[string]any{"alone": c.of, "by a pointer": &c.of, "inside": whole{Inside: c.of},
			"in a list": whole{List: []member{{}, c.of}}} {
			if err := accrual.CheckForm(of); (err == nil) != c.ok {
				t.Errorf("%s, %s: %v", name, place, err)
			}
		}
	}
}
