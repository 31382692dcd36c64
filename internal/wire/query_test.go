package wire_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/actionproof/mediator/internal/wire"
)

func FuzzQueryNames(f *testing.F) {
	f.Add("page=2&token&a%5B0%5D=1;b=2&%zz=1")
	f.Fuzz(func(t *testing.T, query string) {
		names := wire.QueryNames(query)
		if len(names) > wire.MaxQueryNames || !slices.IsSorted(names) {
			t.Errorf("%q", names)
		}
		if raw, err := json.Marshal(names); err != nil || len(raw) > wire.MaxQueryNames*43+2 {
			t.Errorf("%s, %v", raw, err)
		}
	})
}
