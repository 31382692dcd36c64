package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/actionproof/mediator/evidence/internal/codec"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

func fill(v reflect.Value) { fillWith("a<b>&\"c,}]{[\\\u00e9\u2028\U0001F600 \t\x01", v) }

func fillPlain(v reflect.Value) { fillWith("a plain text", v) }

func fillWith(text string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillWith(text, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillWith(text, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillWith(text, v.Index(0))
		fillWith(text, v.Index(1))
	case reflect.String:
		v.SetString(text)
	case reflect.Int64:
		v.SetInt(1_800_000_000)
	case reflect.Float64:
		v.SetFloat(-1.25e-7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("a claim of kind " + v.Kind().String() + ": teach codec.New and this test about it")
	}
}

func encode(claims any) ([]byte, error) {
	return codec.New(reflect.TypeOf(claims).Elem()).Encode(claims, 0)
}

func everyClaims() []any {
	return []any{
		&TriggerOriginProof{}, &TriggerReceipt{}, &RuntimeAttestation{}, &SessionReceipt{}, &PolicyDecision{},
		&ActionGrant{},
		&RequestProof{}, &RevocationList{}, &SignerCertificate{}, &DeploymentCertificate{}, &ChallengeToken{},
		&Capability{},
		&Binding{}, &header{},
		&measured{},
	}
}

type measured struct {
	Mean  float64   `json:"mean"`
	Parts []float64 `json:"parts"`
}

// TestEncodeIsCanonical compares with encoding/json and an independent canonicaliser.
func TestEncodeIsCanonical(t *testing.T) {
	for _, claims := range everyClaims() {
		t.Run(reflect.TypeOf(claims).Elem().Name(), func(t *testing.T) {
			for _, fill := range []func(reflect.Value){func(reflect.Value) {}, fill} {
				fill(reflect.ValueOf(claims).Elem())
				got, err := encode(claims)
				check.Must(t, err)
				raw, err := json.Marshal(claims)
				check.Must(t, err)
				want, err := jcs.Transform(raw)
				check.Must(t, err)
				if string(got) != string(want) {
					t.Errorf("not canonical:\n got %s\nwant %s", got, want)
				}
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, n := range []int64{1 << 53, -1 << 53, math.MaxInt64, math.MinInt64} {
		if got, err := encode(&Registered{IssuedAt: n}); got != nil ||
			!errors.Is(err, refusal.New("artifact_malformed", "")) {
			t.Errorf("%d: %s, %v", n, got, err)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)} {
		if got, err := encode(&measured{Parts: []float64{1, f}}); got != nil ||
			!errors.Is(err, refusal.New("artifact_malformed", "")) {
			t.Errorf("%v: %s, %v", f, got, err)
		}
	}
	for _, text := range []string{"\xff", "\xed\xa0\x80"} {
		for _, v := range []any{&text, &[]string{"a", text}, &header{Kid: text},
			&Capability{Session: &SessionSummary{SessionID: text}}} {
			if got, err := encode(v); got != nil || !errors.Is(err, refusal.New("artifact_malformed", "")) {
				t.Errorf("%q: %s, %v", text, got, err)
			}
		}
	}
}

func TestSpellRefuses(t *testing.T) {
	for _, v := range []any{float32(1.5), uint8(1), map[string]string{}, [2]int64{}, struct{ F func() }{}, []any{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T has a codec", v)
				}
			}()
			codec.New(reflect.TypeOf(v))
		}()
	}
}

// FuzzDecode: what is read is written the same, and an independent reader agrees.
func FuzzDecode(f *testing.F) {
	for _, claims := range everyClaims() {
		for _, fill := range []func(reflect.Value){func(reflect.Value) {}, fill, fillPlain} {
			fill(reflect.ValueOf(claims).Elem())
			raw, err := encode(claims)
			check.Must(f, err)
			f.Add(string(raw))
			f.Add(string(raw[:len(raw)/2]))
		}
	}
	for _, text := range []string{`{"actions":]}`, `{"iat":-}`, `{"iat":01}`, `{"observed":[]}`, `{"answers":null}`,
		`{"binding":{},}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range everyClaims() {
			s := codec.New(reflect.TypeOf(got).Elem())
			if s.Decode([]byte(text), got) != nil {
				continue
			}
			if back, err := encode(got); err != nil || string(back) != text {
				t.Errorf("%q is read, and written as %s, %v", text, back, err)
			}
			want := reflect.New(reflect.TypeOf(got).Elem()).Interface()
			again, err := json.Marshal(got)
			check.Must(t, err)
			if err := json.Unmarshal([]byte(text), want); err != nil {
				t.Errorf("%q is read, and encoding/json says %v", text, err)
			}
			if same, err := json.Marshal(want); err != nil || !bytes.Equal(again, same) {
				t.Errorf("%s\n got %+v\nwant %+v, %v", text, got, want, err)
			}
		}
	})
}

func TestDoubles(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", -1.5: "-1.5", 0.1: "0.1", 1.0 / 3: "0.3333333333333333", 1e20: "100000000000000000000",
		1e21: "1e+21", 1e-6: "0.000001",
		1e-7: "1e-7", 5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308", 1<<53 + 2: "9007199254740994",
	} {
		text := `{"mean":` + want + `,"parts":[` + want + `]}`
		if got, err := encode(&measured{f, []float64{f}}); err != nil || string(got) != text {
			t.Errorf("%s, %v; want %s", got, err, text)
		}
		var back measured
		if codec.New(reflect.TypeFor[measured]()).Decode([]byte(text), &back) != nil || back.Mean != f {
			t.Errorf("%s is read as %v", text, back)
		}
	}
	for _, spelling := range []string{"-0", "1.0", "1e0", "0.10", "1E-7", "1e21", "1e400", "0.33333333333333331", "NaN"} {
		if codec.New(reflect.TypeFor[measured]()).Decode([]byte(`{"mean":`+spelling+`,"parts":[]}`), &measured{}) == nil {
			t.Errorf("%s is read", spelling)
		}
	}
}
