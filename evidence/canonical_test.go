package evidence

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/gowebpki/jcs"
)

// fill gives every field of v a value, so that every member of the claims is written.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("a<b>&\"c,}]{[\\\u00e9\U0001F600 \t\x01")
	case reflect.Int64:
		v.SetInt(1_800_000_000)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("a claim of kind " + v.Kind().String() + ": teach encode and this test about it")
	}
}

// encode returns what canonical writes.
func encode(claims any) (raw []byte, err error) {
	err = canonical(claims, func(b []byte) { raw = bytes.Clone(b) })
	return raw, err
}

// TestEncodeIsCanonical holds encode against an independent RFC 8785 canonicaliser, for every kind with every member set.
func TestEncodeIsCanonical(t *testing.T) {
	for _, claims := range []any{
		&TriggerOriginProof{}, &TriggerReceipt{}, &RuntimeAttestation{}, &SessionReceipt{}, &PolicyDecision{}, &ActionGrant{},
		&RequestProof{}, &RevocationList{}, &SignerCertificate{}, &DeploymentCertificate{}, &ChallengeToken{}, &Capability{}, &Binding{}, &header{},
	} {
		t.Run(reflect.TypeOf(claims).Elem().Name(), func(t *testing.T) {
			fill(reflect.ValueOf(claims).Elem())
			got, err := encode(claims)
			if err != nil {
				t.Fatal(err)
			}
			want, err := jcs.Transform(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("not canonical:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// TestEncodeFindsTheEndOfAText, whatever stands before its last quote.
func TestEncodeFindsTheEndOfAText(t *testing.T) {
	for text, want := range map[string]string{
		`x`: `{"a":"x","b":"x"}`, `\`: `{"a":"\\","b":"\\"}`, `\"`: `{"a":"\\\"","b":"\\\""}`, `\\`: `{"a":"\\\\","b":"\\\\"}`, `",`: `{"a":"\",","b":"\","}`,
	} {
		v := struct {
			B string `json:"b"`
			A string `json:"a"`
		}{text, text}
		if got, err := encode(v); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// TestEncodeOtherValues: what is no object is left as it is, and what JSON does not know is refused.
func TestEncodeOtherValues(t *testing.T) {
	for want, v := range map[string]any{`{}`: struct{}{}, `"{b,a}"`: "{b,a}", `["b","a"]`: []string{"b", "a"}, `1`: 1} {
		if got, err := encode(v); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if got, err := encode(func() {}); got != nil || !errors.Is(err, Refuse("claims_malformed", "")) {
		t.Errorf("%s, %v", got, err)
	}
}
