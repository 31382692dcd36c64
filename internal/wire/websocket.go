package wire

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 says so; nothing rests on it but that both sides speak of one handshake
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// CheckWebSocket refuses an upgrade that is not a plain WebSocket opening handshake (RFC 6455 section 4.2.1).
func CheckWebSocket(r *http.Request) error {
	key := r.Header["Sec-Websocket-Key"]
	why := ""
	switch {
	case r.Method != http.MethodGet || r.ProtoMajor != 1 || r.ProtoMinor != 1:
		why = "is not a GET over HTTP/1.1"
	case r.Body != nil && r.Body != http.NoBody || r.ContentLength != 0:
		why = "has a body"
	case !isUpgrade(r.Header) || slices.ContainsFunc(ConnectionOptions(r.Header), isOfHandshake):
		why = "must ask for the protocol websocket, and no other, in Upgrade and Connection"
	case !slices.Equal(r.Header["Sec-Websocket-Version"], []string{"13"}):
		why = "must have Sec-WebSocket-Version exactly once, with 13"
	case len(key) != 1 || !isNonce(key[0]):
		why = "has no key of 16 bytes"
	default:
		return nil
	}
	return refusal.New("request_malformed", "the handshake %s", why)
}

func isNonce(s string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == 16
}

// NamesWebSocket reports whether Upgrade names WebSocket alone. The length excludes a long s, which strings.EqualFold
// takes for an s.
func NamesWebSocket(h http.Header) bool {
	to := h["Upgrade"]
	return len(to) == 1 && len(to[0]) == len("websocket") && strings.EqualFold(to[0], "websocket")
}

func isUpgrade(h http.Header) bool {
	return NamesWebSocket(h) &&
		slices.ContainsFunc(ConnectionOptions(h), func(o string) bool { return strings.EqualFold(o, "upgrade") })
}

// isOfHandshake reports whether a field that Connection names belongs to the handshake. The proxy would remove it.
func isOfHandshake(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), "sec-websocket-")
}

// AskWebSocket sets the handshake's hop-by-hop fields.
func AskWebSocket(h http.Header) {
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
}

// IsWebSocketAnswer reports whether answer is the header of a 101 to the handshake asked (RFC 6455 section 4.1).
func IsWebSocketAnswer(asked, answer http.Header) bool {
	if !isUpgrade(asked) || !isUpgrade(answer) || len(asked["Sec-Websocket-Key"]) != 1 {
		return false
	}
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	sum := sha1.Sum([]byte(asked["Sec-Websocket-Key"][0] + guid)) //nolint:gosec // see the import
	return slices.Equal(answer["Sec-Websocket-Accept"], []string{base64.StdEncoding.EncodeToString(sum[:])}) &&
		len(answer["Content-Length"])+len(answer["Transfer-Encoding"]) == 0 && isOffered(asked, answer)
}

func isOffered(asked, answer http.Header) bool {
	chosen := answer["Sec-Websocket-Protocol"]
	if len(chosen) == 0 {
		return true
	}
	return len(chosen) == 1 && slices.ContainsFunc(asked["Sec-Websocket-Protocol"], func(line string) bool {
		return slices.ContainsFunc(strings.Split(line, ","),
			func(p string) bool { return strings.TrimSpace(p) == chosen[0] })
	})
}
