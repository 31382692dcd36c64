package challenge_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
)

func macOf(header, payload string) string {
	b64 := base64.RawURLEncoding
	input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(payload))
	m := hmac.New(sha256.New, secretText)
	m.Write([]byte(input))
	return input + "." + b64.EncodeToString(m.Sum(nil))
}

func partsOf(t testing.TB, token string) (header, payload string) {
	t.Helper()
	var parts [3]string
	for i, part := range strings.Split(token, ".") {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		check.Must(t, err)
		parts[i] = string(raw)
	}
	return parts[0], parts[1]
}

// FuzzVerifyToken: no panic, a code for each refusal; what is accepted is canonical, bound, timely and rightly
// answered.
func FuzzVerifyToken(f *testing.F) {
	i := newIssuer(f, challenge.Options{Difficulty: challenge.Lite, Tasks: 1})
	ch := create(f, i, binding)
	response, err := json.Marshal(solve(f, ch))
	check.Must(f, err)
	header, payload := partsOf(f, ch.Token)
	f.Add(header, payload, response)
	f.Add(header, strings.Replace(payload, `"exp":1`, `"exp":9`, 1), response)
	f.Add(strings.Replace(header, "HS256", "none", 1), payload, response)
	f.Add(header, payload, []byte(`{"challengeId":"`+ch.ID+`","answers":{}}`))
	f.Fuzz(func(t *testing.T, header, payload string, response []byte) {
		var r evidence.Response
		if json.Unmarshal(response, &r) != nil {
			return
		}
		c, err := i.VerifyToken(t.Context(), macOf(header, payload), r, want)
		if err != nil {
			if refusal.CodeOf(err) == "" {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		canonical, err := strictjson.Canonical([]byte(payload))
		if err != nil || string(canonical) != payload {
			t.Errorf("%q is accepted, and is not canonical", payload)
		}
		if !c.Binding.SameAction(binding) || c.Expires <= start.Unix()-2 || c.IssuedAt > start.Unix()+2 ||
			len(r.Answers) != len(c.Answers) || len(c.Answers) == 0 {
			t.Errorf("%+v is accepted with %+v", c, r)
		}
	})
}

func FuzzVerifyCapability(f *testing.F) {
	secret := newSecret(f, secretText)
	token, _, err := challenge.Mint(secret, registered(), capabilityClaims())
	check.Must(f, err)
	header, payload := partsOf(f, token)
	f.Add(header, payload)
	f.Add(header, strings.Replace(payload, `"verificationConsumed":true`, `"verificationConsumed":false`, 1))
	f.Add(header, strings.Replace(payload, `"humanPromptPresent":false`, `"humanPromptPresent":true`, 1))
	f.Fuzz(func(t *testing.T, header, payload string) {
		c, key, err := challenge.VerifyCapability(secret, macOf(header, payload), wantCapability())
		if err != nil {
			if refusal.CodeOf(err) == "" {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		canonical, err := strictjson.Canonical([]byte(payload))
		if err != nil || string(canonical) != payload {
			t.Errorf("%q is accepted, and is not canonical", payload)
		}
		s := c.Session
		if !c.Binding.SameAction(binding) || !c.VerificationConsumed || c.Runtime == nil || s == nil ||
			s.HumanPromptPresent || s.HumanOperatorPresent ||
			s.UserShellAccess || s.AgentEnvironmentUserAccessible || c.GrantID == "" || c.DecisionID == "" ||
			!strings.HasSuffix(key.ID, c.ID) {
			t.Errorf("%+v is accepted, under the key %+v", c, key)
		}
	})
}
