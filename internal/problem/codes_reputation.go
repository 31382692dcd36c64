package problem

import "net/http"

// reputationCodes are the refusals of the node: receipts, challenges and questions that it does not take.
var reputationCodes = []Code{
	{Name: "owner_unknown", Public: true, Status: http.StatusForbidden, Step: "reputation", Title: "The node does not know the owner", Remedy: "Name the owner's key registry in owners of the node's configuration, and reload it."},
	{Name: "owner_full", Public: true, Status: http.StatusInsufficientStorage, Step: "reputation", Title: "The node keeps as many sessions or receipts of the owner as it may", Remedy: "Raise the limits of the node, or shorten its retention. The sidecar keeps the receipts and tries again.", RetryAfter: 600},
	{Name: "interaction_expired", Public: true, Status: http.StatusGone, Step: "reputation", Title: "The session began longer ago than the node keeps sessions", Remedy: "Raise retention of the node if such sessions have to be appraised. What it has removed for its age does not come back."},
	{Name: "node_rate_limited", Public: true, Status: http.StatusTooManyRequests, Step: "reputation", Title: "More requests or receipts than the node takes", Remedy: "Wait as long as Retry-After says.", RetryAfter: 1},
	{Name: "node_busy", Public: true, Status: http.StatusServiceUnavailable, Step: "reputation", Title: "The node reads a long session, or too many sessions at once", Remedy: "Ask again: what was read is kept for the next try.", RetryAfter: 2},
	{Name: "node_endpoint_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The node has no such endpoint", Remedy: "GET /openapi.json describes the endpoints."},
	{Name: "node_method", Public: true, Status: http.StatusMethodNotAllowed, Step: "reputation", Title: "The endpoint of the node takes another method", Remedy: "Use the method that the header Allow names; GET /openapi.json describes the endpoints."},
	{Name: "node_body", Public: true, Status: http.StatusRequestEntityTooLarge, Step: "reputation", Title: "The body of a request to the node is too large, or broke off", Remedy: "Send fewer receipts at once."},
	{Name: "caller_missing", Public: true, Status: http.StatusUnauthorized, Step: "reputation", Title: "The request does not say which agent calls", Remedy: "Call through the sidecar, at http://mediator.internal: it names its agent by a caller token.", Authenticate: "ActionProof-Caller"},
	{Name: "caller_used", Public: true, Status: http.StatusConflict, Step: "reputation", Title: "The caller token was used before", Remedy: "Sign a new one for each request."},
	{Name: "score_receipt_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The node has no such receipt", Remedy: "Wait until the sidecar has delivered it; the hash is that of the receipt's header and payload."},
	{Name: "score_session_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The node has no receipts of the session", Remedy: "Wait until the sidecar has delivered them. Where several owners have a session of this name, add ?owner= with the thumbprint."},
	{Name: "baseline_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The node has no such baseline", Remedy: "Ask the node that signed the score."},
	{Name: "scoring_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The node does not score by these formulas", Remedy: "Take them from the release of the node that signed the score."},
	{Name: "vin_challenge_open", Public: true, Status: http.StatusConflict, Step: "reputation", Title: "The session has a challenge that is committed to, and not revealed", Remedy: "Reveal its strategy first."},
	{Name: "vin_challenge_limit", Public: true, Status: http.StatusForbidden, Step: "reputation", Title: "The session has had as many challenges as it may have", Remedy: "Open another session."},
	{Name: "vin_challenge_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The session has no such challenge", Remedy: "Use the nonce that was issued to this session."},
	{Name: "vin_challenge_expired", Public: true, Status: http.StatusForbidden, Step: "reputation", Title: "The challenge has expired", Remedy: "Ask for another one, and commit to it before expires_at."},
	{Name: "vin_commitment_other", Public: true, Status: http.StatusConflict, Step: "reputation", Title: "The challenge is committed to something else, or revealed otherwise", Remedy: "A commitment cannot be changed."},
	{Name: "vin_commitment_missing", Public: true, Status: http.StatusConflict, Step: "reputation", Title: "A strategy is revealed that nothing was committed to", Remedy: "Commit to the hash first."},
	{Name: "vin_commitment_mismatch", Public: true, Status: http.StatusForbidden, Step: "reputation", Title: "What is revealed is not what was committed to", Remedy: "Reveal the salt and the strategy whose hash was committed to."},
	{Name: "vin_session_closed", Public: true, Status: http.StatusForbidden, Step: "reputation", Title: "The session is closed", Remedy: "Commit and reveal while the session is open."},
}
