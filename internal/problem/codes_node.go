package problem

import "net/http"

// nodeCodes are the refusals of the node: receipts, scores, verifications, disputes.
var nodeCodes = []Code{
	{Name: "node_unavailable", Status: http.StatusServiceUnavailable, Step: "internal", RetryAfter: 5,
		Title: "The node does not answer",
		Remedy: "Start mediator reputation; check the sidecar's reputation endpoint, and that internal.uids at the " +
			"node names the sidecar's user. The request may have taken effect."},
	{Name: "node_method", Status: http.StatusMethodNotAllowed, Step: "reputation", Public: true,
		Title:  "The endpoint takes another method",
		Remedy: "Use the method that the header Allow names. GET /openapi.json describes the endpoints."},
	{Name: "owner_unknown", Status: http.StatusForbidden, Step: "reputation", Public: true,
		Title: "The node does not know the owner, or not as a publisher",
		Remedy: "Name the owner's key registry, and its statements, in owners of the node's configuration, and reload " +
			"it."},
	{Name: "owner_full", Status: http.StatusInsufficientStorage, Step: "reputation", Public: true, RetryAfter: 600,
		Title: "The node stores no more sessions or receipts of the owner",
		Remedy: "Raise the limits of the node, or shorten its retention. The sidecar keeps the receipts and tries " +
			"again."},
	{Name: "interaction_expired", Status: http.StatusGone, Step: "reputation", Public: true,
		Title:  "The session began before the node's retention",
		Remedy: "Raise retention of the node to appraise such sessions. What it has removed does not come back."},
	{Name: "caller_invalid", Status: http.StatusUnauthorized, Step: "reputation", Public: true, Authenticate: "ActionProof-Caller",
		Title:  "The request lacks a fresh token of the agent that calls",
		Remedy: "Call through the sidecar, at http://mediator.internal. It signs a new token for each request."},
	{Name: "commitment_refused", Status: http.StatusConflict, Step: "reputation", Public: true,
		Title: "A commitment or its reveal does not fit the challenge",
		Remedy: "Commit to a hash once, before expires_at. Then reveal the salt and the strategy of that hash, and " +
			"ask for the next challenge."},
	{Name: "verification_closed", Status: http.StatusConflict, Step: "verification", Public: true,
		Title:  "The verification is over",
		Remedy: "Ask for a new one."},
	{Name: "verification_turn", Status: http.StatusUnprocessableEntity, Step: "verification", Public: true,
		Title: "A turn does not prove its call",
		Remedy: "Give the call's arguments and its whole result as served, at least 30 characters of reasoning that " +
			"name the last canary, and the hash of all of it (docs/verification.md)."},
	{Name: "verification_possession", Status: http.StatusForbidden, Step: "verification", Public: true,
		Title: "The possession of a key was not proven",
		Remedy: "Ask for a verification with the key that registers. Within five minutes, sign its nonce, a bar and " +
			"the payload, and send the signature in hex."},
	{Name: "verification_failed", Status: http.StatusForbidden, Step: "verification", Public: true,
		Title:  "The verification was judged and rejected",
		Remedy: "Read violations, wait for the cooldown, and ask for a new verification."},
	{Name: "id_taken", Status: http.StatusConflict, Step: "disputes", Public: true,
		Title:  "The id belongs to another document or key",
		Remedy: "Choose another id at random, or another key."},
	{Name: "statement_malformed", Status: http.StatusBadRequest, Step: "disputes", Public: true,
		Title: "The document does not follow its schema",
		Remedy: "GET /v1/schemas/signal, /v1/schemas/contract and /v1/schemas/challenge of the node return the " +
			"schemas. Leave out what is empty."},
	{Name: "statement_signature", Status: http.StatusUnauthorized, Step: "disputes", Public: true, Authenticate: "Agent-Statement",
		Title: "The document is not signed by its agent",
		Remedy: "An agent behind a sidecar sends it through http://mediator.internal, and its sidecar signs. An agent " +
			"named by a did:key signs the RFC 8785 form without the signature, with that key."},
	{Name: "dispute_receipts", Status: http.StatusUnprocessableEntity, Step: "disputes", Public: true,
		Title: "The receipts cannot be disputed",
		Remedy: "Name receipts of the accused agent that the node holds, of at most 16 sessions and from after the " +
			"last dispute that it lost. Or bring them in evidence."},
	{Name: "dispute_refused", Status: http.StatusForbidden, Step: "disputes", Public: true,
		Title: "This agent or arbiter cannot open or decide the dispute",
		Remedy: "The sentence says why. Only another agent, verified and registered before, can dispute; only an " +
			"arbiter who is no party can decide, and only a general dispute."},
	{Name: "dispute_closed", Status: http.StatusConflict, Step: "disputes", Public: true,
		Title:  "The dispute is decided, too late, or opened before",
		Remedy: "A resolution does not change. An attempt to dispute twice or too late counts as a violation."},
	{Name: "too_many_open", Status: http.StatusTooManyRequests, Step: "disputes", Public: true, RetryAfter: 600,
		Title:  "Too many signals, disputes or verifications are open",
		Remedy: "Finish one or wait until one ends, or raise the node's limits."},
	{Name: "dispute_rate", Status: http.StatusTooManyRequests, Step: "disputes", Public: true, RetryAfter: 86400,
		Title: "The agent has opened as many disputes as its tier allows",
		Remedy: "Wait as long as Retry-After says. The attempt counts as a violation; lost disputes make the wait " +
			"longer."},
}
