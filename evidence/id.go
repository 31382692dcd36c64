package evidence

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// NewID returns a fresh 128-bit random identifier as base64url: a secret, or a name that no database is ordered by.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails; it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// NewOrderedID returns a fresh identifier that sorts by now: a jti, the id of a record, a session or an event. What a database keeps by
// such ids is appended, where random ones would each touch a page of their own. It is as hard to meet twice as 80 random bits in one
// millisecond are.
func NewOrderedID(now time.Time) string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails; it ends the process instead
	return OrderedID(now, random)
}

// OrderedID returns the identifier of these random bytes: 48 bits of Unix milliseconds before them, as UUIDv7 has them (RFC 9562 section
// 5.7), in base32hex without padding, which keeps their order (RFC 4648 section 7).
func OrderedID(now time.Time, random [10]byte) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16+2), uint64(now.UnixMilli())<<16) //nolint:gosec // of a time before 1970 the order is lost, and nothing else
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(append(b[:6], random[:]...))
}
