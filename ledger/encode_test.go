package ledger_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// fillAll gives every field of v a value that is not its zero, and each text one that JSON has to escape.
func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))))
			return
		}
		for i := range v.NumField() {
			fillAll(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillAll(v.Index(0))
		fillAll(v.Index(1))
	case reflect.String:
		v.SetString("<a> \"quoted\" \\ \n\x00\u2028 \U0001F600 é")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(-7)
	}
}

// TestEncode: a record is written as encoding/json reads it, with every field that a record has, and without those that are empty.
func TestEncode(t *testing.T) {
	var full, bad ledger.Record
	fillAll(reflect.ValueOf(&full).Elem())
	bad.Reason, bad.Checks = "no UTF-8: \xff", []ledger.Check{{}}
	for name, p := range map[string]ledger.Record{"full": full, "empty": {}, "no UTF-8": bad} {
		t.Run(name, func(t *testing.T) {
			whole, err := p.Whole()
			if err != nil {
				t.Fatal(err)
			}
			reads(t, whole, p)
			record, artifacts, err := p.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if (artifacts == "") != (p.Artifacts == nil) {
				t.Errorf("the artifacts are %s", artifacts)
			}
			if artifacts != "" {
				reads(t, artifacts, p.Artifacts)
			}
			p.Artifacts = nil
			reads(t, record, p)
		})
	}
}

// reads holds text against what encoding/json makes of v: it has to be read in the same way, and have the same members.
func reads[V any](t *testing.T, text string, v V) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("written: %s\nencoding/json: %s", text, raw)
	}
}

// TestEncodeTime: a time that JSON has no text for is no record.
func TestEncodeTime(t *testing.T) {
	_, _, err := ledger.Record{Started: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}.Encode()
	wantUnavailable(t, err, "year outside of range")
}
