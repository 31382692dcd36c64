package chain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// A record in an export draws no line that looks like a result.
func TestTextsOfExports(t *testing.T) {
	t.Parallel()
	const forged = "x\n9 verified, 0 REFUSED\t"
	k := gatetest.New(t)
	jwk := func(purpose string) json.RawMessage {
		raw, err := json.Marshal(custody.JWK(k.Key(t, purpose)))
		check.Must(t, err)
		return raw
	}
	var export strings.Builder
	lines := json.NewEncoder(&export)
	for _, line := range []map[string]any{
		{"actionproof-evidence": map[string]int{"version": 1}},
		{"roots": map[string]any{"registry": jwk(evidence.PurposeSignerCertificate),
			"auditor": jwk(evidence.PurposeDeploymentCertificate)}},
		{"record": ledger.Record{ID: forged, Manifest: forged,
			Artifacts: []ledger.Artifact{{Name: "grant", Token: forged}}}},
		{"end": map[string]int{"records": 1}},
	} {
		check.Must(t, lines.Encode(line))
	}
	c := Verify()
	var out strings.Builder
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetIn(strings.NewReader(export.String()))
	f := k.Files(t, t.TempDir())
	c.SetArgs([]string{"-", "--registry", f.Registry, "--auditor", f.Auditor})
	if err := c.ExecuteContext(t.Context()); err == nil || strings.Contains(out.String(), "\n9 verified") ||
		!strings.Contains(out.String(), "9 verified") ||
		!strings.Contains(out.String(), "\n"+problem.Remedy("manifest_unknown")+"\n") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// TestRecordWithAToken: a record with what a node has signed beside it is a record, and not verified for that. Nor do
// claims verify that say otherwise than the token beside them.
func TestRecordWithAToken(t *testing.T) {
	t.Parallel()
	dir, k := t.TempDir(), gatetest.New(t, gatetest.Autonomous)
	k.Appraise(t)
	f := k.Files(t, dir)
	k.WriteBundle(t, f.Bundle, k.Certificates[evidence.PurposeAppraiser])
	forged := k.Post(t)
	forged.Subject = "agent:mallory"
	token := k.Reputation(t, k.Agent(t), 3, 50)
	verifyText := func(raw []byte) error {
		c := Verify()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetOut(io.Discard)
		c.SetIn(bytes.NewReader(raw))
		c.SetArgs([]string{"-", "--registry", f.Registry, "--auditor", f.Auditor, "--bundle", f.Bundle, "--manifest",
			f.Manifest, "--earlier", filepath.Join(dir, "none")})
		return c.ExecuteContext(t.Context())
	}
	verify := func(file any) error {
		t.Helper()
		raw, err := json.Marshal(file)
		check.Must(t, err)
		return verifyText(raw)
	}
	for _, name := range []string{"token", "Token"} { // other readers take the first, or that in lower case
		if verifyText(fmt.Appendf(nil, `{"token": "another", %q: %q}`, name, token)) == nil {
			t.Errorf("a file with the members token and %s verifies", name)
		}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	check.Must(t, err)
	claims := map[string]any{"token": token}
	check.Must(t, verify(claims))
	check.Must(t, json.Unmarshal(payload, &claims))
	check.Must(t, verify(claims))
	for name, claim := range claims {
		if name == "token" {
			continue
		}
		claims[name] = "another"
		check.WantCode(t, verify(claims), "evidence_malformed")
		claims[name] = claim
	}
	for _, member := range []string{"token", "verification", "resolution"} {
		var file map[string]any
		raw, err := json.Marshal(forged)
		check.Must(t, err)
		check.Must(t, json.Unmarshal(raw, &file))
		if file[member] = token; verify(file) == nil {
			t.Errorf("a forged record with the member %s verifies", member)
		}
	}
}
