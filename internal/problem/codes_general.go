package problem

import "net/http"

// generalCodes are the refusals of configurations, endpoints and processes.
var generalCodes = []Code{
	{Name: internal, Status: http.StatusInternalServerError, Step: "any", Public: true,
		Title:  "The mediator failed",
		Remedy: "Ask the operator to look for this time in the mediator's log. Nothing was sent."},
	{Name: "query_malformed", Status: http.StatusBadRequest, Step: "any", Public: true,
		Title:  "A request to the mediator itself is malformed",
		Remedy: "The sentence says what is wrong. Send what the documentation of the endpoint shows."},
	{Name: "not_found", Status: http.StatusNotFound, Step: "any", Public: true,
		Title: "The name or id is unknown here, or fits several",
		Remedy: "Check what the sentence names, and give more of an id. Lists show what there is; a node learns of a " +
			"session when its sidecar delivers."},
	{Name: "not_configured", Status: http.StatusNotFound, Step: "any", Public: true,
		Title:  "The operator has not turned this on",
		Remedy: "Ask the operator to set what the sentence names."},
	{Name: "process_unavailable", Status: http.StatusServiceUnavailable, Step: "any", RetryAfter: 2,
		Title: "Another process of the mediator does not answer",
		Remedy: "Start the process that the sentence names. Check its endpoint here, and that its internal.uids names " +
			"this user."},
	{Name: "not_ready", Status: http.StatusServiceUnavailable, Step: "admin", RetryAfter: 1,
		Title:  "The process is not ready",
		Remedy: "Wait. The sentence, or the process's log, says for what."},
	{Name: "endpoint_token", Status: http.StatusUnauthorized, Step: "admin", Authenticate: "Bearer",
		Title:  "The endpoint needs its token",
		Remedy: "Send the bearer token of the endpoint."},
	{Name: "config_malformed", Status: http.StatusBadRequest, Step: "config",
		Title:  "A file of the configuration is malformed",
		Remedy: "Correct the lines that the sentence names. The files in configs/ are examples."},
	{Name: "reload_refused", Status: http.StatusUnprocessableEntity, Step: "config",
		Title: "A reload was refused, and the old configuration still applies",
		Remedy: "Correct what the sentence names and reload again, as the mediator's user. mediator config check " +
			"reads the files as the process does."},
	{Name: "restart_required", Status: http.StatusConflict, Step: "config",
		Title:  "A change needs a restart, and the old configuration still applies",
		Remedy: "Restart the process, or take the change back and reload again."},
	{Name: "roles_changed", Status: http.StatusForbidden, Step: "config",
		Title: "A process publishes other roles, issuers or keys than it was certified for",
		Remedy: "Find out why. If the change is yours, start mediator keys certify again. If not, someone may have " +
			"taken over the process."},
	{Name: "listen_failed", Status: http.StatusConflict, Step: "config",
		Title:  "A process cannot listen on its address",
		Remedy: "Do what the sentence says. It names the key and the file, or the process that holds the folder."},
	{Name: "not_confined", Status: http.StatusServiceUnavailable, Step: "config",
		Title: "The kernel cannot confine the process as configured",
		Remedy: "Run it on a kernel that can, or change confine in its configuration. The sentence says what is " +
			"missing."},
	{Name: "deployment_contradicted", Status: http.StatusServiceUnavailable, Step: "config", RetryAfter: 10,
		Title:  "The running deployment contradicts its manifest",
		Remedy: "Ask the operator to run mediator doctor and to correct what it shows. Nothing was sent."},
	{Name: "deployment_unsafe", Status: http.StatusForbidden, Step: "config",
		Title:  "The deployment manifest lacks safeguards",
		Remedy: "Run mediator deployment audit, correct what it lists, and certify the manifest again."},
	{Name: "pin_mismatch", Status: http.StatusForbidden, Step: "decision",
		Title:  "A hash differs from the one that the manifest pins",
		Remedy: "Review what runs. If it is right, write its hash into the manifest and certify the manifest again."},
	{Name: "isolation_unavailable", Status: http.StatusServiceUnavailable, Step: "session",
		Title: "The agent cannot be isolated",
		Remedy: "Correct what the sentence names, and start mediator run again as root, where namespaces can be made. " +
			"Without --require-isolation the agent starts anyway, and its receipts say what is only declared."},
}
