// Package frames reads the streams of model APIs that send no server-sent events: one JSON text per line, as Ollama
// sends, and the event streams of Amazon. Both readers have the methods of [sse.Reader], and are not safe for
// concurrent use.
package frames

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/actionproof/mediator/proxy/sse"
)

// Reader divides a stream into events, as [sse.Reader] does.
type Reader interface {
	Write(p []byte, event func(sse.Event))
	Held() int   // bytes
	Over() bool  // an event was too large
	Odd() bool   // clients may find other events
	End() []byte // an event without its end
}

// Lines reads texts that each end with a line feed.
type Lines struct {
	most int // bytes of one line
	line []byte
	over bool
	odd  bool
}

// NewLines returns a reader of lines of up to most bytes.
func NewLines(most int) *Lines { return &Lines{most: most} }

// Held returns the memory in use, in bytes.
func (l *Lines) Held() int { return cap(l.line) }

// Over reports whether a line was too long. Nothing is read after that.
func (l *Lines) Over() bool { return l.over }

// Odd reports whether some clients find other lines.
func (l *Lines) Odd() bool { return l.odd }

// whole returns a line without its end.
func (l *Lines) whole() []byte {
	line := bytes.TrimSuffix(l.line, []byte("\r"))
	l.odd = l.odd || bytes.ContainsAny(line, "\r"+sse.LineEnds)
	return bytes.TrimSpace(line)
}

// Write calls event with each whole line that is not empty.
func (l *Lines) Write(p []byte, event func(sse.Event)) {
	for len(p) > 0 && !l.over {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		if len(l.line)+len(line) > l.most {
			l.over, l.line = true, nil
			return
		}
		l.line = append(l.line, line...)
		if p = rest; !whole {
			return
		}
		if line := l.whole(); len(line) > 0 {
			event(sse.Event{Data: line})
		}
		l.line = l.line[:0]
	}
}

// End returns a line without its end: some clients take it.
func (l *Lines) End() []byte { return l.whole() }

// Exception begins the type of an event that reports a failure.
const Exception = "exception:"

// EventStream reads messages of the media type application/vnd.amazon.eventstream.
type EventStream struct {
	most  int // bytes of one message
	held  []byte
	over  bool
	wrong bool
}

// NewEventStream returns a reader of messages of up to most bytes.
func NewEventStream(most int) *EventStream { return &EventStream{most: most} }

// Held returns the memory in use, in bytes.
func (e *EventStream) Held() int { return cap(e.held) }

// Over reports whether a message was too large. Nothing is read after that.
func (e *EventStream) Over() bool { return e.over }

// Odd reports whether the stream is broken, or stops within a message.
func (e *EventStream) Odd() bool { return e.wrong }

// End returns nothing: no clients take a part of a message, and some fail.
func (e *EventStream) End() []byte {
	e.wrong = e.wrong || len(e.held) > 0
	return nil
}

// A message has the lengths of the whole and of its headers, their checksum, the headers, the payload, and a checksum
// of all before it. Numbers have four bytes, the most significant first.
const (
	prelude   = 12
	least     = prelude + 4
	textValue = 7 // the type of a header's value
)

// Write calls event with each whole message. A message that breaks the format becomes an event that is no JSON.
func (e *EventStream) Write(p []byte, event func(sse.Event)) {
	if e.over || e.wrong {
		return
	}
	e.held = append(e.held, p...)
	rest := e.held
read:
	for len(rest) >= prelude && !e.over && !e.wrong {
		size := uint64(binary.BigEndian.Uint32(rest))
		switch {
		case size < least || crc32.ChecksumIEEE(rest[:8]) != binary.BigEndian.Uint32(rest[8:]):
			e.fail(event)
		case size > uint64(e.most):
			e.over = true
		case uint64(len(rest)) < size:
			break read
		default:
			e.message(rest[:size], event)
			rest = rest[size:]
		}
	}
	switch {
	case e.over || e.wrong:
		e.held = nil
	case len(rest) < len(e.held): // otherwise a large message in small pieces would be copied again and again
		e.held = append(e.held[:0], rest...)
	}
}

func (e *EventStream) fail(event func(sse.Event)) {
	e.wrong = true
	event(sse.Event{Data: []byte("-")})
}

func (e *EventStream) message(m []byte, event func(sse.Event)) {
	end := len(m) - 4
	headers := uint64(binary.BigEndian.Uint32(m[4:]))
	if headers > uint64(end-prelude) || crc32.ChecksumIEEE(m[:end]) != binary.BigEndian.Uint32(m[end:]) {
		e.fail(event)
		return
	}
	at := prelude + int(headers)
	all, ok := texts(m[prelude:at])
	if !ok {
		e.fail(event)
		return
	}
	out := sse.Event{Type: all[":event-type"], Data: m[at:end]}
	switch kind := all[":message-type"]; {
	case kind == "event" && out.Type != "":
	case kind == "exception":
		out.Type = Exception + all[":exception-type"]
	case kind == "error":
		out = sse.Event{Type: Exception + all[":error-code"], Data: []byte("{}")}
	default: // to some clients an event, to others a failure
		e.fail(event)
		return
	}
	event(out)
}

// sizes of the values of fixed size, by their type.
var sizes = [...]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}

// texts returns the headers, each with its value if that is a text.
func texts(raw []byte) (map[string]string, bool) {
	all := make(map[string]string, 3)
	take := func(n int) []byte {
		if n > len(raw) {
			raw = nil
			return nil
		}
		out := raw[:n]
		raw = raw[n:]
		return out
	}
	for len(raw) > 0 {
		n := take(1)
		name := take(int(n[0]))
		kind := take(1)
		if len(name) == 0 || kind == nil {
			return nil, false
		}
		size := 0
		switch k := kind[0]; {
		case k == 6 || k == textValue:
			length := take(2)
			if length == nil {
				return nil, false
			}
			size = int(binary.BigEndian.Uint16(length))
		case int(k) < len(sizes):
			size = sizes[k]
		default:
			return nil, false
		}
		value := take(size)
		if len(value) != size {
			return nil, false
		}
		if _, twice := all[string(name)]; twice {
			return nil, false
		}
		if kind[0] != textValue {
			value = nil
		}
		all[string(name)] = string(value)
	}
	return all, true
}
