package trial

import (
	"bytes"

	"github.com/actionproof/mediator/reputation/autonomy"
)

// Version11 returns a manifest of version 1.0 or 1.1 as one of version 1.1, with one more block.
func Version11(manifest []byte, block string) []byte {
	return append(bytes.Replace(manifest, []byte(`version: "1.0"`), []byte(`version: "1.1"`), 1), block...)
}

// WithAutonomy lets a manifest accept the reputations that the stack's node signs.
func WithAutonomy(manifest []byte) []byte {
	return Version11(manifest, `
# The agent's reputation, signed by the node. The policy may ask for it.
autonomyPolicy:
  allowedIssuers: [mediator-appraiser]
  allowedAudiences: [posting-api]
  allowedKeyIds: [appraiser-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxReputationAgeMs: 600000
  scoringHash: "`+autonomy.ScoringHash+`"
`)
}
