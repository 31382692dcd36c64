package forward

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// overrides are headers that make some servers act on another path, host or method than the request shows. Proxies set
// them for the servers behind them; agents must not. Gunicorn cuts SCRIPT_NAME off the path, and all before it.
var overrides = map[string]string{
	"X-Original-Url": "path", "X-Rewrite-Url": "path", "X-Original-Uri": "path", "X-Forwarded-Uri": "path",
	"X-Forwarded-Path": "path", "X-Forwarded-Prefix": "path", "X-Traversal-Path": "path",
	"X-Forwarded-Pathbase": "path", "X-Original-Path": "path", "X-Envoy-Original-Path": "path",
	"X-Replaced-Path": "path", "X-Ms-Original-Url": "path", "X-Waws-Unencoded-Url": "path",
	"Script-Name": "path", "X-Script-Name": "path", "X-Forwarded-Script-Name": "path", "Path-Info": "path",
	"X-Forwarded-Host": "host", "X-Forwarded-Server": "host", "X-Original-Host": "host", "X-Host": "host",
	"X-Http-Host-Override": "host", "Forwarded": "host",
	"X-Original-Method": "method", "X-Forwarded-Method": "method",
}

// overridden returns what a header changes of the bound call, or nothing. dashed is its name from wire.CGIName.
func overridden(dashed string) string {
	if wire.IsOverride(dashed) {
		return "method"
	}
	return overrides[dashed]
}

// digestHeader names the content of a signed post, and of one to an API that takes part. Other calls may have the
// agent's own.
const digestHeader = "Content-Digest"

// contentHeaders say how to read the body, and whose request it is.
var contentHeaders = []string{"Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Idempotency-Key"}

// protocolHeaders belong to the mediator's own protocol, or are its signature (package botauth). Agents never speak for
// it.
var protocolHeaders = []string{
	"Actionproof-Capability", "Actionproof-Request-Proof", "Actionproof-Challenge", "Actionproof-Response",
	"Actionproof-Caller", "Agent-Statement", "Signature", "Signature-Agent", "Signature-Input",
}

// CheckHeader refuses a header, or a query parameter, that could make an upstream read another call than this one.
func CheckHeader(r *http.Request) error {
	h := r.Header
	// http1Reader has judged HTTP/1. Over HTTP/2 net/http takes the first of several lengths, and any length without a
	// body.
	if lengths := h["Content-Length"]; len(lengths) > 1 || len(lengths) == 1 &&
		lengths[0] != strconv.FormatInt(r.ContentLength, 10) {
		return refusal.New("request_malformed", "the header gives the body's length as %.40q, which is wrong",
			strings.Join(lengths, ", "))
	}
	if name := wire.QueryOverride(r.Method, r.URL.RawQuery); name != "" {
		return refusal.New("override_refused",
			"some servers take the call's method or headers from the query parameter %.40q", name)
	}
	for name := range h {
		dashed := wire.CGIName(name)
		if what := overridden(dashed); what != "" {
			return refusal.New("override_refused", "some servers take the call's %[2]s from the header %[1]s", name,
				what)
		}
		if dashed != name && (HasMeaning(dashed) || dashed == digestHeader || slices.Contains(wire.HopByHop, dashed)) {
			return refusal.New("override_refused", "some servers take the header %s for %s", name, dashed)
		}
	}
	for _, name := range wire.ConnectionOptions(h) {
		if HasMeaning(wire.CGIName(name)) {
			return refusal.New("override_refused",
				"the header Connection must not list %.40q, because the upstream must get that header", name)
		}
	}
	return nil
}

// usualHeaders describe the client, what it can read, or the hashed body. Headers that are replaced or dropped are
// usual too.
var usualHeaders = slices.Concat([]string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Content-Length", "Content-Type", "Date",
	"Expect", "Idempotency-Key",
	"Traceparent", "Tracestate", "User-Agent",
	"Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", // of Fetch clients, such as Node's
}, wire.HopByHop, agentCredentials, protocolHeaders)

// IsUsual reports whether any call may have this header. name is canonical.
func IsUsual(name string) bool { return slices.Contains(usualHeaders, name) }

// agentCredentials are the headers with which an agent could bring its own credentials into a post. APIs with other
// such headers need an action that lists its headers.
var agentCredentials = []string{
	"Authorization", "Cookie", "Api-Key", "X-Api-Key", "X-Auth-Token", "X-Access-Token",
	"X-Goog-Api-Key", "X-Amz-Security-Token", "X-Shopify-Access-Token", "X-Vault-Token", // Google, AWS, Shopify, Vault
	"Private-Token", "Job-Token", "Deploy-Token", // GitLab
}

// DropCredentials removes the agent's own credentials from h.
func DropCredentials(h http.Header) {
	for _, name := range agentCredentials {
		h.Del(name)
	}
}

// CheckCredentialHeader refuses a header that cannot carry a credential. It refuses headers that HTTP or the mediator
// reads, such as Host: net/http sends something else for them, or the upstream reads another call.
func CheckCredentialHeader(header string) error {
	name := http.CanonicalHeaderKey(header)
	switch {
	case header == "":
		return errors.New("a credential needs a header")
	case !httpguts.ValidHeaderFieldName(header):
		return fmt.Errorf("%q is not the name of a header", header)
	case slices.Contains(contentHeaders, name) || slices.Contains(wire.HopByHop, name) ||
		slices.Contains(protocolHeaders, name) || overridden(wire.CGIName(name)) != "":
		return fmt.Errorf("the header %s has a meaning of its own, so it cannot carry a credential", name)
	}
	return nil
}

// HasMeaning reports whether the mediator itself reads, sets or removes this header. name is canonical.
func HasMeaning(name string) bool {
	return slices.Contains(contentHeaders, name) || slices.Contains(agentCredentials, name) ||
		slices.Contains(protocolHeaders, name)
}
