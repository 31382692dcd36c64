// Package sse reads streams of server-sent events (HTML standard, section 9.2.6) as they pass.
package sse

import "bytes"

// Event is one event of a stream. Its data is valid only while it is looked at.
type Event struct {
	Type string // empty where the stream names none, which is the type message
	ID   string
	Data []byte
}

// Reader reads a stream that comes in pieces of any size. It is not safe for concurrent use.
type Reader struct {
	most int // bytes of one event
	line []byte
	data []byte
	kind string // the type of the event that is read
	id   string // of the same

	begun   bool // something was read
	hasData bool
	cr      bool // the last byte was a CR, whose LF ends no other line
	over    bool // an event was larger than most: nothing after that is read
}

// NewReader returns a reader of events of up to most bytes.
func NewReader(most int) *Reader { return &Reader{most: most} }

// Held returns how many bytes of memory the reader holds.
func (e *Reader) Held() int { return cap(e.line) + cap(e.data) }

// Over reports whether an event was larger than the reader takes. It reads nothing after that.
func (e *Reader) Over() bool { return e.over }

var byteOrderMark = []byte("\xef\xbb\xbf")

// Write reads a piece of the stream, and calls event for each event that ends in it.
func (e *Reader) Write(p []byte, event func(Event)) {
	for len(p) > 0 && !e.over {
		if e.cr && p[0] == '\n' {
			e.cr, p = false, p[1:]
			continue
		}
		e.cr = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			e.add(p)
			return
		}
		e.add(p[:end])
		e.cr, p = p[end] == '\r', p[end+1:]
		e.endLine(event)
	}
}

func (e *Reader) add(p []byte) {
	if len(e.line)+len(e.data)+len(p) > e.most {
		e.over, e.line, e.data = true, nil, nil
		return
	}
	e.line = append(e.line, p...)
}

func (e *Reader) endLine(event func(Event)) {
	if e.over {
		return
	}
	line := e.line
	if !e.begun {
		line, e.begun = bytes.TrimPrefix(line, byteOrderMark), true
	}
	e.line = e.line[:0]
	if len(line) == 0 {
		if e.hasData || e.id != "" {
			event(Event{e.kind, e.id, e.data})
		}
		e.data, e.hasData, e.kind, e.id = e.data[:0], false, "", ""
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if e.hasData {
			e.data = append(e.data, '\n')
		}
		e.data, e.hasData = append(e.data, value...), true
	case "event":
		e.kind = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id = string(value)
		}
	}
}
