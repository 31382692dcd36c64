package evidence

import (
	"compress/gzip"
	"context"
	"crypto"
	stded25519 "crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudflare/circl/sign/ed25519"
	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gomodule"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	check.Must(t, err)
	return b
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	check.Must(t, err)
	return b
}

// TestWycheproof takes Project Wycheproof's Ed25519 vectors from circl.
func TestWycheproof(t *testing.T) {
	f, err := os.Open(
		filepath.Join(gomodule.Dir(t, "github.com/cloudflare/circl"),
			"sign/ed25519/testdata/wycheproof_Ed25519.json.gz"))
	check.Must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check.Must(t, err)
	var suite struct {
		NumberOfTests int
		TestGroups    []struct {
			Key   struct{ PK string }
			Tests []struct {
				TcID              int
				Comment, Msg, Sig string
				Result            string
			}
		}
	}
	check.Must(t, json.NewDecoder(z).Decode(&suite))
	judged := 0
	for _, g := range suite.TestGroups {
		public, err := NewPublicKey(unhex(t, g.Key.PK))
		if err != nil {
			t.Fatalf("the key %s: %v", g.Key.PK, err)
		}
		for _, v := range g.Tests {
			judged++
			got := verify(public, parsed{signed: string(unhex(t, v.Msg)), signature: unhex(t, v.Sig)})
			if got != (v.Result == "valid") {
				t.Errorf("test %d (%s): %t, but it is %s", v.TcID, v.Comment, got, v.Result)
			}
		}
	}
	if judged != suite.NumberOfTests || judged < 145 {
		t.Errorf("%d vectors were judged", judged)
	}
}

type rfc8037Key struct{ private ed25519.PrivateKey }

func (rfc8037Key) KeyID() string { return "rfc8037:v1" }
func (k rfc8037Key) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(k.private, message), nil
}

func TestRFC8037(t *testing.T) {
	private := ed25519.NewKeyFromSeed(unbase64(t, "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
	public := private.Public().(ed25519.PublicKey)
	if got := EncodePublicKey(public); got != "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" {
		t.Errorf("A.2: the public key is %s", got)
	}
	kid, parsedKey, err := ParseJWK(
		[]byte(`{"kty":"OKP","crv":"Ed25519","kid":"rfc8037:v1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`))
	if err != nil || kid != "rfc8037:v1" || !parsedKey.Equal(public) {
		t.Errorf("A.2: the JWK reads as %s %x, %v", kid, parsedKey, err)
	}
	thumbprint, err := (&jose.JSONWebKey{Key: stded25519.PublicKey(public)}).Thumbprint(crypto.SHA256)
	if got := base64.RawURLEncoding.EncodeToString(thumbprint); err != nil ||
		got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("A.3: the thumbprint is %s, %v", got, err)
	}
	const (
		input     = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
		signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	)
	got, err := rfc8037Key{private}.Sign(t.Context(), []byte(input))
	if err != nil || base64.RawURLEncoding.EncodeToString(got) != signature {
		t.Errorf("A.4: the signature is %x, %v", got, err)
	}
	if !verify(public, parsed{signed: input, signature: unbase64(t, signature)}) {
		t.Error("A.5: the signature does not verify")
	}
	if verify(public, parsed{signed: input + "A", signature: unbase64(t, signature)}) {
		t.Error("A.5: the signature verifies over another text")
	}
	// A JWS without kid and typ is none of our artifacts.
	if _, err := parse(input+"."+signature, algEdDSA, requestProof.Typ, maxToken); !errors.Is(err,
		refusal.New("artifact_malformed", "")) {
		t.Errorf("A.5: the JWS is taken for a request proof: %v", err)
	}
}

// TestRFC7515: appendix A.1.
func TestRFC7515(t *testing.T) {
	secret, err := NewSecret(
		unbase64(t, "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"))
	check.Must(t, err)
	const input = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." +
		"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	if got := base64.RawURLEncoding.EncodeToString(secret.mac([]byte(input))); got !=
		"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" {
		t.Errorf("the signature is %s", got)
	}
}
