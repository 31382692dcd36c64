package evidence_test

import (
	"encoding/hex"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/check"
)

func TestDIDKey(t *testing.T) {
	const text = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
	public, err := evidence.ParseDIDKey(text)
	check.Must(t, err)
	check.WantEqual(t, hex.EncodeToString(public), "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6")
	check.WantEqual(t, evidence.DIDKey(public), text)
	for name, other := range map[string]string{
		"nothing": "", "no digits": "did:key:z", "another base": "did:key:m" + text[9:],
		"a digit that is none": text[:20] + "0" + text[21:], "longer": text + "1", "shorter": text[:len(text)-1],
		"with a leading zero": "did:key:z1" + text[9:],
		"of X25519":           "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc",
		"of small order":      evidence.DIDKey(make([]byte, 32)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.ParseDIDKey(other)
			check.WantCode(t, err, "trust_malformed")
		})
	}
}

func FuzzParseDIDKey(f *testing.F) {
	f.Add("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
	f.Fuzz(func(t *testing.T, text string) {
		public, err := evidence.ParseDIDKey(text)
		if err == nil && evidence.DIDKey(public) != text {
			t.Errorf("%q names the key that is named %s", text, evidence.DIDKey(public))
		}
	})
}
