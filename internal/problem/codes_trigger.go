package problem

import "net/http"

// triggerCodes are the refusals of package trigger: an event that cannot be the reason of a post.
var triggerCodes = []Code{
	{Name: "trigger_human", Public: true, Status: http.StatusForbidden, Step: "trigger", Title: "The event was asked for by a human", Remedy: "Only events that came about without a human stand behind a post."},
	{Name: "trigger_unverified", Public: true, Status: http.StatusForbidden, Step: "trigger", Title: "The event's origin was not verified", Remedy: "Have the event delivered by a source that the trigger service can verify."},
	{Name: "trigger_unavailable", Status: http.StatusServiceUnavailable, Step: "trigger", Title: "The trigger service does not answer", Remedy: "Start mediator trigger; check the sidecar's trigger endpoint, and that internal.uids names the sidecar's user there.", RetryAfter: 2},
	{Name: "event_unknown", Status: http.StatusNotFound, Step: "trigger", Title: "There is no such event", Remedy: "mediator events list shows the events that there are."},
	{Name: "event_none", Public: true, Status: http.StatusNotFound, Step: "trigger", Title: "No event waits", Remedy: "Ask again; wait= says how long to wait.", RetryAfter: 1},
	{Name: "event_claimed", Public: true, Status: http.StatusConflict, Step: "trigger", Title: "The event has opened a session already", Remedy: "Each event opens one session, of the runtime that claimed it; wait for the next one."},
	{Name: "event_unclaimed", Public: true, Status: http.StatusForbidden, Step: "trigger", Title: "The event has opened no session", Remedy: "Open a session for the event first."},
	{Name: "event_done", Public: true, Status: http.StatusForbidden, Step: "trigger", Title: "The event's session has ended", Remedy: "Open a session for the next event."},
	{Name: "event_malformed", Status: http.StatusBadRequest, Step: "trigger", Title: "An event cannot be kept", Remedy: "Give it an id of printable ASCII characters and a payload in UTF-8."},
	{Name: "event_too_large", Status: http.StatusRequestEntityTooLarge, Step: "trigger", Title: "An event's payload is too large", Remedy: "Send a smaller payload, such as a reference to the data."},
	{Name: "event_expired", Public: true, Status: http.StatusForbidden, Step: "trigger", Title: "The event is too old", Remedy: "Act on events soon after they arrive; maxAge of the trigger service bounds their age."},
	{Name: "event_budget_spent", Public: true, Status: http.StatusForbidden, Step: "trigger", Title: "The event has paid for its posts", Remedy: "Wait for the next event. One event pays for as many posts of an action as the trigger service's budget says, and for each once. A post that could not be sent is given back, eight times at most."},
	{Name: "webhook_unknown", Status: http.StatusNotFound, Step: "trigger", Title: "There is no such webhook", Remedy: "Deliver to /hooks/NAME with the name of a configured source."},
	{Name: "webhook_malformed", Status: http.StatusBadRequest, Step: "trigger", Title: "A delivery is malformed", Remedy: "Send the headers that the webhook's specification asks for, each once."},
	{Name: "webhook_payload", Status: http.StatusBadRequest, Step: "trigger", Title: "A delivery's payload is not a JSON object", Remedy: "Have the sender deliver application/json."},
	{Name: "webhook_signature", Status: http.StatusUnauthorized, Authenticate: "HMAC-SHA256", Step: "trigger", Title: "A delivery's signature is wrong or missing", Remedy: "Give sender and trigger service the same secret."},
	{Name: "webhook_timestamp", Status: http.StatusUnauthorized, Authenticate: "HMAC-SHA256", Step: "trigger", Title: "A delivery's timestamp is too far off", Remedy: "Set the clocks of both machines by NTP."},
	{Name: "webhook_too_large", Status: http.StatusRequestEntityTooLarge, Step: "trigger", Title: "A delivery is too large", Remedy: "Deliver smaller payloads."},
	{Name: "query_malformed", Status: http.StatusBadRequest, Step: "any", Title: "A request to the mediator itself is malformed", Remedy: "Send what the documentation of the endpoint shows."},
}
