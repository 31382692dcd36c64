package interaction_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
)

type caller = interaction.Caller

func aCaller() caller {
	return caller{
		Registered: evidence.Registered{Audience: "node", Expires: noon.Unix() + 60, IssuedAt: noon.Unix(), Issuer: "sidecar",
			ID: "id"},
		KeyClaims: evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
		Agent:     "agent:worker-1", Owner: strings.Repeat("o", 43), Session: "ses_1", EventID: "evt_1",
		Method: "POST", Path: "/v1/challenge/issue", BodyHash: evidence.HashBytes([]byte("{}")),
	}
}

func codeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

func TestCallers(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, tt := range map[string]struct {
		spoil func(*caller)
		code  string // empty: accepted
	}{
		"one that is whole":     {func(*caller) {}, ""},
		"too long a life":       {func(c *caller) { c.Expires++ }, "artifact_malformed"},
		"no custody":            {func(c *caller) { c.KeyCustody = "" }, "artifact_malformed"},
		"no agent":              {func(c *caller) { c.Agent = "" }, "artifact_malformed"},
		"a long agent":          {func(c *caller) { c.Agent = long }, "artifact_malformed"},
		"no owner":              {func(c *caller) { c.Owner = "" }, "artifact_malformed"},
		"no session":            {func(c *caller) { c.Session = "" }, "artifact_malformed"},
		"a long session":        {func(c *caller) { c.Session = long }, "artifact_malformed"},
		"no event":              {func(c *caller) { c.EventID = "" }, "artifact_malformed"},
		"no method":             {func(c *caller) { c.Method = "" }, "artifact_malformed"},
		"no path":               {func(c *caller) { c.Path = "" }, "artifact_malformed"},
		"a long path":           {func(c *caller) { c.Path = long }, "artifact_malformed"},
		"fewer calls than none": {func(c *caller) { c.ModelCalls = -1 }, "artifact_malformed"},
		"no body":               {func(c *caller) { c.BodyHash = "" }, "artifact_malformed"},
		"a hash in capital":     {func(c *caller) { c.BodyHash = strings.ToUpper(c.BodyHash) }, "artifact_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := aCaller()
			tt.spoil(&c)
			token, err := signAny(t, "interaction-receipt-key", interaction.CallerKind, c)
			if codeOf(err) != tt.code {
				t.Fatalf("%v, want the code %q", err, tt.code)
			}
			if err != nil {
				return
			}
			if got, err := evidence.UnverifiedClaims(interaction.CallerKind, token); err != nil || got != c {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := evidence.UnverifiedClaims(interaction.Kind, token); codeOf(err) != "artifact_malformed" {
				t.Errorf("read as a receipt: %v", err)
			}
		})
	}
}

func TestCallerIsForOneRequest(t *testing.T) {
	c := aCaller()
	for name, tt := range map[string]struct {
		method, path, body, code string
	}{
		"its own":        {"POST", "/v1/challenge/issue", "{}", ""},
		"another method": {"PUT", "/v1/challenge/issue", "{}", "caller_invalid"},
		"another path":   {"POST", "/v1/challenge/commit", "{}", "caller_invalid"},
		"another body":   {"POST", "/v1/challenge/issue", "{} ", "caller_invalid"},
		"no body":        {"POST", "/v1/challenge/issue", "", "caller_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Calls(tt.method, tt.path, []byte(tt.body)); codeOf(err) != tt.code {
				t.Errorf("%v, want the code %q", err, tt.code)
			}
		})
	}
}
