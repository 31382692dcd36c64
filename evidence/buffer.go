package evidence

import "sync"

// withBuffer calls use with an empty buffer, and keeps the buffer that use returns for the next call. Use must keep nothing of it. A post
// hashes, encodes and verifies some fifty texts, and each would otherwise be copied into memory of its own.
func withBuffer(use func(empty []byte) (grown []byte)) {
	buffer := buffers.Get().(*[]byte)
	*buffer = use((*buffer)[:0])
	buffers.Put(buffer)
}

// withBytes calls use with a text as bytes. Use must keep nothing of them.
func withBytes(text string, use func([]byte)) {
	withBuffer(func(b []byte) []byte {
		b = append(b, text...)
		use(b)
		return b
	})
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}
