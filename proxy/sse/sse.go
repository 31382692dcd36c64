// Package sse reads streams of server-sent events (HTML standard, section 9.2.6) as they pass.
package sse

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Event is one event, or an id or a retry time without data. Data is valid only during the callback that gets it.
type Event struct {
	Type  string // empty where the stream names none, which means message
	ID    string
	Retry string // decimal milliseconds until the client should connect again; empty if not given
	Data  []byte // nil if the event has none
	// Plain means that one line was all that came since the last event, began with "data: " and ended as the empty line
	// after it: Google's clients drop any other event, or fail.
	Plain bool
}

// IsMessage reports whether the event has the type that clients take if none is named.
func (e Event) IsMessage() bool { return e.Type == "" || e.Type == "message" }

// Append appends the event to a stream. Its id and data must hold none of [LineEnds].
func (e Event) Append(to []byte) (stream []byte) {
	for _, field := range []struct{ name, value string }{{"id", e.ID}, {"event", e.Type}, {"retry", e.Retry}} {
		if field.value != "" {
			to = append(to, field.name+": "+field.value+"\n"...)
		}
	}
	if e.Data != nil {
		for line := range bytes.SplitSeq(e.Data, []byte("\n")) {
			to = append(append(append(to, "data: "...), line...), '\n')
		}
	}
	return append(to, '\n')
}

// Reader reads a stream that comes in pieces of any size. It is not safe for concurrent use.
type Reader struct {
	most int // bytes of one event
	line []byte
	next Event  // the current one, without its data
	data []byte // its data; never nil

	begun   bool // something was read
	hasData bool
	lines   bool // some came since the last event, also empty ones
	plain   bool
	plainCR bool // the plain line ended with a CR
	cr      bool // the last byte was a CR: an LF that follows ends no other line
	over    bool
	odd     bool
}

// NewReader returns a reader of events of up to most bytes.
func NewReader(most int) *Reader { return &Reader{most: most, data: []byte{}} }

// Held is in bytes.
func (e *Reader) Held() int { return cap(e.line) + cap(e.data) }

// Over reports whether an event was too large. Nothing is read after that.
func (e *Reader) Over() bool { return e.over }

// Odd reports whether some clients may find another event in the last piece, or at the end, or read no further. A line
// is odd if it is no field of the standard, has no colon, ends with a lone CR, begins with a byte order mark, or has a
// character that ends lines in some languages.
func (e *Reader) Odd() bool { return e.odd }

var byteOrderMark = []byte("\xef\xbb\xbf")

func (e *Reader) Write(p []byte, event func(Event)) {
	e.odd = false
	for len(p) > 0 && !e.over {
		if e.cr && p[0] == '\n' {
			e.cr, p = false, p[1:]
			continue
		}
		e.odd = e.odd || e.cr
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

// End returns the data of an unfinished event of any type: some clients take it.
func (e *Reader) End() []byte {
	odd := splitElsewhere(e.line)
	if len(e.line) > 0 {
		e.endLine(func(Event) {})
	}
	e.odd = odd // a line that broke off need not be a field
	return e.data
}

func (e *Reader) add(p []byte) {
	if len(e.line)+len(e.data)+len(p) > e.most {
		e.over, e.line, e.data = true, nil, []byte{}
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
		e.odd = e.odd || len(line) < len(e.line)
	}
	e.line = e.line[:0]
	if len(line) == 0 {
		e.lines = !e.hasData && e.next.ID == "" && e.next.Retry == ""
		if !e.lines { // an event
			e.next.Plain = e.plain && e.plainCR == e.cr
			if e.hasData {
				e.next.Data = e.data
			}
			event(e.next)
		}
		e.next, e.data, e.hasData = Event{}, e.data[:0], false
		return
	}
	e.plain, e.plainCR, e.lines = !e.lines && bytes.HasPrefix(line, []byte("data: ")), e.cr, true
	field, value, hasColon := bytes.Cut(line, []byte(":"))
	e.odd = e.odd || !hasColon || splitElsewhere(line) || string(field) != "data" && bytes.ContainsAny(line, LineEnds)
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if e.hasData {
			e.data = append(e.data, '\n')
		}
		e.data, e.hasData = append(e.data, value...), true
	case "event":
		e.next.Type = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.next.ID = string(value)
		}
	case "retry":
		if len(value) > 0 && len(value) < 10 && len(bytes.Trim(value, "0123456789")) == 0 {
			e.next.Retry = string(value)
		}
	case "":
	default:
		e.odd = true
	}
}

// LineEnds are the characters that end a line in Python's str.splitlines, which httpx uses, but not in the standard.
const LineEnds = "\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

// splitElsewhere reports whether "data" follows a character of LineEnds, where some clients read it as a field.
func splitElsewhere(line []byte) bool {
	for {
		at := bytes.Index(line, []byte("data"))
		if at < 0 {
			return false
		}
		if before, _ := utf8.DecodeLastRune(line[:at]); strings.ContainsRune(LineEnds, before) {
			return true
		}
		line = line[at+len("data"):]
	}
}
