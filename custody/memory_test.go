package custody_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/test/custodytest"
)

func TestMemory(t *testing.T) {
	custodytest.Run(t, func(t *testing.T, name string) custodytest.Rotator {
		k, err := custody.NewMemory(name)
		if err != nil {
			t.Fatal(err)
		}
		return k
	})
}

// TestMemoryIsNeverWrittenOut searches all output for the private key.
func TestMemoryIsNeverWrittenOut(t *testing.T) {
	k, err := custody.NewMemory("k")
	if err != nil {
		t.Fatal(err)
	}
	set, err := custody.JWKS(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal([]any{k, set, k.Properties()})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), `"d"`) {
		t.Errorf("a private key is in %s", raw)
	}
	if s := fmt.Sprintf("%v %+v", k.Properties(), set); strings.Contains(s, "PrivateKey") {
		t.Errorf("a private key is in %s", s)
	}
}
