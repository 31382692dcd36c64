package problem

import (
	"cmp"
	"net/http"
	"strings"
)

// ProxyStatusField is the field of RFC 9209, for clients that do not show the document.
const ProxyStatusField = "Proxy-Status"

// WriteByProxy is Write for the connection layer of the proxy. A client that asked for a tunnel shows at most the
// status line: if w has a method SetReason(string), it gets the reason phrase.
func (d Details) WriteByProxy(w http.ResponseWriter) {
	w.Header().Set(ProxyStatusField, d.ProxyStatus())
	if line, ok := w.(interface{ SetReason(string) }); ok {
		line.SetReason(d.Reason())
	}
	d.Write(w)
}

// maxStatusText bounds a reason phrase, and the details of a Proxy-Status, in bytes.
const maxStatusText = 300

// proxyErrors are the error types of RFC 9209 section 2.3 for codes that have one of their own.
var proxyErrors = map[string]string{
	"upstream_unresolvable":          "dns_error",
	"upstream_unreachable":           "destination_unavailable",
	"upstream_suspended":             "destination_unavailable",
	"upstream_certificate_untrusted": "tls_certificate_error",
	"upstream_tls_failed":            "tls_protocol_error",
	"upstream_timeout":               "http_response_timeout",
	"upstream_lost":                  "http_response_incomplete",
	"egress_address_denied":          "destination_ip_prohibited",
	"request_malformed":              "http_request_error",
	"overloaded":                     "connection_limit_reached",
}

// ProxyStatus returns d as the value of a Proxy-Status field (RFC 9209), for an answer of the proxy itself.
func (d Details) ProxyStatus() string {
	kind := "http_request_denied"
	if d.Status >= http.StatusInternalServerError {
		kind = "proxy_internal_error"
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(d.Reason())
	return `mediator; error=` + cmp.Or(proxyErrors[d.Code], kind) + `; details="` + quoted + `"`
}

// Reason returns code and sentence as a reason phrase in printable ASCII. Clients show it for a refused CONNECT, but
// not the body.
func (d Details) Reason() string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, d.Code+": "+d.Detail)
	if len(text) > maxStatusText {
		text = text[:maxStatusText-3] + "..."
	}
	return text
}
