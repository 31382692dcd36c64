package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
)

// Over HTTP/2 net/http accepts answers that it could not write.
func TestHostileAnswers(t *testing.T) {
	for _, test := range []struct {
		name, code string
		header     []string // of the answer; its body is "ten bytes."
		status     int
		state      ledger.State
	}{
		{"a status of four digits", "upstream_lost", []string{":status", "1000"}, 502, ledger.StateIndeterminate},
		{"a status below 0", "upstream_lost", []string{":status", "-5"}, 502, ledger.StateIndeterminate},
		{"two lengths", "", []string{":status", "200", "content-length", "3", "content-length", "10"}, 200,
			ledger.StateForwarded},
		{"a length that is none", "", []string{":status", "200", "content-length", "+10"}, 200, ledger.StateForwarded},
		{"the id of a record", "", []string{":status", "200", "actionproof-post", "post_1"}, 200,
			ledger.StateForwarded},
	} {
		t.Run(test.name, func(t *testing.T) {
			up := framesUpstream(t, answering(t, test.header...))
			p := newReadsRig(t, up)
			resp, body := p.send("GET", "https://"+at(0, up)+"/", "")
			if resp.StatusCode != test.status || test.code == "" && body != "ten bytes." ||
				len(resp.Header["Content-Length"]) > 1 || resp.Header.Get("ActionProof-Post") != "" {
				t.Errorf("status %d, header %v, body %q", resp.StatusCode, resp.Header, body)
			}
			must(t, p.Proxy.Shutdown(context.Background()))
			if post := p.wantLast(1, ledger.Record{State: test.state, Code: test.code}); test.state != ledger.StateForwarded &&
				post.Status != 0 {
				t.Errorf("recorded with status %d", post.Status)
			}
		})
	}
}

// A result in a body that no client gets is none.
func TestAnswersWithoutABody(t *testing.T) {
	for _, status := range []string{"204", "304"} {
		up := framesUpstream(t, answering(t, ":status", status))
		resp, err := get(t, newTestTransport(t, up), "https://"+at(0, up)+"/")
		must(t, err)
		if body, err := io.ReadAll(resp.Body); len(body) > 0 || err != nil {
			t.Errorf("%s: %q, %v", status, body, err)
		}
	}
}

// Large headers, or very many short lines, would exhaust the memory.
func TestHeaderOfAnAnswer(t *testing.T) {
	for _, p := range []protocol{http1, http2} {
		for _, test := range []struct {
			lines, size int
			code        string
		}{{1, 60 << 10, ""}, {1000, 10, ""}, {1, 96 << 10, "upstream_lost"}, {2000, 1, "upstream_lost"}} {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				for range test.lines {
					w.Header().Add("X", strings.Repeat("a", test.size))
				}
			}, p)
			resp, err := get(t, newTestTransport(t, up.Server), "https://"+at(0, up.Server)+"/")
			if test.code == "" {
				must(t, err)
				_ = resp.Body.Close()
			} else {
				wantCode(t, err, test.code)
			}
			up.Close()
		}
	}
}

// An upstream that refuses each connection is not asked for ever.
func TestTurnedAway(t *testing.T) {
	var asked atomic.Int32
	up := framesUpstream(t, func(framer *xhttp2.Framer, _ uint32) {
		asked.Add(1)
		must(t, framer.WriteGoAway(0, xhttp2.ErrCodeNo, nil))
	})
	p := newReadsRig(t, up)
	p.want(http.StatusBadGateway, "GET", "https://"+at(0, up)+"/", "")
	p.wantLast(1, ledger.Record{Code: "upstream_lost", State: ledger.StateIndeterminate})
	if asked.Load() > maxConnections+1 {
		t.Errorf("the upstream was asked %d times", asked.Load())
	}
}

// An upstream that does not want the rest of a request has still answered it.
func TestEarlyAnswer(t *testing.T) {
	for name, reset := range map[string]bool{"and reads no more": false, "and resets the stream": true} {
		t.Run(name, func(t *testing.T) {
			answer := answering(t, ":status", "413")
			up := framesUpstream(t, func(framer *xhttp2.Framer, stream uint32) {
				answer(framer, stream)
				if reset {
					_ = framer.WriteRSTStream(stream, xhttp2.ErrCodeNo) // the test may have ended with the whole answer
				}
			})
			p := newReadsRig(t, up)
			c := p.MustTunnel(at(0, up))
			resp := roundTripRaw(t, c, "PUT /x HTTP/1.1\r\nHost: "+at(0, up)+"\r\nContent-Length: 10\r\n\r\nab")
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestEntityTooLarge || string(body) != "ten bytes." || err != nil {
				t.Errorf("status %d, body %q, %v", resp.StatusCode, body, err)
			}
			_ = c.Close()
			must(t, p.Proxy.Shutdown(context.Background()))
			p.wantLast(1, ledger.Record{State: ledger.StateForwarded, Status: resp.StatusCode})
		})
	}
}

func newReadsRig(t *testing.T, up *httptest.Server) *postRig {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
		m := matching(t, "https://"+at(0, up)+"/**", "GET", "PUT")
		o.Rules = rulesFor(t, nil, []rules.Egress{{Name: "reads", Match: m}})
		o.Transport = newTestTransport(t, up)
	})
	t.Cleanup(up.CloseClientConnections) // net/http may still be giving up a request
	return p
}

// answering answers with these fields and the body "ten bytes.".
func answering(t *testing.T, header ...string) func(*xhttp2.Framer, uint32) {
	return func(framer *xhttp2.Framer, stream uint32) {
		var block bytes.Buffer
		fields := hpack.NewEncoder(&block)
		for i := 0; i < len(header); i += 2 {
			must(t, fields.WriteField(hpack.HeaderField{Name: header[i], Value: header[i+1]}))
		}
		// Either fails if the test has closed the connection.
		_ = framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(),
			EndHeaders: true})
		_ = framer.WriteData(stream, true, []byte("ten bytes."))
	}
}

// framesUpstream answers each HTTP/2 request frame by frame.
func framesUpstream(t *testing.T, answer func(framer *xhttp2.Framer, stream uint32)) *httptest.Server {
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	up.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn,
		http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		if _, err := io.CopyN(io.Discard, c, int64(len(xhttp2.ClientPreface))); err != nil {
			return // net/http gives up a connection that it no longer needs
		}
		framer := xhttp2.NewFramer(c, c)
		_ = framer.WriteSettings() // if this fails, so does ReadFrame
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if _, request := frame.(*xhttp2.HeadersFrame); request {
				answer(framer, frame.Header().StreamID)
			}
		}
	}}
	up.StartTLS()
	t.Cleanup(up.Close)
	return up
}
