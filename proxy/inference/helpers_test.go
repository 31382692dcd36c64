package inference_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/inference"
)

var key = bytes.Repeat([]byte{7}, inference.MinKey)

// clock advances by a millisecond each time it is read.
type clock struct{ n int }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *clock) now() time.Time {
	c.n++
	return start.Add(time.Duration(c.n) * time.Millisecond)
}

func options() inference.Options {
	return inference.Options{Key: key, Now: (&clock{}).now, Take: func(int) bool { return true }, Free: func() {}}
}

var smallest = map[inference.Dialect]string{
	inference.OpenAIChat:        `{"model":"m","messages":[{"role":"user","content":"hello"}]}`,
	inference.OpenAIResponses:   `{"model":"m","input":"hello"}`,
	inference.AnthropicMessages: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`,
	inference.OpenAIEmbeddings:  `{"model":"m","input":"hello"}`,
	inference.OpenAICompletions: `{"model":"m","prompt":"hello"}`,
	inference.OllamaChat:        `{"model":"m","messages":[{"role":"user","content":"hello"}]}`,
	inference.Gemini:            `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
	inference.BedrockConverse:   `{"messages":[{"role":"user","content":[{"text":"hello"}]}]}`,
}

func mustRead(t testing.TB, d inference.Dialect, body string) *inference.Request {
	t.Helper()
	r, err := inference.Read(inference.Rule{Dialect: d}, inference.Call{Body: []byte(body), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func observe(t testing.TB, d inference.Dialect, kind, body string, size int,
	o inference.Options) inference.Interaction {
	t.Helper()
	b := inference.Observe(mustRead(t, d, smallest[d]), start, o)
	begin(b, http.StatusOK, http.Header{"Content-Type": {kind}})
	write(t, b, body, size)
	b.End(io.EOF)
	return b.Interaction()
}

func begin(b *inference.Observer, status int, header http.Header) {
	b.Begin(&http.Response{StatusCode: status, Header: header, Body: http.NoBody})
}

func write(t testing.TB, b *inference.Observer, body string, size int) {
	t.Helper()
	for len(body) > 0 {
		n := len(body)
		if size > 0 {
			n = min(n, size)
		}
		if wrote, err := b.Write([]byte(body[:n])); wrote != n || err != nil {
			t.Fatalf("Write: %d, %v", wrote, err)
		}
		body = body[n:]
	}
}

func count(f interaction.Figure) string {
	return fmt.Sprintf("%d %s", f.Value, cmp.Or(f.State, interaction.StateNotMeasured))
}

func blocks(all []inference.Block) string {
	var out strings.Builder
	for _, b := range all {
		hashed := "hashed"
		if b.Hash == [32]byte{} {
			hashed = "unhashed"
		}
		fmt.Fprintf(&out, "%s\n",
			strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %d %s", b.Role, b.Kind, b.ID, b.Name, b.Size, hashed)), " "))
	}
	return out.String()
}

// without its times, and what was not measured
func figures(in inference.Interaction) string {
	said := fmt.Sprintf("%s %s %s %s", in.Outcome, in.Reason, in.Model, in.Error)
	out := []string{strings.Join(strings.Fields(said), " ")}
	var counts []string
	for _, f := range []struct {
		name string
		interaction.Figure
	}{{"in", in.Input}, {"out", in.Output}, {"cached", in.Cached}, {"reasoning", in.Reasoning},
		{"hosted", in.HostedCalls}} {
		if f.State != "" && (f.name != "hosted" || f.Value > 0) {
			counts = append(counts, fmt.Sprintf("%s %d %s", f.name, f.Value, f.State))
		}
	}
	if counts != nil {
		out = append(out, strings.Join(counts, ", "))
	}
	for _, stop := range in.Stops {
		out = append(out, fmt.Sprintf("stop %d %s", stop.Choice, stop.Reason))
	}
	return strings.Join(out, "\n") + "\n" + blocks(in.Said)
}

type entry struct {
	name    string
	dialect inference.Dialect
	body    string
	want    string // lines that begin with "< "
	framed  bool   // an event stream of Amazon's
}

func (e entry) kind() string {
	switch {
	case e.framed:
		return "application/vnd.amazon.eventstream"
	case e.dialect == inference.OllamaChat && strings.Contains(e.body, "\n"):
		return "application/x-ndjson"
	case strings.HasPrefix(e.body, "{"), strings.HasPrefix(e.body, "["):
		return jsonType
	}
	return eventStream
}

// frame makes an event stream of Amazon's from lines "TYPE JSON", or "TYPE" for an exception.
func frame(lines string) string {
	var out []byte
	for line := range strings.Lines(lines) {
		kind, payload, event := strings.Cut(strings.TrimSpace(line), " ")
		headers := []string{":message-type", "event", ":event-type", kind}
		if !event {
			headers, payload = []string{":message-type", "exception", ":exception-type", kind}, "{}"
		}
		var h []byte
		for i := 0; i < len(headers); i += 2 {
			h = append(append(h, byte(len(headers[i]))), headers[i]...)
			h = append(binary.BigEndian.AppendUint16(append(h, 7), uint16(len(headers[i+1]))), headers[i+1]...)
		}
		m := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
		m = binary.BigEndian.AppendUint32(m, uint32(len(h)))
		m = binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
		m = append(append(m, h...), payload...)
		out = append(out, binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))...)
	}
	return string(out)
}

// corpus reads a file of entries. Lines of one whose name ends with "framed" are for [frame]. In it, <CR> is a carriage
// return, and <FF> the byte 0xFF.
func corpus(t testing.TB, name string) (entries []entry) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		dialect, _, _ := strings.Cut(f.Name, "/")
		e := entry{name: f.Name, dialect: inference.Dialect(dialect)}
		for line := range strings.Lines(string(f.Data)) {
			if want, ok := strings.CutPrefix(line, "< "); ok {
				e.want += want
			} else {
				e.body += line
			}
		}
		e.body = strings.NewReplacer("<CR>", "\r", "<FF>", "\xff").Replace(e.body)
		if strings.Count(e.body, "\n") == 1 {
			e.body = strings.TrimSuffix(e.body, "\n")
		}
		if e.framed = strings.HasSuffix(f.Name, "framed"); e.framed {
			e.body = frame(e.body)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		t.Fatalf("%s has no entries", name)
	}
	return entries
}

func hashes(in inference.Interaction) string {
	var out strings.Builder
	for _, b := range in.Said {
		out.WriteString(hex.EncodeToString(b.Hash[:]) + "\n")
	}
	return out.String()
}
