package interaction_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/check"
)

type caller = interaction.Caller

func aCaller() caller {
	return caller{
		Registered: evidence.Registered{Audience: "node", Expires: noon.Unix() + 60, IssuedAt: noon.Unix(),
			Issuer: "sidecar",
			ID:     "id"},
		KeyClaims: evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
		Agent:     "agent:worker-1", Owner: strings.Repeat("o", 43), Session: "ses_1", EventID: "evt_1",
		Method: "POST", Path: "/v1/challenge/issue", BodyHash: evidence.HashBytes([]byte("{}")),
	}
}

func TestCallers(t *testing.T) {
	token, err := signAny(t, "interaction-receipt-key", interaction.CallerKind, aCaller())
	check.Must(t, err)
	if got, err := evidence.UnverifiedClaims(interaction.CallerKind, token); err != nil || got != aCaller() {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = evidence.UnverifiedClaims(interaction.Kind, token)
	wantCode(t, err, "artifact_malformed")
	for line := range strings.Lines(`exp 1772366461
		keyCustody ""
		sub ""
		sub "LONG"
		owner ""
		session ""
		session "LONG"
		event_id ""
		method ""
		path ""
		path "LONG"
		model_calls -1
		body_hash ""
		body_hash "` + strings.ToUpper(hash) + `"`) {
		t.Run(line, func(t *testing.T) {
			_, err := signAny(t, "interaction-receipt-key", interaction.CallerKind, edited(t, aCaller(), line))
			wantCode(t, err, "artifact_malformed")
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
			wantCode(t, c.Calls(tt.method, tt.path, []byte(tt.body)), tt.code)
		})
	}
}
