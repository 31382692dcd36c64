package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
)

// forgetful keeps no record.
type forgetful struct{}

func (forgetful) Begin(context.Context, ledger.Record, ...ledger.Key) error { return nil }
func (forgetful) Finish(context.Context, ledger.Record) error               { return nil }
func (forgetful) Add(context.Context, ledger.Record) error                  { return nil }
func (forgetful) FinishLater(context.Context, ledger.Record) error          { return nil }
func (forgetful) AddLater(context.Context, ledger.Record) error             { return nil }
func (forgetful) Full() error                                               { return nil }

// BenchmarkRead takes a read through the choke point alone: no connection, no upstream, no ledger.
func BenchmarkRead(b *testing.B) {
	l := newLoadRig(b, Load{Session: Rate{PerSecond: maxRate}, Host: Rate{PerSecond: maxRate}})
	l.pipeline.o.Record = forgetful{}
	l.answer = func(*http.Request) (int, error) { return http.StatusOK, nil }
	target := Target{Scheme: "https", Host: "a.example", Port: 8443}
	read, err := ParseMatch("https://a.example:8443/**", []string{"GET"})
	must(b, err)
	l.pipeline.o.Rules, err = NewRules(nil, []Egress{{Name: "reads", Match: read}})
	must(b, err)
	r := httptest.NewRequest("GET", "https://a.example:8443/v1/models/7", nil)
	r.Header = http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"agent/1.0"}}
	r = r.WithContext(withRoute(r.Context(), Route{Target: target, ProxyAuthorization: l.open()}))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		l.pipeline.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
}

// sameHead is a client that asks the same again and again.
type sameHead struct {
	net.Conn
	text string
	at   int
}

func (e *sameHead) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// BenchmarkStrictHead judges heads as clients send them.
func BenchmarkStrictHead(b *testing.B) {
	const text = "GET /v1/models/7 HTTP/1.1\r\nHost: a.example:8443\r\nUser-Agent: agent/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n"
	c := &strictConn{Conn: &sameHead{text: text}, limit: 64 << 10}
	buf := make([]byte, len(text))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.ReadFull(c, buf); err != nil || !strings.HasPrefix(text, string(buf[:3])) {
			b.Fatal(err)
		}
	}
}
