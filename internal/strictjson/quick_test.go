package strictjson

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzReadQuick: what the quick way takes the slow way takes too, and reads the same.
func FuzzReadQuick(f *testing.F) {
	type Binding struct {
		Action  string `json:"action"`
		Subject string `json:"subject"`
	}
	type grant struct {
		Actions  []string `json:"actions"`
		Audience string   `json:"aud"`
		Expires  int64    `json:"exp"`
	}
	type document struct {
		Binding
		Grant   grant                        `json:"grant"`
		Pointer *map[string]Binding          `json:"pointer"`
		Lists   map[string][]map[string]bool `json:"lists"`
		Number  int64                        `json:"number"`
		Small   int                          `json:"small,omitempty"`
		Raw     json.RawMessage              `json:"raw"`
		Bytes   []byte                       `json:"bytes"`
	}
	for _, text := range []string{
		`{"action":"a","grant":{"actions":["x"],"aud":"y","exp":5},"pointer":{"trigger":{"id":"z"}},"lists":{"a":[{"b":true}]},"number":-1,"raw":[{}],"bytes":"AA=="}`,
		`{"number":9007199254740993}`, `{"number":-0}`, `{"number":1e2}`, `{"small":99999999999999999999}`, `{"raw":{"a":1,"a":2}}`, `{"raw":"\ud800"}`, `{"bytes":"A\nA=="}`,
		`{"grant":{"Actions":[]}}`, `{"action":"\ufffd"}`, ` {} `, `{"lists":{"a":[],"\u0061":[]}}`, `{"raw":1e400}`, `{"raw":null}`, "{\"action\":\"\xff\"}", `{"bytes":"AB=="}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want document
		if !readQuick(raw, &got) {
			if !reflect.DeepEqual(got, document{}) {
				t.Errorf("a refusal left %+v", got)
			}
			return
		}
		if err := parseMembers(raw, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v, %v", got, want, err)
		}
		if checkBounds(raw) != nil {
			return
		}
		if _, err := Canonical(raw); err != nil {
			t.Errorf("it has no canonical form: %v", err)
		}
	})
}
