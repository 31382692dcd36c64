package problem

import "net/http"

// receiptCodes are the refusals of package evidence/interaction: a chain of interaction receipts that does not hold, or a caller token or
// a statement of something else. Only those who verify them meet them.
var receiptCodes = []Code{
	{Name: "interaction_owner", Status: http.StatusForbidden, Step: "receipts", Title: "An interaction receipt names an owner other than the pinned key registry", Remedy: "Pin the key registry of the sidecar that has signed it (--registry)."},
	{Name: "interaction_session", Status: http.StatusForbidden, Step: "receipts", Title: "A chain holds an interaction receipt of another session", Remedy: "Verify the receipts of each session by themselves."},
	{Name: "interaction_agent", Status: http.StatusForbidden, Step: "receipts", Title: "A chain holds an interaction receipt about another agent", Remedy: "Do not believe the chain: a session has one agent."},
	{Name: "interaction_gap", Status: http.StatusForbidden, Step: "receipts", Title: "A chain lacks interaction receipts", Remedy: "Get all receipts of the session, from number 1 on."},
	{Name: "interaction_fork", Status: http.StatusForbidden, Step: "receipts", Title: "There are two chains of interaction receipts for one session", Remedy: "Do not believe either: whoever holds the key has signed two histories."},
	{Name: "interaction_order", Status: http.StatusForbidden, Step: "receipts", Title: "Interaction receipts are not in the order of their numbers", Remedy: "Put them in that order, each once."},
	{Name: "interaction_duplicate", Status: http.StatusForbidden, Step: "receipts", Title: "Two interaction receipts are about one call", Remedy: "Do not believe the chain: a call has one receipt."},
	{Name: "interaction_time", Status: http.StatusForbidden, Step: "receipts", Title: "An interaction receipt was signed before the one that it follows", Remedy: "Do not believe the chain: numbers are given when receipts are signed."},
	{Name: "interaction_totals", Status: http.StatusForbidden, Step: "receipts", Title: "An interaction receipt counts less of its session than the one before it", Remedy: "Do not believe the chain: what a session has done is not undone."},
	{Name: "interaction_after_closing", Status: http.StatusForbidden, Step: "receipts", Title: "An interaction receipt follows the one that closes its session", Remedy: "Do not believe the chain: nothing follows the end of a session."},
	{Name: "interaction_chain_too_long", Public: true, Status: http.StatusForbidden, Step: "receipts", Title: "A chain of interaction receipts is longer than any that is read", Remedy: "Close the session and open another."},
	{Name: "interaction_head_mismatch", Status: http.StatusForbidden, Step: "receipts", Title: "A post's session receipt names an interaction receipt that is not in the chain", Remedy: "Get the session's receipts up to the one that it names; if they are all there, do not believe the chain."},
	{Name: "interaction_open_call", Status: http.StatusForbidden, Step: "receipts", Title: "A call that was open at a post has an interaction receipt before the post, or none at the end", Remedy: "Do not believe the chain: the call is hidden, or the post's session receipt is of another chain."},
	{Name: "receipts_unknown", Status: http.StatusNotFound, Step: "receipts", Title: "The ledger has no interaction receipts of the session", Remedy: "Check the session's id. Receipts are made where the sidecar's configuration has receipts and keys.interactionReceipt, and are removed after the retention."},
	{Name: "caller_request", Status: http.StatusForbidden, Step: "receipts", Title: "A caller token is for another request than the one that carries it", Remedy: "Have the sidecar sign one for this request: each is for one method, path and body, once."},
	{Name: "statement_mismatch", Status: http.StatusForbidden, Step: "receipts", Title: "A post's record has an agent's statement that is not of this post", Remedy: "Do not believe that the agent published it: the statement is of another agent, session, event or document."},
	{Name: "statement_document", Public: true, Status: http.StatusForbidden, Step: "receipts", Title: "An agent's statement is for another document than the one that comes with it", Remedy: "Send the document as the sidecar has signed it, byte for byte the same in canonical form."},
}
