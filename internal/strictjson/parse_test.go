package strictjson_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
)

func TestParse(t *testing.T) {
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
		if err := strictjson.Parse([]byte(text), &v); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseCanonical(t *testing.T) {
	type value struct {
		Count int      `json:"count"`
		Name  string   `json:"name,omitempty"`
		Tags  []string `json:"tags,omitempty"`
	}
	want := value{Count: 1, Name: "<é>"}
	const canonical = `{"count":1,"name":"<é>"}`
	if text, err := strictjson.CanonicalOf(want); err != nil || string(text) != canonical {
		t.Fatalf("%s, %v", text, err)
	}
	for name, text := range map[string]string{
		"canonical":           canonical,
		"white space":         `{"count": 1,"name":"<é>"}`,
		"a line feed":         canonical + "\n",
		"another order":       `{"name":"<é>","count":1}`,
		"an escape":           `{"count":1,"name":"\u003cé\u003e"}`,
		"another number":      `{"count":1e0,"name":"<é>"}`,
		"a member twice":      `{"count":1,"count":1,"name":"<é>"}`,
		"an unknown member":   `{"count":1,"name":"<é>","other":1}`,
		"a null":              `{"count":1,"name":"<é>","tags":null}`,
		"an empty list":       `{"count":1,"name":"<é>","tags":[]}`,
		"nothing of a member": `{"name":"<é>"}`,
	} {
		var got value
		err := strictjson.ParseCanonical([]byte(text), &got, 100)
		if (err == nil) != (text == canonical) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for most, ok := range map[int]bool{len(canonical): true, len(canonical) - 1: false} {
		var got value
		if err := strictjson.ParseCanonical([]byte(canonical), &got, most); (err == nil) != ok {
			t.Errorf("at most %d bytes: %v", most, err)
		}
	}
	_, err := strictjson.CanonicalOf(make(chan int))
	wantCode(t, err, "content_malformed")
}

func TestParseIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"a number": `{"raw":9007199254740993}`,
		"depth":    `{"raw":` + strings.Repeat("[", strictjson.MaxDepth) + strings.Repeat("]", strictjson.MaxDepth) + `}`,
		"items":    `{"raw":[` + strings.Repeat("1,", strictjson.MaxItems) + `1]}`,
	} {
		var v struct {
			Raw json.RawMessage `json:"raw"`
		}
		wantCode(t, strictjson.Parse([]byte(text), &v), "content_malformed")
		if v.Raw != nil {
			t.Errorf("%s: something was read", name)
		}
	}
}

type word struct{ text string }

func (w *word) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &w.text) }

func TestTypesReadThemselves(t *testing.T) {
	for _, text := range []string{`{"word":"a","addr":"::1"}`, `{"word":"a","addr":"::1","other":null}`} {
		var v struct {
			Word  word       `json:"word"`
			Addr  netip.Addr `json:"addr"`
			Other []string   `json:"other"`
		}
		if err := strictjson.ParseMembers([]byte(text), &v); err != nil || v.Word.text != "a" ||
			v.Addr != netip.IPv6Loopback() {
			t.Errorf("%s: %+v, %v", text, v, err)
		}
	}
	var v struct {
		Addr netip.Addr `json:"addr"`
	}
	if err := strictjson.ParseMembers([]byte(`{"addr":"nowhere"}`), &v); err == nil ||
		!strings.HasSuffix(err.Error(), "addr is malformed") {
		t.Errorf("%v", err)
	}
}

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
		``:                                    "line 1, column 1: the document ends where a value is missing",
		"{\n  \"items\": [\n}":                `line 3, column 1: items[0] lacks a value before "}"`,
		"{\n  \"items\": [}]}":                `line 2, column 13: items[0] lacks a value before "}"`,
		`{} x`:                                "line 1, column 4: the document has text after its value",
		`[]`:                                  "line 1, column 1: the document must be an object",
		"{\"items\":\n[{\"name\":5}]}":        "line 2, column 10: items[0].name must be a text",
		`{"items":[{},{"n":"5"}]}`:            "items[1].n must be a whole number",
		`{"map":{"é":{"on":5}}}`:              `line 1, column 19: map."é".on must be true or false`,
		`{"items":[{"n":5.5}]}`:               "items[0].n must be a whole number",
		`{"items":[{"n":1e30}]}`:              "items[0].n must be a whole number",
		`{"items":[{"on":"true"}]}`:           "items[0].on must be true or false",
		`{"items":[{"raw":"*"}]}`:             "items[0].raw is malformed",
		`{"items":{}}`:                        "items must be a list",
		`{"map":{"a b":{"x":1}}}`:             `map."a b".x is not known`,
		`{"map":{"k":{"name":"a","name":1}}}`: "map.k.name comes twice",
		`{"map":{"` + long + `":1}}`:          "map." + long[:80] + "… must be an object",
		`{"` + long + `":1}`:                  long[:80] + "… is not known",
		"{\"\x1b[2J\":1}": `line 1, column 3: the document has the control character '\x1b' in a ` +
			`string`,
		`{"\u001b[2J":1}`:                          `"\x1b[2J" is not known`,
		"{\"map\":{\n\"k\":{\"name\":\"\xff\"}}}":  "line 2, column 14: map.k.name has a byte that is not UTF-8",
		`{"map":{"k":{"name":"\\\ud800x"}}}`:       "line 1, column 24: map.k.name has half of a surrogate pair",
		`{"a":[{"b":{"c":1}},{"c":1,"\u0063":2}]}`: "line 1, column 28: a[1].c comes twice",
		`{"a":"\ud83dxude00"}`:                     "line 1, column 7: a has half of a surrogate pair",
		`{"a":"\ud83d\ude00\nd800","b":1,"b":2}`:   "b comes twice",
	} {
		var v document
		err := strictjson.Parse([]byte(text), &v)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}

