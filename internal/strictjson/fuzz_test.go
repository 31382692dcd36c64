package strictjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
)

// FuzzCanonical: two other libraries agree, except over a bound.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"b":1,"a":[true,null,"\u00e9"]}`, `1e21`, `-1e-7`, `"\ud83d\ude00"`, `{"":0}`, ` {} `,
		`{"\ue000":1,"\ud83d\ude00":{"z":[],"a":{}}}`,
		`{"a":[],"\u0061":[]}`, `"\ud800"`, `"\"\\\/\b\f\n\r\t\u000b"`, `[1,]`, `01`, `-`, `1.`, `tru`, "\"\xff\"",
		`{"a":1}}`, `9007199254740993`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := strictjson.Canonical(raw)
		other := jsontext.Value(bytes.Clone(raw))
		if refused := other.Canonicalize(); err == nil && (refused != nil || !bytes.Equal(once, other)) {
			t.Errorf("%q: %q, and %q, %v", raw, once, other, refused)
		} else if err != nil {
			if refused == nil && !strings.Contains(err.Error(), "the number ") &&
				!strings.Contains(err.Error(), " than ") {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		again, err := strictjson.Canonical(once)
		if err != nil || !bytes.Equal(once, again) {
			t.Errorf("%q becomes %q and then %q, %v", raw, once, again, err)
		}
		if want, err := jcs.Transform(raw); err != nil || !bytes.Equal(once, want) {
			t.Errorf("%q: %q, %v", once, want, err)
		}
	})
}

// FuzzParseMembers: encoding/json agrees.
func FuzzParseMembers(f *testing.F) {
	type Embedded struct{ Pair *[2]int }
	type document struct {
		Embedded
		Next     *document                    `json:"next"`
		Any      any                          `json:"any"`
		Binding  evidence.Binding             `json:"binding"`
		Envelope *evidence.Envelope           `json:"envelope"`
		Lists    map[string][]map[string]bool `json:"lists"`
		N        int64                        `json:"n"`
		Raw      json.RawMessage              `json:"raw"`
		Bytes    []byte                       `json:"bytes"`
	}
	f.Add([]byte(
		`{"binding":{"subject":"s"},"envelope":{"response":{"answers":{"t1":"a"}}},"lists":{"a":[{"b":true}]},"n":1,"raw":` +
			`[{}],"bytes":"AA=="}`))
	f.Add([]byte("{\"binding\":null,\n\"binding\":{}}"))
	f.Add([]byte(`{"n":5.0}`))
	f.Add([]byte(`{"Pair":[1,-2],"next":{"Pair":null,"next":null,"lists":{"a":[]}},"any":{"b":[1e3]}}`))
	f.Add([]byte(`{"raw":"\ud800"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want document
		if err := strictjson.ParseMembers(raw, &got); err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("it says %d bytes", len(err.Error()))
			}
			if strictjson.Parse(raw, &got) == nil {
				t.Error("ParseStrict accepts what ParseMembers refuses")
			}
			return
		}
		if err := json.Unmarshal(raw, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v, %v", got, want, err)
		}
		again, err := json.Marshal(got)
		check.Must(t, err)
		if err := strictjson.ParseMembers(again, new(document)); err != nil {
			t.Errorf("%s is refused: %v", again, err)
		}
	})
}
