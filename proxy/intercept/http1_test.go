package intercept

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/proxytest/corpus"
)

// FuzzHTTP1Reader compares the reader with net/http: it passes input unchanged, net/http accepts all of it, and both
// end each message at the same byte.
func FuzzHTTP1Reader(f *testing.F) {
	for _, e := range corpus.Read(f, "../testdata/raw") {
		if e.ALPN == "h2" {
			continue
		}
		var text strings.Builder
		for _, s := range e.Steps {
			if s.Kind == '>' {
				text.WriteString(s.Text)
			}
		}
		f.Add([]byte(text.String()), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, slow bool) {
		var in io.Reader = bytes.NewReader(raw)
		if slow {
			in = iotest.OneByteReader(in)
		}
		c := &http1Reader{from: in, limit: 1 << 12}
		var passed bytes.Buffer
		r := bufio.NewReader(io.TeeReader(c, &passed))
		for {
			before := c.refusal
			req, err := http.ReadRequest(r)
			if err == nil && req.Method == refusedMethod {
				if c.refusal == nil || before != nil {
					t.Fatal("a client's request stands for a refused one")
				}
				var refused *refusal.Refusal
				if !errors.As(c.refusal, &refused) {
					t.Fatalf("the refusal %v has no code", c.refusal)
				}
				return
			}
			if err == nil && req.Method == http.MethodConnect {
				return
			}
			if err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
			if err != nil && c.failed == nil && !allowedEnd(err) {
				t.Fatalf("net/http does not take what passed: %v", err)
			}
			if !bytes.HasPrefix(raw, passed.Bytes()) && c.refusal == nil {
				t.Fatalf("%q was changed to %q", raw, passed.Bytes())
			}
			if err != nil {
				return
			}
			// net/http has read the reader's whole message, and nothing more.
			if int64(r.Buffered()) == 0 && c.pass != 0 {
				t.Fatalf("net/http ends a message %d bytes before the reader does", c.pass)
			}
		}
	})
}

// allowedEnd reports whether reading may end so: the input ended, or net/http refused what it alone checks, the CRLF
// after a chunk and the trailers' length.
func allowedEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || slices.Contains([]string{
		"malformed chunked encoding", "http: unexpected EOF reading trailer",
		"http: suspiciously long trailer after chunked body",
	}, err.Error())
}

// net/http sets such a deadline when it stops waiting for the next request.
func TestHTTP1ReaderSurvivesADeadline(t *testing.T) {
	head := "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
	c := &http1Reader{from: iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(head))), limit: 100}
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, iotest.ErrTimeout) {
		t.Fatalf("got %v", err)
	}
	if all, err := io.ReadAll(c); err != nil || string(all) != head {
		t.Errorf("got %q, %v", all, err)
	}
}

type sameHead struct {
	text string
	at   int
}

func (e *sameHead) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func BenchmarkHTTP1Reader(b *testing.B) {
	const text = "GET /v1/models/7 HTTP/1.1\r\nHost: a.example:8443\r\nUser-Agent: agent/1.0\r\nAccept: " +
		"*/*\r\nAccept-Encoding: gzip\r\n\r\n"
	c := &http1Reader{from: &sameHead{text: text}, limit: 64 << 10}
	buf := make([]byte, len(text))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.ReadFull(c, buf); err != nil || !strings.HasPrefix(text, string(buf[:3])) {
			b.Fatal(err)
		}
	}
}
