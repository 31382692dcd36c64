package evidence_test

import (
	"strings"
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

// TestErrorsSayWhere: an operator or an agent is told the line, the column and the member, and no value.
func TestErrorsSayWhere(t *testing.T) {
	type item struct {
		Name string `json:"name"`
		N    int64  `json:"n"`
		On   bool   `json:"on"`
		Raw  []byte `json:"raw"`
	}
	type document struct {
		Items []item          `json:"items"`
		Map   map[string]item `json:"map"`
	}
	long := strings.Repeat("k", 1<<20)
	for text, want := range map[string]string{
		``:                                         "line 1, column 1: unexpected end of JSON input",
		"{\n  \"items\": [\n}":                     "line 3, column 1: invalid character '}' looking for beginning of value",
		"{\n  \"items\": [}]}":                     "line 2, column 13: invalid character '}' looking for beginning of value",
		`{} x`:                                     "line 1, column 4: invalid character 'x' after top-level value",
		`[]`:                                       "line 1, column 1: the document must be an object",
		"{\"items\":\n[{\"name\":5}]}":             "line 2, column 10: items[0].name must be a text",
		`{"items":[{},{"n":"5"}]}`:                 "items[1].n must be a whole number",
		`{"items":[{"n":5.5}]}`:                    "items[0].n must be a whole number",
		`{"items":[{"n":1e30}]}`:                   "items[0].n must be a whole number",
		`{"items":[{"on":"true"}]}`:                "items[0].on must be true or false",
		`{"items":[{"raw":"*"}]}`:                  "items[0].raw is malformed",
		`{"items":{}}`:                             "items must be a list",
		`{"map":{"a b":{"x":1}}}`:                  `map."a b".x is not known`,
		`{"map":{"k":{"name":"a","name":1}}}`:      "map.k.name comes twice",
		`{"map":{"` + long + `":1}}`:               "map." + long[:80] + "… must be an object",
		`{"` + long + `":1}`:                       long[:80] + "… is not known",
		"{\"\x1b[2J\":1}":                          "line 1, column 3: invalid character '\\x1b' in string literal",
		`{"\u001b[2J":1}`:                          `"\x1b[2J" is not known`,
		"{\"map\":{\n\"k\":{\"name\":\"\xff\"}}}":  "line 2, column 14: there is a byte that is not UTF-8",
		`{"map":{"k":{"name":"\\\ud800x"}}}`:       "line 1, column 24: there is half of a surrogate pair",
		`{"a":[{"b":{"c":1}},{"c":1,"\u0063":2}]}`: "a[1].c comes twice",
	} {
		var v document
		err := evidence.ParseStrict([]byte(text), &v)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}
