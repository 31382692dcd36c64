package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Client is the peer of a handshake that this side has accepted.
const Client = "the client"

// HandshakeFailure explains why a TLS handshake with a peer, [Client] or a server's name, failed; byPeer reports
// whether that side ended it. The sentence quotes nothing that the peer wrote: alerts come from a fixed set, and this
// side's errors are cut before their first value.
func HandshakeFailure(err error, peer string) (sentence string, byPeer bool) {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "remote error":
		return peer + " ended it with the alert " + strings.TrimPrefix(op.Err.Error(), "tls: "), true
	case HungUp(err):
		return peer + " closed the connection without saying why", true
	case op != nil && peer == Client && op.Err.Error() == "tls: bad record MAC": // a server's alert is encrypted by then
		return peer + " ended it with an unencrypted alert, as OpenSSL does if it distrusts the certificate", true
	case op != nil:
		err = op.Err
	}
	words, ok := strings.CutPrefix(err.Error(), "tls: ")
	if i := strings.IndexFunc(words, func(r rune) bool { return strings.ContainsRune(`:(["`, r) }); i >= 0 {
		words = words[:i]
	}
	if !ok || len(words) > 100 {
		return "the connection broke", false
	}
	return "the mediator ended it, because of: " + strings.TrimSpace(words), false
}

// HungUp reports whether a handshake failed because the peer closed the connection without a word.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
