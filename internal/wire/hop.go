package wire

import (
	"net/http"
	"strings"
)

// HopByHop are the header fields for the next hop only (RFC 9110 section 7.6.1), besides the connection options.
var HopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Authentication-Info", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// RemoveHopByHop removes the fields for the next hop only.
func RemoveHopByHop(h http.Header) {
	for _, name := range ConnectionOptions(h) {
		h.Del(name)
	}
	for _, name := range HopByHop {
		delete(h, name)
	}
}

// ConnectionOptions returns the field names in Connection.
func ConnectionOptions(h http.Header) []string {
	var names []string
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
