package problem

import "net/http"

// challengeCodes are the refusals of package challenge: fresh work that was not done, or that was done for another
// call.
var challengeCodes = []Code{
	{Name: "challenge_malformed", Status: http.StatusBadRequest, Step: "challenge", Title: "A challenge is malformed or cannot be solved", Remedy: "Ask for a fresh challenge and give it back unchanged."},
	{Name: "challenge_unsolved", Status: http.StatusBadGateway, Step: "challenge", Title: "The runtime could not solve a challenge", Remedy: "Use task kinds that the runtime knows, or let the agent solve them."},
	{Name: "challenge_tasks_altered", Public: true, Status: http.StatusForbidden, Step: "challenge", Title: "A challenge's tasks were altered", Remedy: "Give the challenge back unchanged."},
	{Name: "challenge_binding_mismatch", Public: true, Status: http.StatusForbidden, Step: "challenge", Title: "A challenge is bound to another operation", Remedy: "Ask for a challenge for exactly this call."},
	{Name: "challenge_required", Public: true, Status: http.StatusPreconditionRequired, Step: "challenge", Title: "The agent has to solve a challenge first", Remedy: "Solve the tasks in the member challenge and make the same call again with ActionProof-Challenge and ActionProof-Response."},
	{Name: "response_malformed", Public: true, Status: http.StatusBadRequest, Step: "challenge", Title: "A response is malformed", Remedy: "Send challengeId and one answer of 64 lowercase hex characters for each task."},
	{Name: "response_other_challenge", Public: true, Status: http.StatusForbidden, Step: "challenge", Title: "A response answers another challenge", Remedy: "Answer the challenge whose token is sent."},
	{Name: "response_incomplete", Public: true, Status: http.StatusForbidden, Step: "challenge", Title: "A response does not answer every task", Remedy: "Answer every task, and nothing else."},
	{Name: "response_wrong", Public: true, Status: http.StatusForbidden, Step: "challenge", Title: "An answer is wrong", Remedy: "Solve the tasks as their instructions say; a fresh challenge is needed."},
	{Name: "capability_binding_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "A capability is for another operation", Remedy: "Send exactly the content that was verified, to the same resource."},
	{Name: "capability_unconsumed", Status: http.StatusForbidden, Step: "gate", Title: "A capability rests on a verification that was not consumed", Remedy: "Consume the verification's keys before minting capabilities."},
	{Name: "capability_without_evidence", Status: http.StatusForbidden, Step: "gate", Title: "A capability carries no runtime evidence", Remedy: "Verify the whole chain, not the challenge alone."},
	{Name: "challenge_altered", Public: true, Status: http.StatusForbidden, Step: "challenge", Title: "A challenge was altered", Remedy: "Give the challenge back unchanged."},
	{Name: "capability_without_grant", Status: http.StatusForbidden, Step: "gate", Title: "A capability carries no decision or no grant", Remedy: "Verify the whole chain, with its decision and grant."},
	{Name: "capability_human_session", Status: http.StatusForbidden, Step: "gate", Title: "A capability rests on a session that humans could reach", Remedy: "Only runs without a human stand behind a post; session.access declares it."},
	{Name: "capability_runtime_not_allowed", Status: http.StatusForbidden, Step: "gate", Title: "A capability rests on a runtime that the policy does not allow", Remedy: "Check the runtime against runtimePolicy of the manifest."},
	{Name: "capability_attestation_too_old", Status: http.StatusForbidden, Step: "gate", Title: "A capability rests on an attestation that is too old", Remedy: "Make the call again; fresh artifacts are issued for it."},
}
