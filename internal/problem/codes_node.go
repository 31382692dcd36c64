package problem

import "net/http"

// nodeCodes are what a sidecar refuses of what agents ask of the node.
var nodeCodes = []Code{
	{Name: "node_unavailable", Status: http.StatusServiceUnavailable, Step: "internal", Title: "The node does not answer", Remedy: "Start mediator reputation; check the sidecar's reputation endpoint, and that internal.uids names the sidecar's user there. What was asked for may have been done.", RetryAfter: 5},
	{Name: "node_missing", Public: true, Status: http.StatusNotFound, Step: "internal", Title: "No node appraises this sidecar's receipts", Remedy: "Ask the operator to set reputation in the sidecar's configuration, if agents are to be scored."},
	{Name: "statement_author", Public: true, Status: http.StatusForbidden, Step: "internal", Title: "A document is by another agent than the one that publishes it", Remedy: "Put the id of this agent into the document: GET http://mediator.internal/v1/event says it, as agent."},
	{Name: "statement_unsigned", Public: true, Status: http.StatusServiceUnavailable, Step: "internal", Title: "This sidecar has no key by which it could sign what its agent publishes", Remedy: "Ask the operator to set keys.agentStatement in the sidecar's configuration."},
	{Name: "challenge_request_malformed", Public: true, Status: http.StatusBadRequest, Step: "internal", Title: "A request about a challenge is malformed", Remedy: "Send what docs/autonomy.md shows: an empty object to ask for a challenge; challenge_nonce with commitment_hash to commit; challenge_nonce with salt and strategy to reveal."},
	{Name: "probe_unknown", Public: true, Status: http.StatusNotFound, Step: "internal", Title: "The session has no such probe", Remedy: "Send one of the probes of the session's last challenge, each once."},
}
