package challenge

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// maxDraws bounds the draws for one challenge, so that a repeating source ends in an error. Thousands are usual.
const maxDraws = 1 << 18

var errStuck = errors.New("challenge: the source of randomness repeats itself")

// random draws unbiased numbers from a source of bytes. Its first error sticks; every later draw is 0.
type random struct {
	r     io.Reader
	err   error
	drawn int
	buf   [16]byte // a field, because on the stack it would escape with every draw
}

// bytes returns n <= 16 random bytes, good until the next draw.
func (r *random) bytes(n int) []byte {
	if r.drawn++; r.drawn > maxDraws && r.err == nil {
		r.err = errStuck
	}
	if r.err == nil {
		_, r.err = io.ReadFull(r.r, r.buf[:n])
	}
	if r.err != nil {
		clear(r.buf[:])
	}
	return r.buf[:n]
}

// below returns a number in [0, n), n > 0.
func (r *random) below(n int) int {
	bound := uint32(n)
	limit := ^uint32(0) - ^uint32(0)%bound // rejection keeps the draw unbiased
	for {
		if v := binary.LittleEndian.Uint32(r.bytes(4)); v < limit {
			return int(v % bound)
		}
	}
}

func (r *random) between(low, high int) int { return low + r.below(high-low+1) }

// two returns different numbers in [0, n).
func (r *random) two(n int) (int, int) {
	a := r.below(n)
	return a, (a + 1 + r.below(n-1)) % n
}

func shuffle[T any](r *random, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := r.below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// id is [evidence.NewID] from r.
func (r *random) id() string {
	var text [22]byte // of 16 bytes
	base64.RawURLEncoding.Encode(text[:], r.bytes(16))
	return string(text[:])
}