func TestNamesInErrors(t *testing.T) {
	for name, want := range map[string]string{
		"_-09AZaz": "_-09AZaz", "": `""`, strings.Repeat("k", 100): strings.Repeat("k", 100),
		strings.Repeat("k", 101): strings.Repeat("k", 80) + "…",
		"/":                      `"/"`, ":": `":"`, "@": `"@"`, "[": `"["`,
		"`": "\"`\"", "{": `"{"`, ".": `"."`, "é": `"é"`,
	} {
		raw, err := json.Marshal(map[string]int{name: 1})
		check.Must(t, err)
		var v struct{}
		if err := strictjson.Parse(raw, &v); err == nil || !strings.HasSuffix(err.Error(), ": "+want+" is not known") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Promoted is embedded without a name.
type Promoted struct {
	Inherited string `json:"inherited"`
}

// Named is embedded as a member.
type Named struct {
	Own string `json:"own"`
}

type anyCase struct{ text string }

func (a *anyCase) UnmarshalText(text []byte) error {
	a.text = strings.ToLower(string(text))
	return nil
}

type anyForm struct{ raw string }

func (a *anyForm) UnmarshalJSON(raw []byte) error { a.raw = string(raw); return nil }

type strictly struct {
	Promoted
	Named   `json:"named"`
	Plain   string
	Flag    bool           `json:"flag"`
	Count   int            `json:"count"`
	Large   int64          `json:"large"`
	Bytes   []byte         `json:"bytes"`
	Time    time.Time      `json:"time"`
	Text    anyCase        `json:"text"`
	Form    anyForm        `json:"form"`
	Pointer *string        `json:"pointer"`
	Any     map[string]int `json:"any"`
	Skipped string         `json:"-"`
	hidden  string
}

func TestParseMembers(t *testing.T) {
	for text, says := range map[string]string{
		`{"inherited":"a","named":{"own":"b"},"Plain":"c","flag":true,"count":-1,"large":9007199254740993,"bytes":"AQ==",` +
			`"time":"2026-11-20T12:00:00Z","text":"A","pointer":"p","any":{"Z":1}}`: "",
		`{"inherited":null,"flag":null,"count":null,"bytes":null,"pointer":null,"any":` +
			`null}`: "",
		`null`:                          "",
		`{"flag":"true"}`:               "flag must be true or false",
		`{"flag":1}`:                    "flag must be true or false",
		`{"Plain":true}`:                "Plain must be a text",
		`{"Plain":{}}`:                  "Plain must be a text",
		`{"count":"1"}`:                 "count must be a whole number",
		`{"count":1.5}`:                 "count must be a whole number",
		`{"large":1.5}`:                 "large must be a whole number",
		`{"large":true}`:                "large must be a whole number",
		`{"large":9223372036854775808}`: "large must be a whole number",
		`{"Plain":1}`:                   "Plain must be a text",
		`{"named":[]}`:                  "named must be an object",
		`{"any":"a"}`:                   "any must be an object",
		`{"any":{"b":1,"b":2}}`:         "any.b comes twice",
		`{"flag":true,"flag":false}`:    "flag comes twice",
		`{"bytes":"!"}`:                 "bytes is malformed",
		`{"bytes":[1]}`:                 "",
		`{"time":"noon"}`:               "time is malformed",
		`{"form":[{"x":1}]}`:            "",
		`{"text":1}`:                    "text is malformed",
		`{"own":"b"}`:                   "own is not known",
		`{"promoted":{}}`:               "promoted is not known",
		`{"Promoted":{}}`:               "Promoted is not known",
		`{"plain":"c"}`:                 "plain is not known",
		`{"Other":"c"}`:                 "Other is not known",
		`{"-":"c"}`:                     "- is not known",
		`{"Skipped":"c"}`:               "Skipped is not known",
		`{"hidden":"c"}`:                "hidden is not known",
		`[]`:                            "the document must be an object",
		`{} {}`:                         "line 1, column 4: the document has text",
		`{"flag":}`:                     "line 1, column 9: flag lacks a value",
		``:                              "line 1, column 1: the document ends",
	} {
		v := strictly{hidden: "unset"}
		err := strictjson.ParseMembers([]byte(text), &v)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", text, err)
		}
		if v.hidden != "unset" {
			t.Errorf("%s is read into what is no member", text)
		}
	}
	// The replacement character can be read.
	if _, err := strictjson.Canonical([]byte("{\"\ufffd\":1,\"a\":1,\"a\":2}")); err == nil ||
		!strings.Contains(err.Error(), "a comes twice") {
		t.Error(err)
	}
}

func TestMaxItems(t *testing.T) {
	for _, text := range []string{
		"[" + strings.Repeat("0,", strictjson.MaxItems-2) + "0]",
		"[" + strings.Repeat("true,", strictjson.MaxItems-2) + "null]",
		"[" + strings.Repeat("false,", strictjson.MaxItems-2) + "null]",
	} {
		if _, err := strictjson.Canonical([]byte(text)); err != nil {
			t.Errorf("%.20q…: %v", text, err)
		}
		_, err := strictjson.Canonical([]byte("[" + text + "]"))
		wantCode(t, err, "content_malformed")
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var refused *refusal.Refusal
	if !errors.As(err, &refused) || refused.Code() != code {
		t.Errorf("got %v, want code %s", err, code)
	}
}
