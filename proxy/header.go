package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/wire"
)

// pathOverrides are headers with which some servers are told to act on another path than the one that a request shows.
var pathOverrides = []string{"X-Original-Url", "X-Rewrite-Url"}

// contentHeaders say how the body is to be read, and whose request it is.
var contentHeaders = []string{"Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Idempotency-Key"}

// checkHeader refuses a header with which an upstream could read another call than the one that is decided here.
func checkHeader(r *http.Request) error {
	h := r.Header
	// HTTP/1 has been judged by strictConn. In HTTP/2 net/http takes the first of several lengths, and any for no body.
	if lengths := h["Content-Length"]; len(lengths) > 1 || len(lengths) == 1 && lengths[0] != strconv.FormatInt(r.ContentLength, 10) {
		return evidence.Refuse("framing_ambiguous", "the header gives the body's length as %.40q, which it does not have", strings.Join(lengths, ", "))
	}
	if name := wire.MethodOverride(h); name != "" {
		return evidence.Refuse("header_refused", "the header %s would change the method that the call is bound to", name)
	}
	for name := range h {
		dashed := dashed(name)
		switch {
		case slices.Contains(pathOverrides, dashed):
			return evidence.Refuse("header_refused", "the header %s would change the path that the call is bound to", name)
		case dashed != name && (hasMeaning(dashed) || slices.Contains(hopByHop, dashed)):
			return evidence.Refuse("header_refused", "some servers take the header %s for %s", name, dashed)
		}
	}
	for _, name := range connectionOptions(h) {
		if hasMeaning(dashed(name)) {
			return evidence.Refuse("header_refused", "Connection names %.40q, which is not for the next hop alone", name)
		}
	}
	return nil
}

// dashed returns a header's name as servers know it that read _ as -.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// hasMeaning reports whether the mediator itself reads, sets or removes a header of a call. name is canonical.
func hasMeaning(name string) bool {
	return slices.Contains(contentHeaders, name) || slices.Contains(agentCredentials, name) || slices.Contains(protocolHeaders, name)
}
