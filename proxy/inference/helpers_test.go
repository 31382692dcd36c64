package inference_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
)

var key = bytes.Repeat([]byte{7}, inference.MinKey)

// clock counts milliseconds, one more each time that it is read.
type clock struct{ n int }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *clock) now() time.Time {
	c.n++
	return start.Add(time.Duration(c.n) * time.Millisecond)
}

func options() inference.Options {
	return inference.Options{Key: key, Now: (&clock{}).now, Take: func(int) bool { return true }, Free: func() {}}
}

// smallest are requests of each dialect that ask for little.
var smallest = map[inference.Dialect]string{
	inference.OpenAIChat:        `{"model":"m","messages":[{"role":"user","content":"hello"}]}`,
	inference.OpenAIResponses:   `{"model":"m","input":"hello"}`,
	inference.AnthropicMessages: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`,
}

func mustRead(t testing.TB, d inference.Dialect, body string) *inference.Request {
	t.Helper()
	r, err := inference.Read(inference.Rule{Dialect: d}, []byte(body), key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// observe gives an answer to an observer in pieces of so many bytes; 0 for one piece.
func observe(t testing.TB, d inference.Dialect, kind, body string, size int,
	o inference.Options) inference.Interaction {
	t.Helper()
	b := inference.Observe(mustRead(t, d, smallest[d]), start, o)
	begin(b, http.StatusOK, http.Header{"Content-Type": {kind}})
	write(t, b, body, size)
	b.End(io.EOF)
	return b.Interaction()
}

// begin gives the head of an answer to an observer.
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

func code(err error) string {
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return refused.Code()
	}
	if err != nil {
		return "error without a code: " + err.Error()
	}
	return ""
}

func count(c inference.Count) string { return fmt.Sprintf("%d %s", c.N, c.State) }

// blocks writes blocks one a line: role, kind, id, name, size and whether they are hashed.
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

// figures writes what an answer comes to, without its times.
func figures(in inference.Interaction) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s|%s %s|%s\n", in.Outcome, in.Reason, in.ID, in.Model, in.Error)
	fmt.Fprintf(&out, "in %s, out %s, cached %s, reasoning %s, hosted %s\n", count(in.Input), count(in.Output),
		count(in.Cached), count(in.Reasoning), count(in.HostedCalls))
	fmt.Fprintf(&out, "stops %v\n", in.Stops)
	return out.String() + blocks(in.Said)
}

func hashes(in inference.Interaction) string {
	var out strings.Builder
	for _, b := range in.Said {
		out.WriteString(hex.EncodeToString(b.Hash[:]) + "\n")
	}
	return out.String()
}
