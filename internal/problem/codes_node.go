package problem

import "net/http"

// nodeCodes are what a sidecar refuses of what agents ask of the node.
var nodeCodes = []Code{
	{Name: "node_unavailable", Status: http.StatusServiceUnavailable, Step: "reputation", Title: "The node does not answer", Remedy: "Start mediator reputation; check the sidecar's reputation endpoint, and that internal.uids names the sidecar's user there. What was asked for may have been done.", RetryAfter: 5},
}
