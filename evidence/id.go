package evidence

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// NewID returns a random 128-bit identifier as base64url, for secrets and for names that no database orders by.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// NewOrderedID returns an identifier with 80 random bits that sorts by time, so that databases append it.
func NewOrderedID(now time.Time) string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	return OrderedID(now, random)
}

// OrderedID returns 48 bits of Unix milliseconds and random, as in UUIDv7 (RFC 9562), in base32hex, which keeps their
// order.
func OrderedID(now time.Time, random [10]byte) string {
	millis := uint64(now.UnixMilli()) //nolint:gosec // a time before 1970 only loses its order
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16+2), millis<<16)
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(append(b[:6], random[:]...))
}
