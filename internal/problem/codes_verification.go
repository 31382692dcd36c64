package problem

import "net/http"

// verificationCodes are the refusals of package reputation/verification. Agents read all of them: each speaks of the agent's own call.
var verificationCodes = []Code{
	{Name: "verification_arguments", Public: true, Status: http.StatusBadRequest, Step: "verification", Title: "A verification tool was called with arguments that it does not take", Remedy: "Send the arguments that the tool's schema names."},
	{Name: "verification_host", Public: true, Status: http.StatusMisdirectedRequest, Step: "verification", Title: "The verification of a node was called by a name that is not its own", Remedy: "Use a name that is in verification.hosts of the node's configuration, or the node's address; or have the operator add the name there."},
	{Name: "verification_key_malformed", Public: true, Status: http.StatusBadRequest, Step: "verification", Title: "A public key is no Ed25519 key in PEM", Remedy: "Send one PEM block with the SubjectPublicKeyInfo of an Ed25519 key."},
	{Name: "verification_too_large", Public: true, Status: http.StatusRequestEntityTooLarge, Step: "verification", Title: "A verification has more than is taken", Remedy: "Send less; the sentence says of what."},
	{Name: "verification_unknown", Public: true, Status: http.StatusNotFound, Step: "verification", Title: "There is no such verification of this caller", Remedy: "Ask for a verification, and use its sessionId from where it was asked for."},
	{Name: "verification_closed", Public: true, Status: http.StatusConflict, Step: "verification", Title: "A verification is over", Remedy: "Ask for a new one."},
	{Name: "verification_expired", Public: true, Status: http.StatusGone, Step: "verification", Title: "A verification was not finished in time", Remedy: "Ask for a new one."},
	{Name: "verification_reasoning_short", Public: true, Status: http.StatusUnprocessableEntity, Step: "verification", Title: "A turn hardly says why its tool was called", Remedy: "Send the turn with at least 30 characters of reasoning; fewer than 20 are not taken."},
	{Name: "verification_hash_broken", Public: true, Status: http.StatusUnprocessableEntity, Step: "verification", Title: "A turn's hash is not that of its content", Remedy: "Hash the JSON text of prevHash, toolCall, input, output, reasoning and timestamp, in this order."},
	{Name: "verification_not_served", Public: true, Status: http.StatusUnprocessableEntity, Step: "verification", Title: "A turn tells of a call that the node did not serve", Remedy: "Call the tool with the sessionId, and give the call's arguments and its whole result in the turn."},
	{Name: "verification_canary_unused", Public: true, Status: http.StatusUnprocessableEntity, Step: "verification", Title: "A turn does not use the result of the turn before", Remedy: "Name the canary of that result in the reasoning."},
	{Name: "verification_possession", Public: true, Status: http.StatusForbidden, Step: "verification", Title: "The possession of a key was not proven", Remedy: "Sign the nonce, a bar and the payload with the key, and send the signature in hex."},
	{Name: "verification_nonce", Public: true, Status: http.StatusForbidden, Step: "verification", Title: "A nonce is not that of this verification and key, or too old", Remedy: "Ask for a verification with the key that registers, and register within five minutes."},
	{Name: "verification_failed", Public: true, Status: http.StatusForbidden, Step: "verification", Title: "A verification was judged and rejected", Remedy: "Read violations, wait for the cooldown, and ask for a new verification."},
	{Name: "verification_backoff", Public: true, Status: http.StatusTooManyRequests, Step: "verification", Title: "Too many verifications of this caller or key have failed in a row", Remedy: "Wait as long as retryAfter says; another session or key does not shorten it."},
	{Name: "verification_rate", Public: true, Status: http.StatusTooManyRequests, Step: "verification", Title: "The caller has called the verification too often", Remedy: "Wait as long as retryAfter says."},
	{Name: "verification_too_many", Public: true, Status: http.StatusTooManyRequests, Step: "verification", Title: "Too many verifications are open", Remedy: "Finish one, or wait until one expires.", RetryAfter: 60},
	{Name: "verification_busy", Public: true, Status: http.StatusServiceUnavailable, Step: "verification", Title: "Too many calls change one verification at once", Remedy: "Make the calls of a verification one after another, and try again.", RetryAfter: 1},
	{Name: "plugin_malformed", Public: true, Status: http.StatusBadRequest, Step: "verification", Title: "What is said of a plugin is too long or not printable", Remedy: "Send less; the sentence says of what."},
	{Name: "plugin_taken", Public: true, Status: http.StatusConflict, Step: "verification", Title: "A DID is registered for another key", Remedy: "Use another key: the two have the same first 16 digits of their hash."},
	{Name: "plugin_unknown", Public: true, Status: http.StatusNotFound, Step: "verification", Title: "No plugin is registered under a DID", Remedy: "Search for the plugin, and use the DID of the result."},
}
