package ledgertest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// fill gives every field of v a value that is not its zero, and each text one that JSON has to escape.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)))
			return
		}
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
		v.SetString("<a> \"quoted\" \\ \n\x00\u2028 \U0001F600 é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(7)
	default:
		v.SetInt(7)
	}
}

func wantConsumed(t *testing.T, err error, id string) {
	t.Helper()
	var c *ledger.ConsumedError
	if !errors.As(err, &c) || c.Key.ID != id || c.Code() != "replayed" {
		t.Errorf("got %v, want key %s refused as consumed", err, id)
	}
}
