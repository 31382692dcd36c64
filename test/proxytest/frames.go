package proxytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest/corpus"
)

// Frames is an agent that speaks HTTP/2 frame by frame, valid or not.
type Frames struct {
	t      testing.TB
	conn   net.Conn
	Framer *xhttp2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder

	Silent  bool // does not acknowledge, because another goroutine writes
	bodies  map[uint32][]byte
	answers map[uint32]*http.Response
	Codes   []string // of the refusals
}

// NewFrames begins HTTP/2 on a connection.
func NewFrames(t testing.TB, c net.Conn, settings ...xhttp2.Setting) *Frames {
	t.Helper()
	f := &Frames{t: t, conn: c, Framer: xhttp2.NewFramer(c, c), bodies: make(map[uint32][]byte),
		answers: make(map[uint32]*http.Response)}
	f.Framer.AllowIllegalWrites = true
	f.Framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.hpack = hpack.NewEncoder(&f.block)
	_, err := io.WriteString(c, xhttp2.ClientPreface)
	check.Must(t, err)
	check.Must(t, f.Framer.WriteSettings(settings...))
	return f
}

// Play is the agent's side of an exchange.
func (f *Frames) Play(steps []corpus.Step) {
	f.t.Helper()
	for _, s := range steps {
		switch s.Kind {
		case '>':
			f.Send(s.Text)
		case '<':
			if got := f.Next(); !slices.Contains(strings.Split(s.Text, " or "), got) {
				f.t.Errorf("got %s, want %s", got, s.Text)
				return
			}
		}
	}
}

// Send writes frames: "HEADERS stream [END_STREAM] [MORE]" with a header on each line below it, "CONTINUATION stream
// [MORE]" likewise, "DATA stream [END_STREAM] text", "RST_STREAM stream code", "WINDOW_UPDATE stream increment",
// "SETTINGS id value", "PING", "PRIORITY stream on". Writing may fail if the proxy has closed the connection.
func (f *Frames) Send(text string) {
	f.t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, " ") {
			continue
		}
		var fields []string
		for _, h := range lines[i+1:] {
			if !strings.HasPrefix(h, " ") {
				break
			}
			raw, err := corpus.Unescape(strings.TrimSpace(h))
			check.Must(f.t, err)
			fields = append(fields, raw)
		}
		f.sendFrame(line, fields)
	}
}

func (f *Frames) sendFrame(line string, fields []string) {
	f.t.Helper()
	words := strings.Fields(line)
	number := func(i int) uint32 {
		n, err := strconv.ParseUint(words[i], 10, 32)
		check.Must(f.t, err)
		return uint32(n)
	}
	flag := func(name string) bool { return len(words) > 2 && strings.Contains(line, name) }
	switch words[0] {
	case "HEADERS":
		_ = f.Framer.WriteHeaders(
			xhttp2.HeadersFrameParam{StreamID: number(1), BlockFragment: f.Encode(fields), EndStream: flag("END_STREAM"),
				EndHeaders: !flag("MORE")})
	case "CONTINUATION":
		_ = f.Framer.WriteContinuation(number(1), !flag("MORE"), f.Encode(fields))
	case "DATA":
		_, data, _ := strings.Cut(line, words[1]+" ")
		data, end := strings.CutPrefix(data, "END_STREAM")
		_ = f.Framer.WriteData(number(1), end, []byte(strings.TrimPrefix(data, " ")))
	case "RST_STREAM":
		_ = f.Framer.WriteRSTStream(number(1), xhttp2.ErrCode(number(2)))
	case "WINDOW_UPDATE":
		_ = f.Framer.WriteWindowUpdate(number(1), number(2))
	case "SETTINGS":
		_ = f.Framer.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingID(number(1)), Val: number(2)})
	case "PING":
		_ = f.Framer.WritePing(false, [8]byte{})
	case "PRIORITY":
		_ = f.Framer.WritePriority(number(1), xhttp2.PriorityParam{StreamDep: number(2)})
	case "RAW":
		_ = f.Framer.WriteRawFrame(xhttp2.FrameType(number(1)), xhttp2.Flags(number(2)), number(3),
			[]byte(strings.Join(fields, "")))
	default:
		f.t.Fatalf("no frame: %q", line)
	}
}

// Encode packs header lines, "name: value".
func (f *Frames) Encode(fields []string) []byte {
	f.block.Reset()
	for _, field := range fields {
		i := strings.Index(field[1:], ":") + 1 // a pseudo-header begins with a colon
		check.Must(f.t, f.hpack.WriteField(hpack.HeaderField{Name: field[:i], Value: strings.TrimPrefix(field[i+1:], " ")}))
	}
	return bytes.Clone(f.block.Bytes())
}

// Next returns the proxy's next answer: "stream status [code]", "stream RST_STREAM why", "GOAWAY why", or "closed". It
// skips settings, windows, pings and graceful notices.
func (f *Frames) Next() string {
	for {
		frame, err := f.Framer.ReadFrame()
		if err != nil {
			if check.IsTimeout(err) {
				return "silence"
			}
			return "closed"
		}
		switch frame := frame.(type) {
		case *xhttp2.SettingsFrame:
			if !frame.IsAck() && !f.Silent {
				_ = f.Framer.WriteSettingsAck()
			}
		case *xhttp2.GoAwayFrame:
			if frame.ErrCode != xhttp2.ErrCodeNo {
				return "GOAWAY " + frame.ErrCode.String()
			}
		case *xhttp2.RSTStreamFrame:
			if frame.ErrCode != xhttp2.ErrCodeNo {
				return fmt.Sprintf("%d RST_STREAM %s", frame.StreamID, frame.ErrCode)
			}
		case *xhttp2.MetaHeadersFrame:
			status, _ := strconv.Atoi(frame.PseudoValue("status"))
			if status < 200 {
				return fmt.Sprintf("%d %d", frame.StreamID, status)
			}
			f.answers[frame.StreamID] = &http.Response{StatusCode: status}
			if frame.StreamEnded() {
				return f.answer(frame.StreamID)
			}
		case *xhttp2.DataFrame:
			f.bodies[frame.StreamID] = append(f.bodies[frame.StreamID], frame.Data()...)
			if frame.StreamEnded() {
				return f.answer(frame.StreamID)
			}
		}
	}
}

func (f *Frames) answer(stream uint32) string {
	text := AnswerText(f.answers[stream], f.bodies[stream])
	if _, code, ok := strings.Cut(text, " "); ok {
		f.Codes = append(f.Codes, code)
	}
	return fmt.Sprintf("%d %s", stream, text)
}

// AnswerText is a response as an exchange writes it: its status, and the code of a refusal.
func AnswerText(resp *http.Response, body []byte) string {
	var d problem.Details
	if json.Unmarshal(body, &d) == nil && d.Code != "" {
		return strconv.Itoa(resp.StatusCode) + " " + d.Code
	}
	return strconv.Itoa(resp.StatusCode)
}
