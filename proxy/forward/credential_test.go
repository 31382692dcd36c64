package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/test/check"
)

func TestCredentialHeaders(t *testing.T) {
	for _, header := range []string{"", "X Token", "Host", "content-length", "Content-Type", "Connection",
		"Transfer-Encoding", "Idempotency-Key", "ActionProof-Capability", "X-HTTP-Method-Override", "X_Forwarded_Host"} {
		if _, err := NewCredential(header, "", echo.Auto, fixed(secretToken)); err == nil {
			t.Errorf("%q carries a credential", header)
		}
	}
	if _, err := NewCredential("X-Token", "Bearer \r\nX: ", echo.Auto, fixed(secretToken)); err == nil {
		t.Error("a prefix of two lines was taken")
	}
}

func TestCredentialIsNeverPrinted(t *testing.T) {
	c, err := NewCredential("Authorization", "Bearer ", echo.Auto, fixed(secretToken))
	check.Must(t, err)
	raw, err := json.Marshal(c)
	check.Must(t, err)
	if s := fmt.Sprintf("%v %+v %#v %s %d", c, c, c, c, c) + string(raw); strings.Contains(s, "upstream") {
		t.Errorf("it prints as %s", s)
	}
	if _, err := NewCredential("Authorization", "", echo.Auto, nil); err == nil {
		t.Error("an empty credential was accepted")
	}
}

const secretToken = "the-credential-of-the-upstream"

type fixed string

func (f fixed) Secret(context.Context) (string, error) { return string(f), nil }
func (fixed) Refused(string)                           {}
