package sse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/sse"
)

func read(r *sse.Reader, pieces ...string) (events []string) {
	for _, p := range pieces {
		r.Write([]byte(p), func(e sse.Event) { events = append(events, fmt.Sprintf("%s=%s", e.ID, e.Data)) })
	}
	return events
}

func TestEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing":    {"", nil},
		"one event":  {"data: a\n\n", []string{"=a"}},
		"two events": {"data: a\n\ndata: b\n\n", []string{"=a", "=b"}},
		"CRLF":       {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"=a", "=b"}},
		"CR":         {"data: a\r\rdata: b\r\r", []string{"=a", "=b"}},
		"line ends of all kinds": {"data: a\ndata: b\r\ndata: c\rdata: d\r\n\ndata: e\n\r\n",
			[]string{"=a\nb\nc\nd", "=e"}},
		"an event without its end": {"data: a\n\ndata: b\n", []string{"=a"}},
		"a line without its end":   {"data: a\n\ndata: b", []string{"=a"}},
		"several lines":            {"data: a\ndata: b\n\n", []string{"=a\nb"}},
		"empty lines of data":      {"data\ndata\n\n", []string{"=\n"}},
		"empty data":               {"data:\n\n", []string{"="}},
		"no space":                 {"data:a\n\n", []string{"=a"}},
		"one space of two":         {"data:  a\n\n", []string{"= a"}},
		"a colon in the data":      {"data: a: b\n\n", []string{"=a: b"}},
		"a comment":                {": data: x\n\n:\n\ndata: a\n: y\n\n", []string{"=a"}},
		"other fields": {"event: message\nretry: 10\nDATA: x\ndata : x\n data: x\ndata: a\n\n",
			[]string{"=a"}},
		"an id":                         {"id: 7\ndata: a\n\ndata: b\n\n", []string{"7=a", "=b"}},
		"an id without data":            {"id: 7\n\n", []string{"7="}},
		"the last id of an event":       {"id: 7\nid: 8\ndata: a\n\n", []string{"8=a"}},
		"an id with NUL":                {"id: 7\nid: 8\x00\ndata: a\n\n", []string{"7=a"}},
		"an id that begins with NUL":    {"id: 7\nid: \x008\ndata: a\n\n", []string{"7=a"}},
		"a byte order mark":             {"\ufeffdata: a\n\n", []string{"=a"}},
		"a byte order mark later":       {"data: a\n\n\ufeffdata: b\n\n", []string{"=a"}},
		"a byte order mark of its own":  {"\ufeff\ndata: a\n\n", []string{"=a"}},
		"text that is not UTF-8":        {"data: \xff\n\n", []string{"=\xff"}},
		"more empty lines than one":     {"\n\n\ndata: a\n\n\n\ndata: b\n\n", []string{"=a", "=b"}},
		"an LF of its own after a CRLF": {"data: a\r\n\n", []string{"=a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(sse.NewReader(100), tt.stream); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			var single []string
			for _, b := range []byte(tt.stream) {
				single = append(single, string([]byte{b}))
			}
			if got := read(sse.NewReader(100), single...); !slices.Equal(got, tt.want) {
				t.Errorf("byte by byte: got %q, want %q", got, tt.want)
			}
			for i := range len(tt.stream) {
				if got := read(sse.NewReader(100), tt.stream[:i], tt.stream[i:]); !slices.Equal(got, tt.want) {
					t.Errorf("cut after %d bytes: got %q, want %q", i, got, tt.want)
				}
			}
		})
	}
}

func TestOver(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		want   []string
		over   bool
	}{
		"an event of just so many bytes": {"data: 789\n\n", []string{"=789"}, false},
		"a line too long":                {"data: a\n\ndata: 7890\n\ndata: b\n\n", []string{"=a"}, true},
		"a comment too long":             {":234567890\ndata: b\n\n", nil, true},
		"a line without an end":          {"data: 7890", nil, true},
		"lines too long together":        {"data: 789\ndata: 7\n\n", nil, true},
		"events in turn":                 {strings.Repeat("data: 789\n\n", 3), []string{"=789", "=789", "=789"}, false},
	} {
		r := sse.NewReader(9)
		got := read(r, tt.stream)
		if !slices.Equal(got, tt.want) || r.Over() != tt.over {
			t.Errorf("%s: got %q, want %q; over: %t, want %t", name, got, tt.want, r.Over(), tt.over)
		}
		if tt.over && (r.Held() != 0 || read(r, "\n\ndata: c\n\n") != nil) {
			t.Errorf("%s: %d bytes are held, and something is read", name, r.Held())
		}
	}
}

// FuzzRead: how a stream is cut changes nothing, no event is larger than the bound, and neither is what is held for
// long.
func FuzzRead(f *testing.F) {
	f.Add([]byte("id: 1\ndata: a\r\ndata: b\n\n"), uint8(3))
	f.Add([]byte("\xef\xbb\xbfdata: a\r\r\ndata: b\r\n\n: x\n\n"), uint8(1))
	f.Add([]byte("data: 0123456789012345678901234567890123456789\n\ndata: a\n\n"), uint8(20))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		const most = 32
		whole := sse.NewReader(most)
		want := read(whole, string(stream))
		parts := sse.NewReader(most)
		var pieces []string
		for piece := range slices.Chunk(stream, int(size)+1) {
			pieces = append(pieces, string(piece))
		}
		got := read(parts, pieces...)
		if !slices.Equal(got, want) || parts.Over() != whole.Over() {
			t.Errorf("cut into pieces of %d it is %q (over: %t), and as a whole %q (over: %t)", int(size)+1, got,
				parts.Over(), want, whole.Over())
		}
		for _, e := range got {
			if len(e) > 2*most { // an id and data
				t.Errorf("an event has %d bytes", len(e))
			}
		}
		if parts.Held() > 8*most {
			t.Errorf("%d bytes are held", parts.Held())
		}
	})
}

// TestOdd: a line is odd if some reader finds an event in it that the standard does not.
func TestOdd(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		odd    bool
	}{
		"fields of the standard": {"event: a\nid: 1\nretry: 10\n: comment\ndata: {\"data\": \"data\"}\n\n",
			false},
		"a line separator in a text":         {"data: {\"a\": \"\u2028\u2028b\"}\n\n", false},
		"line ends of CRLF":                  {"id: 1\r\ndata: a\r\n\r\n", false},
		"a line end of CR":                   {":\rid: 1\n\n", true},
		"a byte order mark":                  {"\ufeffevent: a\n\n", true},
		"a line separator in an id":          {"id: 1\u2028\n\n", true},
		"another field":                      {"DATA: a\n\n", true},
		"a field behind a line separator":    {"data: {\"a\": \"\u2028\u2028data: b\u2028\u2028\"}\n\n", true},
		"a field behind a paragraph's end":   {"data: a\u2029data: b\n\n", true},
		"a field behind a next line":         {"id: 1\u0085data: b\n\n", true},
		"a field behind a form feed":         {": comment\fdata: b\n\n", true},
		"a field behind a group's end":       {"retry: 1\x1ddata\n\n", true},
		"data behind a text, and then again": {"data: data data\u2028data\n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := sse.NewReader(100)
			read(r, tt.stream)
			if r.Odd() != tt.odd {
				t.Errorf("%q is odd: %v, want %v", tt.stream, r.Odd(), tt.odd)
			}
		})
	}
}
