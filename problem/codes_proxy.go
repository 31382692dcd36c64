package problem

import "net/http"

// proxyCodes are the refusals of packages proxy, ledger and custody, and of the processes' own endpoints.
var proxyCodes = []Code{
	{Name: "session_required", Status: http.StatusProxyAuthRequired, Step: "session", Title: "The call belongs to no session", Remedy: "Start the agent with mediator run, or let a standing session wait for an event at http://mediator.internal/v1/event/next."},
	{Name: "session_credentials", Status: http.StatusProxyAuthRequired, Step: "session", Title: "The proxy credentials belong to no open session", Remedy: "Use the HTTP_PROXY that mediator run gives the agent; it ends with the session."},
	{Name: "sessions_exhausted", Status: http.StatusServiceUnavailable, Step: "session", Title: "Too many sessions are open", Remedy: "End sessions, or run more sidecars.", RetryAfter: 5},
	{Name: "session_unknown", Status: http.StatusNotFound, Step: "session", Title: "There is no such session", Remedy: "It may have ended already."},
	{Name: "session_single_event", Status: http.StatusConflict, Step: "session", Title: "The agent was started for one event", Remedy: "Start an agent for each event, or use a standing session."},
	{Name: "target_mismatch", Status: http.StatusMisdirectedRequest, Step: "match", Title: "Host, SNI, URL and CONNECT target disagree", Remedy: "Send each request through a tunnel to its own host."},
	{Name: "action_unmatched", Status: http.StatusForbidden, Step: "match", Title: "No rule names this posting call", Remedy: "Add an action rule for it, or an egress rule if it posts nothing."},
	{Name: "egress_denied", Status: http.StatusForbidden, Step: "match", Title: "No rule allows this call", Remedy: "Add an egress rule for it."},
	{Name: "path_ambiguous", Status: http.StatusBadRequest, Step: "match", Title: "The path could be read in more than one way", Remedy: "Write the path in its normal form: no dot segments, no empty segments, no needless escapes."},
	{Name: "upgrade_refused", Status: http.StatusForbidden, Step: "match", Title: "Only HTTP requests can be mediated", Remedy: "Use plain HTTP requests; WebSocket and other protocols are not forwarded."},
	{Name: "content_too_large", Status: http.StatusRequestEntityTooLarge, Step: "content", Title: "The body is too large", Remedy: "Send less, or raise maxBody of the action."},
	{Name: "content_incomplete", Status: http.StatusBadRequest, Step: "content", Title: "The body ended early", Remedy: "Send the whole body."},
	{Name: "content_encoded", Status: http.StatusUnsupportedMediaType, Step: "content", Title: "The body is encoded", Remedy: "Send plain JSON, or configure the action with content: raw."},
	{Name: "content_type", Status: http.StatusUnsupportedMediaType, Step: "content", Title: "The body is not of the type that the action takes", Remedy: "Send application/json, or configure the action with content: raw."},
	{Name: "content_trailers", Status: http.StatusBadRequest, Step: "content", Title: "The body has trailers", Remedy: "Send the request without trailers."},
	{Name: "content_spool", Status: http.StatusInsufficientStorage, Step: "content", Title: "The body could not be kept while it is verified", Remedy: "Free space in the state folder."},
	{Name: "header_refused", Status: http.StatusBadRequest, Step: "content", Title: "A header would change the call", Remedy: "Leave the header out."},
	{Name: "query_refused", Status: http.StatusForbidden, Step: "content", Title: "The action takes no query", Remedy: "Leave the query out, or set query: true on the action."},
	{Name: "receipt_mismatch", Status: http.StatusForbidden, Step: "trigger", Title: "The trigger service answered for something else", Remedy: "Check that the sidecar asks its own trigger service."},
	{Name: "target_invalid", Status: http.StatusBadRequest, Step: "connect", Title: "The request target is not a plain host and port", Remedy: "Use a domain name, dotted IPv4 or bracketed IPv6, without user information."},
	{Name: "connect_malformed", Status: http.StatusBadRequest, Step: "connect", Title: "The CONNECT is not one that is taken", Remedy: "Send CONNECT over HTTP/1.1, without a body, not inside a tunnel."},
	{Name: "cleartext_refused", Status: http.StatusForbidden, Step: "connect", Title: "HTTP without TLS to port 443", Remedy: "Speak TLS in the tunnel."},
	{Name: "tls_handshake_failed", Status: http.StatusBadRequest, Step: "connect", Title: "The TLS handshake with the client failed", Remedy: "Make the client trust the CA of the mediator (mediator ca show)."},
	{Name: "too_many_tunnels", Status: http.StatusServiceUnavailable, Step: "connect", Title: "Too many tunnels are open", Remedy: "Reuse connections.", RetryAfter: 1},
	{Name: "shutting_down", Status: http.StatusServiceUnavailable, Step: "connect", Title: "The mediator is shutting down", Remedy: "Try again.", RetryAfter: 5},
	{Name: "not_a_proxy_request", Status: http.StatusBadRequest, Step: "connect", Title: "This is a proxy, not a server", Remedy: "Set HTTP_PROXY and HTTPS_PROXY to this address."},
	{Name: "client_gone", Status: statusClientGone, Step: "forward", Title: "The client went away", Remedy: "Nothing; the record says whether the call was sent."},
	{Name: "upstream_unresolvable", Status: http.StatusBadGateway, Step: "forward", Title: "The host name could not be resolved", Remedy: "Check the name, and the DNS of the pod; nothing was sent."},
	{Name: "upstream_unreachable", Status: http.StatusBadGateway, Step: "forward", Title: "No connection to the upstream", Remedy: "Check the upstream and network policies; nothing was sent."},
	{Name: "upstream_certificate_untrusted", Status: http.StatusBadGateway, Step: "forward", Title: "The certificate of the upstream could not be verified", Remedy: "Give its CA in upstreams; nothing was sent."},
	{Name: "upstream_tls_failed", Status: http.StatusBadGateway, Step: "forward", Title: "The TLS handshake with the upstream failed", Remedy: "Check the TLS of the upstream; nothing was sent."},
	{Name: "upstream_timeout", Status: http.StatusGatewayTimeout, Step: "forward", Title: "The upstream did not answer in time", Remedy: "See upstream whether the call arrived before trying again."},
	{Name: "upstream_lost", Status: http.StatusBadGateway, Step: "forward", Title: "The connection to the upstream broke", Remedy: "See upstream whether the call arrived before trying again."},
	{Name: "egress_address_denied", Status: http.StatusForbidden, Step: "egress", Title: "The address of the host may not be dialled", Remedy: "Add its network to upstreams if it is meant to be reached."},
	{Name: "internal_unknown", Status: http.StatusNotFound, Step: "internal", Title: "mediator.internal has no such page", Remedy: "Ask for /v1/event, /v1/event/next or /v1/ca.pem."},
	{Name: "wait_malformed", Status: http.StatusBadRequest, Step: "internal", Title: "The wait is malformed", Remedy: "Write a duration such as wait=30s, at most 60s."},
	{Name: "not_ready", Status: http.StatusServiceUnavailable, Step: "admin", Title: "The process is not ready", Remedy: "See its log for what it waits for.", RetryAfter: 1},
	{Name: "endpoint_token", Status: http.StatusUnauthorized, Authenticate: "Bearer", Step: "admin", Title: "The endpoint needs its token", Remedy: "Send the bearer token of the endpoint."},
	{Name: "post_unknown", Status: http.StatusNotFound, Step: "admin", Title: "There is no such record", Remedy: "mediator posts list shows the records that there are."},
	{Name: "replayed", Status: http.StatusConflict, Step: "ledger", Title: "Something that is good once was used again", Remedy: "Make the call again; fresh artifacts are issued for it."},
	{Name: "ledger_unavailable", Status: http.StatusServiceUnavailable, Step: "ledger", Title: "The ledger could not be read or written", Remedy: "See the log of the mediator; its disk may be full or read-only.", RetryAfter: 5},
	{Name: "indeterminate", Status: http.StatusBadGateway, Step: "ledger", Title: "The outcome of the post is not known", Remedy: "See upstream whether the call arrived before trying again."},
	{Name: "credential_unavailable", Status: http.StatusServiceUnavailable, Step: "proof", Title: "The credential that the rule injects cannot be had", Remedy: "Check where the credential comes from; nothing was sent.", RetryAfter: 2},
	{Name: "custody_unavailable", Status: http.StatusServiceUnavailable, Step: "custody", Title: "A signature could not be made", Remedy: "Check the custody of the key; nothing was sent.", RetryAfter: 2},
}

// statusClientGone is what the record says of a call whose client went away; nobody reads the answer.
const statusClientGone = 499
