package evidence

import "sync"

// borrow lends use an empty buffer, and takes it back as it has grown. Tokens are text, and what hashes, verifies and encodes them takes
// bytes: an array for them on the stack would make the stack of nearly every goroutine grow, which costs more than it saves. Nothing may
// keep the buffer, or anything of it.
func borrow(use func(empty []byte) (grown []byte)) {
	buffer := buffers.Get().(*[]byte)
	*buffer = use((*buffer)[:0])
	buffers.Put(buffer)
}

// asBytes calls use with a text as bytes, under the terms of borrow.
func asBytes(text string, use func([]byte)) {
	borrow(func(b []byte) []byte {
		b = append(b, text...)
		use(b)
		return b
	})
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}
