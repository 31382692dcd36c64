package frames_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/frames"
	"github.com/actionproof/mediator/proxy/sse"
	"github.com/actionproof/mediator/test/check"
)

// message is one of an event stream, with headers of texts.
func message(payload string, headers ...string) []byte {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(append(h, byte(len(headers[i]))), headers[i]...)
		h = append(binary.BigEndian.AppendUint16(append(h, 7), uint16(len(headers[i+1]))), headers[i+1]...)
	}
	m := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	m = binary.BigEndian.AppendUint32(m, uint32(len(h)))
	m = binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
	m = append(append(m, h...), payload...)
	return binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
}

// retyped makes the last header's value one of bytes.
func retyped(m []byte) []byte {
	m[bytes.LastIndexByte(m, 7)] = 6
	return binary.BigEndian.AppendUint32(m[:len(m)-4], crc32.ChecksumIEEE(m[:len(m)-4]))
}

func read(r frames.Reader, stream []byte, size int) string {
	var out strings.Builder
	for len(stream) > 0 {
		n := min(size, len(stream))
		r.Write(stream[:n], func(e sse.Event) { fmt.Fprintf(&out, "%s|%s\n", e.Type, e.Data) })
		stream = stream[n:]
	}
	if r.Over() {
		out.WriteString("over\n")
	}
	return out.String()
}

// recorded is what the official SDK for JavaScript encodes, with headers of several types.
const recorded = "" +
	"AAAApgAAAIKZ81dTCzpldmVudC10eXBlBwAMbWVzc2FnZVN0YXJ0DTpjb250ZW50LXR5cGUHABBhcHBsaWNhdGlvbi9qc29uDTptZXNzYWdlLX" +
	"R5cGUHAAVldmVudAN4LW4EAAAABwN4LXQIAAAAAAAAAAADeC1iAAN4LXUJAAAAAAAAAAAAAAAAAAAAAXsicm9sZSI6ImFzc2lzdGFudCJ9bS7Q" +
	"UwAAAMgAAACHz5tq8As6ZXZlbnQtdHlwZQcAEWNvbnRlbnRCbG9ja0RlbHRhDTpjb250ZW50LXR5cGUHABBhcHBsaWNhdGlvbi9qc29uDTptZX" +
	"NzYWdlLXR5cGUHAAVldmVudAN4LW4EAAAABwN4LXQIAAAAAAAAAAADeC1iAAN4LXUJAAAAAAAAAAAAAAAAAAAAAXsiY29udGVudEJsb2NrSW5k" +
	"ZXgiOjAsImRlbHRhIjp7InRleHQiOiJow6lsbG8ifX0kAcDYAAAAqgAAAIHFCuvoCzpldmVudC10eXBlBwALbWVzc2FnZVN0b3ANOmNvbnRlbn" +
	"QtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb24NOm1lc3NhZ2UtdHlwZQcABWV2ZW50A3gtbgQAAAAHA3gtdAgAAAAAAAAAAAN4LWIAA3gtdQkAAAAA" +
	"AAAAAAAAAAAAAAABeyJzdG9wUmVhc29uIjoiZW5kX3R1cm4ifYPMZVMAAAC6AAAAfojok+cLOmV2ZW50LXR5cGUHAAhtZXRhZGF0YQ06Y29udG" +
	"VudC10eXBlBwAQYXBwbGljYXRpb24vanNvbg06bWVzc2FnZS10eXBlBwAFZXZlbnQDeC1uBAAAAAcDeC10CAAAAAAAAAAAA3gtYgADeC11CQAA" +
	"AAAAAAAAAAAAAAAAAAF7InVzYWdlIjp7ImlucHV0VG9rZW5zIjozLCJvdXRwdXRUb2tlbnMiOjR9fTZgHHw="

func TestEventStream(t *testing.T) {
	sdk, err := base64.StdEncoding.DecodeString(recorded)
	check.Must(t, err)
	start := message(`{"a":1}`, ":message-type", "event", ":event-type", "messageStart", ":content-type",
		"application/json")
	stop := message(`{}`, ":message-type", "exception", ":exception-type", "throttlingException")
	const first = "messageStart|{\"a\":1}\n"
	broken := bytes.Clone(start)
	broken[len(broken)-6] ^= 1
	lying := bytes.Clone(start)
	lying[3]++
	for name, tt := range map[string]struct {
		stream []byte
		want   string
	}{
		"two":            {append(bytes.Clone(start), stop...), first + "exception:throttlingException|{}\n"},
		"one and a half": {append(bytes.Clone(start), stop[:20]...), first},
		"checksum":       {append(bytes.Clone(start), broken...), first + "|-\n"},
		"length":         {lying, "|-\n"},
		"too large":      {message(strings.Repeat("x", 2000)), "over\n"},
		"header twice":   {message(`{}`, ":message-type", "event", ":event-type", "a", ":event-type", "b"), "|-\n"},
		"of two types":   {retyped(message(`{}`, ":message-type", "event", ":event-type", "a", ":event-type", "b")), "|-\n"},
		"no type":        {message(`{}`, ":event-type", "a"), "|-\n"},
		"no event's":     {message(`{}`, ":message-type", "event"), "|-\n"},
		"no event":       {message(`{}`, ":message-type", "error", ":error-code", "x"), "exception:x|{}\n"},
		"an SDK's": {sdk, `messageStart|{"role":"assistant"}
contentBlockDelta|{"contentBlockIndex":0,"delta":{"text":"héllo"}}
messageStop|{"stopReason":"end_turn"}
metadata|{"usage":{"inputTokens":3,"outputTokens":4}}
`},
		"no event stream":  {[]byte("data: {}\n\ndata: {}\n\n"), "|-\n"},
		"nothing after it": {append(bytes.Clone(broken), start...), "|-\n"},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			if got := read(frames.NewEventStream(1000), tt.stream, size); got != tt.want {
				t.Errorf("%s, in pieces of %d: %q, want %q", name, size, got, tt.want)
			}
		}
	}
}

func TestLines(t *testing.T) {
	for stream, want := range map[string]string{
		"{\"a\":1}\n\n{}\r\n{":       "|{\"a\":1}\n|{}\n",
		strings.Repeat("x", 2000):    "over\n",
		"{}\n" + "{\"b\":\"x y\"}\n": "|{}\n|{\"b\":\"x y\"}\n",
	} {
		for _, size := range []int{1, 5, 1 << 20} {
			if got := read(frames.NewLines(1000), []byte(stream), size); got != want {
				t.Errorf("%.20q, in pieces of %d: %q, want %q", stream, size, got, want)
			}
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("{}\n{}"), 1)
	f.Add(message(`{}`, ":event-type", "x"), 3)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		size = max(1, size)
		for _, fresh := range []func() frames.Reader{func() frames.Reader { return frames.NewLines(1000) },
			func() frames.Reader { return frames.NewEventStream(1000) }} {
			whole, pieces := fresh(), fresh()
			if a, b := read(whole, stream, len(stream)+1), read(pieces, stream, size); a != b {
				t.Fatalf("%q, %q", a, b)
			}
			if pieces.Held() > 8<<10 && size < 1000 {
				t.Fatalf("%d bytes are held", pieces.Held())
			}
		}
	})
}
