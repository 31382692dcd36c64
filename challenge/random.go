package challenge

import (
	"encoding/binary"
	"io"
)

// random draws unbiased numbers from a source of random bytes. The first failure of the source sticks.
type random struct {
	r   io.Reader
	err error
}

// below returns a number in [0, n), n > 0.
func (r *random) below(n int) int {
	bound := uint32(n)
	limit := ^uint32(0) - ^uint32(0)%bound // rejection keeps the draw unbiased
	for r.err == nil {
		var b [4]byte
		if _, r.err = io.ReadFull(r.r, b[:]); r.err != nil {
			break
		}
		if v := binary.LittleEndian.Uint32(b[:]); v < limit {
			return int(v % bound)
		}
	}
	return 0
}

// between returns a number in [low, high].
func (r *random) between(low, high int) int { return low + r.below(high-low+1) }

// shuffle orders n elements at random (Fisher-Yates).
func (r *random) shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.below(i+1))
	}
}
