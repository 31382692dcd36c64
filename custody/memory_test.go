package custody_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/custodytest"
)

func TestMemory(t *testing.T) {
	custodytest.Run(t, func(t *testing.T, name string) custodytest.Rotator {
		k, err := custody.NewMemory(name)
		check.Must(t, err)
		return k
	})
}

func TestMemoryIsNeverWrittenOut(t *testing.T) {
	k, err := custody.NewMemory("k")
	check.Must(t, err)
	set, err := custody.JWKS(t.Context(), k)
	check.Must(t, err)
	raw, err := json.Marshal([]any{k, set, k.Properties()})
	check.Must(t, err)
	if strings.Contains(string(raw), `"d"`) {
		t.Errorf("a private key is in %s", raw)
	}
	if s := fmt.Sprintf("%v %+v", k.Properties(), set); strings.Contains(s, "PrivateKey") {
		t.Errorf("a private key is in %s", s)
	}
}
