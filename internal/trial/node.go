package trial

import (
	"bytes"
	"strings"

	"github.com/actionproof/mediator/reputation/autonomy"
)

// version11 returns a manifest of version 1.0 or 1.1 as one of version 1.1, with one more block.
func version11(manifest []byte, block string) []byte {
	return append(bytes.Replace(manifest, []byte(`version: "1.0"`), []byte(`version: "1.1"`), 1), block...)
}

// WithStatements lets a manifest accept what the stack's sidecar signs for its agent's signals and disputes.
func WithStatements(manifest []byte) []byte {
	return version11(manifest, `
# What the sidecar signs for its agent's signals and disputes.
agentStatementPolicy:
  allowedIssuers: [mediator-speaker]
  allowedAudiences: [posting-api]
  allowedKeyIds: [agent-statement-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxStatementAgeMs: 15000
`)
}

// WithAutonomy lets a manifest accept the reputations that the stack's node signs.
func WithAutonomy(manifest []byte) []byte {
	return version11(manifest, `
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

const speakingRules = `
  - name: signals
    match: {url: "http://mediator.internal/v1/signals", methods: [POST]}
    subject: agent:worker-1
    action: publish_signal
  - name: disputes
    match: {url: "http://mediator.internal/v1/dispute", methods: [POST]}
    subject: agent:worker-1
    action: open_dispute
`

// Speaking adds to a sidecar's configuration the rules for signals and disputes, and the key that signs them.
func Speaking(sidecar string) string {
	const observer = "  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}\n"
	const speaker = "  agentStatement: {key: agent-statement-key, issuer: mediator-speaker}\n"
	if !strings.Contains(sidecar, observer) {
		return sidecar
	}
	sidecar = strings.Replace(sidecar, observer, observer+speaker, 1)
	return strings.Replace(sidecar, "\nactions:\n", "\nactions:"+speakingRules, 1)
}

// WithDisputes lets a node's configuration accept signals and disputes, by these settings.
func WithDisputes(node, settings string) string {
	const by = "audiences: [posting-api], keys: ["
	const receipts = "    receipts: {issuers: [mediator-observer], " + by + "interaction-receipt-key]}\n"
	const statements = "    statements: {issuers: [mediator-speaker], " + by + "agent-statement-key]}\n"
	return strings.Replace(node, receipts, receipts+statements, 1) + "\ndisputes: {" + settings + "}\n"
}
