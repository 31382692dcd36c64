package challenge_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

func TestGolden(t *testing.T) {
	for n, d := range difficulties {
		t.Run(string(d), func(t *testing.T) {
			i := newIssuer(t, challenge.Options{Difficulty: d, Random: seeded(byte(n))})
			ch := create(t, i, binding)
			golden(t, string(d),
				map[string]any{"challenge": ch, "tokenClaims": secondOpinion(t, ch.Token, "challenge+jwt"),
					"response": solve(t, ch)})
		})
	}
	t.Run("capability", func(t *testing.T) {
		token, claims, err := challenge.Mint(newSecret(t, secretText), registered(), capabilityClaims())
		check.Must(t, err)
		raw, err := json.Marshal(claims)
		check.Must(t, err)
		signed := secondOpinion(t, token, "capability+jwt")
		if want, err := strictjson.Canonical(raw); err != nil || string(want) != string(signed) {
			t.Errorf("the claims that Mint returns are not those that it signed: %s", signed)
		}
		golden(t, "capability", map[string]any{"capability": token, "tokenClaims": signed})
	})
}

// TestGoldenVerifies: a challenge in flight survives a new version.
func TestGoldenVerifies(t *testing.T) {
	for _, d := range difficulties {
		raw, err := os.ReadFile(filepath.Join("testdata", "golden", string(d)+".json"))
		check.Must(t, err)
		var file struct{ Challenge, Response json.RawMessage }
		check.Must(t, json.Unmarshal(raw, &file))
		ch, err := challenge.ParseChallenge(file.Challenge)
		check.Must(t, err)
		r, err := challenge.ParseResponse(file.Response)
		check.Must(t, err)
		if _, err := newIssuer(t, challenge.Options{}).Verify(t.Context(), ch, r, want); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func golden(t *testing.T, name string, v any) {
	t.Helper()
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	check.Must(t, enc.Encode(v))
	path := filepath.Join("testdata", "golden", name+".json")
	if *update {
		check.Must(t, os.WriteFile(path, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	check.Must(t, err)
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("%s has changed; if that is meant, run go test -update and review the diff\n%s", path, got.Bytes())
	}
}

func secondOpinion(t *testing.T, token, typ string) json.RawMessage {
	t.Helper()
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.HS256})
	check.Must(t, err)
	payload, err := jws.Verify(secretText)
	check.Must(t, err)
	if got := jws.Signatures[0].Header.ExtraHeaders["typ"]; got != typ {
		t.Errorf("the typ is %v, want %s", got, typ)
	}
	return payload
}
