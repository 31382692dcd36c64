package archive

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
)

// artifactNames are the names of the artifacts that a record can hold.
var artifactNames = []string{
	"challenge", "originProof", "triggerReceipt", "reputation", "policyDecision", "grant", "runtimeAttestation", "sessionReceipt", "deploymentCertificate",
	"capability", "requestProof", "agentStatement",
}

// ParseRecord reads one record, as mediator posts show --json prints it, with the interaction receipts of its session. An error names it by its name. It refuses a record without
// artifacts: of a call that needed no evidence, or that was refused before there was any.
func ParseRecord(raw []byte, name string) (ledger.Record, Receipts, error) {
	var p struct {
		ledger.Record
		Assurance json.RawMessage `json:"assurance"` // not read: who verifies a record assesses it himself
		Receipts  []string        `json:"receipts"`  // of the session, from number 1 on
	}
	if err := strictjson.Parse(raw, &p); err != nil {
		return p.Record, nil, fmt.Errorf("%s is not a record, as mediator posts show --json prints it: %w", name, err)
	}
	if len(p.Artifacts) == 0 {
		return p.Record, nil, fmt.Errorf("%s: the record has no artifacts", name)
	}
	return p.Record, ReceiptsOf(p.Receipts), checkArtifacts(p.Record, name)
}

// checkArtifacts refuses a record with an artifact whose name is not known, or is there twice.
func checkArtifacts(r ledger.Record, name string) error {
	for i, a := range r.Artifacts {
		switch {
		case !slices.Contains(artifactNames, a.Name):
			return refusal.New("evidence_malformed", "%s: artifacts[%d].name is %.40q, which is no artifact", name, i, a.Name)
		case slices.ContainsFunc(r.Artifacts[:i], func(b ledger.Artifact) bool { return b.Name == a.Name }):
			return refusal.New("evidence_malformed", "%s: artifacts[%d].name is %q, which is there twice", name, i, a.Name)
		}
	}
	return nil
}
