package evidence_test

import (
	"testing"

	"github.com/actionproof/mediator/evidence"
)

func TestParseStrict(t *testing.T) {
	type inner struct {
		Name string `json:"name"`
	}
	type outer struct {
		inner `json:"inner"`
		List  []inner          `json:"list"`
		Map   map[string]inner `json:"map"`
	}
	for text, ok := range map[string]bool{
		`{"list":[{"name":"a"}],"map":{"Any":{"name":"b"}}}`: true,
		`{}`:                           true,
		`{"List":[]}`:                  false,
		`{"list":[{"Name":"a"}]}`:      false,
		`{"list":[],"LIST":[]}`:        false,
		`{"list":[],"list":[]}`:        false,
		`{"other":1}`:                  false,
		`{} {}`:                        false,
		`{"list":[{"name":"a"},]}`:     false,
		`{"list":[{"name":"\ud800"}]}`: false,
	} {
		var v outer
		if err := evidence.ParseStrict([]byte(text), &v); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
