package kit

import (
	"strings"

	"github.com/actionproof/mediator/internal/trial"
)

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

// Speaking lets a manifest, or a sidecar's configuration, have the sidecar sign what its agent publishes.
func Speaking(file string) string {
	if strings.Contains(file, "\ndeploymentId: ") {
		return string(trial.Version11([]byte(file), `
# What the sidecar signs for its agent's signals and disputes.
agentStatementPolicy:
  allowedIssuers: [mediator-speaker]
  allowedAudiences: [posting-api]
  allowedKeyIds: [agent-statement-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxStatementAgeMs: 15000
`))
	}
	const observer = "  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}\n"
	const speaker = "  agentStatement: {key: agent-statement-key, issuer: mediator-speaker}\n"
	if !strings.Contains(file, observer) {
		return file
	}
	file = strings.Replace(file, observer, observer+speaker, 1)
	return strings.Replace(file, "\nactions:\n", "\nactions:"+speakingRules, 1)
}

// WithDisputes lets a node's configuration accept signals and disputes, by these settings.
func WithDisputes(node, settings string) string {
	const by = "audiences: [posting-api], keys: ["
	const receipts = "    receipts: {issuers: [mediator-observer], " + by + "interaction-receipt-key]}\n"
	const statements = "    statements: {issuers: [mediator-speaker], " + by + "agent-statement-key]}\n"
	return strings.Replace(node, receipts, receipts+statements, 1) + "\ndisputes: {" + settings + "}\n"
}
