package problem

import "net/http"

// nodeCodes are what a sidecar refuses of what agents ask of the node.
var nodeCodes = []Code{
	{Name: "node_unavailable", Status: http.StatusServiceUnavailable, Step: "reputation", Title: "The node does not answer", Remedy: "Start mediator reputation; check the sidecar's reputation endpoint, and that internal.uids names the sidecar's user there. What was asked for may have been done.", RetryAfter: 5},
	{Name: "probe_unknown", Public: true, Status: http.StatusNotFound, Step: "reputation", Title: "The session has no such probe", Remedy: "Send one of the probes of the session's last challenge, each once."},
}
