package chain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestTextsOfExports: a record in an export, whoever wrote it, draws no line that looks like a result.
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
		{"record": ledger.Record{ID: forged, Manifest: forged, Artifacts: []ledger.Artifact{{Name: "grant", Token: forged}}}},
		{"end": map[string]int{"records": 1}},
	} {
		check.Must(t, lines.Encode(line))
	}
	c := Verify()
	var out strings.Builder
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetIn(strings.NewReader(export.String()))
	c.SetArgs([]string{"-", "--roots-in-file"})
	if err := c.ExecuteContext(t.Context()); err == nil || strings.Contains(out.String(), "\n9 verified") ||
		!strings.Contains(out.String(), "9 verified") {
		t.Errorf("%v:\n%s", err, &out)
	}
}
