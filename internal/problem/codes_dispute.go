package problem

import "net/http"

// disputeCodes are the refusals of what agents publish and of disputes between them. Their sentences speak of the agent's own document, and of
// what everybody can read of signals and disputes.
var disputeCodes = []Code{
	{Name: "statement_malformed", Public: true, Status: http.StatusBadRequest, Step: "disputes", Title: "The document has another form than its schema says", Remedy: "GET /v1/schemas/signal, /v1/schemas/contract and /v1/schemas/challenge of the node have the schemas. Leave out what is empty."},
	{Name: "statement_signature", Public: true, Status: http.StatusUnauthorized, Step: "disputes", Title: "The document is not signed by its agent", Remedy: "An agent behind a sidecar sends it through http://mediator.internal, and its sidecar signs. An agent that is named by a did:key signs the RFC 8785 form without the signature, with that key.", Authenticate: "ActionProof-Caller"},
	{Name: "statement_time", Public: true, Status: http.StatusBadRequest, Step: "disputes", Title: "The time in the document is not that of the node", Remedy: "Set the clock, and give the present time in Unix seconds."},
	{Name: "statement_exists", Public: true, Status: http.StatusConflict, Step: "disputes", Title: "There is another signal, or another contract of this agent, with this id", Remedy: "Choose another id, at random."},
	{Name: "statement_unregistered", Public: true, Status: http.StatusForbidden, Step: "disputes", Title: "The agent that disputes has passed no verification", Remedy: "Pass a verification of the node first: docs/verification.md says how."},
	{Name: "signal_unknown", Public: true, Status: http.StatusNotFound, Step: "disputes", Title: "The node has no such signal", Remedy: "Use the signal_id as it was published at this node."},
	{Name: "signal_too_many", Public: true, Status: http.StatusTooManyRequests, Step: "disputes", Title: "The agent has as many signals with an open window as it may have", Remedy: "Wait until the window of one closes.", RetryAfter: 3600},
	{Name: "dispute_self", Public: true, Status: http.StatusForbidden, Step: "disputes", Title: "An agent cannot dispute itself", Remedy: "Name another agent's signal or receipts."},
	{Name: "dispute_key_young", Public: true, Status: http.StatusForbidden, Step: "disputes", Title: "The agent was registered after what it disputes was there", Remedy: "Only agents that were registered before can dispute it."},
	{Name: "dispute_receipts", Public: true, Status: http.StatusUnprocessableEntity, Step: "disputes", Title: "The receipts cannot be disputed", Remedy: "Name receipts of the accused agent that the node holds, of at most 16 sessions and from after the last dispute that it has lost, or bring them in evidence."},
	{Name: "dispute_window", Public: true, Status: http.StatusGone, Step: "disputes", Title: "The signal can be disputed no more", Remedy: "Dispute a signal before its window closes. That this was tried counts as a violation."},
	{Name: "dispute_identical", Public: true, Status: http.StatusConflict, Step: "disputes", Title: "The agent has disputed the same before", Remedy: "Read the dispute that there is. That this was tried counts as a violation."},
	{Name: "dispute_rate", Public: true, Status: http.StatusTooManyRequests, Step: "disputes", Title: "The agent has opened as many disputes as its tier may", Remedy: "Wait as long as Retry-After says. That this was tried counts as a violation; disputes that were lost make the wait longer.", RetryAfter: 86400},
	{Name: "dispute_unknown", Public: true, Status: http.StatusNotFound, Step: "disputes", Title: "The node has no such dispute", Remedy: "Use the dispute_id that this node has given."},
	{Name: "dispute_resolved", Public: true, Status: http.StatusConflict, Step: "disputes", Title: "The dispute is resolved", Remedy: "A resolution cannot be changed."},
	{Name: "dispute_deadline", Public: true, Status: http.StatusGone, Step: "disputes", Title: "The time to decide the dispute is over", Remedy: "It ends as inconclusive. The same can be disputed again."},
	{Name: "dispute_not_general", Public: true, Status: http.StatusConflict, Step: "disputes", Title: "An arbiter does not decide disputes of this type", Remedy: "Receipts decide it. Only disputes of type general are an arbiter's."},
	{Name: "dispute_decision_other", Public: true, Status: http.StatusConflict, Step: "disputes", Title: "The arbiter's decision is about something else", Remedy: "Sign a decision with the id of this dispute and the hash of the document that opened it."},
	{Name: "dispute_arbiter_party", Public: true, Status: http.StatusForbidden, Step: "disputes", Title: "The arbiter's key belongs to one of the parties", Remedy: "Pin an arbiter's key that is no agent's and no key registry's."},
	{Name: "schema_unknown", Public: true, Status: http.StatusNotFound, Step: "disputes", Title: "The node has no such schema", Remedy: "Ask for signal, contract or challenge."},
	{Name: "disputes_off", Public: true, Status: http.StatusNotFound, Step: "disputes", Title: "The node takes no signals and no disputes", Remedy: "Configure disputes at the node, and start it anew."},
	{Name: "statement_missing", Public: true, Status: http.StatusUnauthorized, Step: "disputes", Title: "The request of a sidecar's agent lacks the sidecar's statement", Remedy: "Send the document through the sidecar, at http://mediator.internal: it signs the document in the header Agent-Statement.", Authenticate: "Agent-Statement"},
	{Name: "statement_unbelieved", Public: true, Status: http.StatusForbidden, Step: "disputes", Title: "The node believes no statements of the owner", Remedy: "Name the owner's statements in owners of the node's configuration, and reload it."},
	{Name: "dispute_full", Public: true, Status: http.StatusTooManyRequests, Step: "disputes", Title: "The agent, or all agents of its owner, have as much open as they may have", Remedy: "Wait until windows have closed and disputes are resolved, or raise the limits of disputes at the node.", RetryAfter: 3600},
	{Name: "dispute_no_arbiter", Public: true, Status: http.StatusNotFound, Step: "disputes", Title: "The node has no arbiter", Remedy: "Name the arbiter's public key in disputes of the node's configuration."},
}
