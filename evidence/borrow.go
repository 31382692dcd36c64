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

var buffers = sync.Pool{New: func() any { return new([]byte) }}
