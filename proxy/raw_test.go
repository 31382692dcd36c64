package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/proxytest/corpus"
)

// TestRawExchanges plays testdata/raw against a whole pipeline. It compares what the upstream receives, byte by byte,
// with the file and with the records.
func TestRawExchanges(t *testing.T) {
	for _, e := range corpus.Read(t, "testdata/raw") {
		t.Run(e.Name, func(t *testing.T) {
			up := newRawUpstream(t)
			p := newRawRig(t, up)
			p.play(e)
			must(t, p.Proxy.Shutdown(context.Background())) // waits for running calls
			p.transport.CloseIdleConnections()
			up.close()
			if got := up.received(); got != e.Upstream {
				t.Errorf("the upstream received\n%q\nwant\n%q", got, e.Upstream)
			}
			p.wantRecorded(t, up.received())
		})
	}
}

// rawUpstream records every byte and answers each whole request with 201.
type rawUpstream struct {
	t             testing.TB
	plain, secure net.Listener
	roots         *x509.CertPool
	serving       sync.WaitGroup

	mu    sync.Mutex
	bytes bytes.Buffer
	taken []string // what it took for requests
}

func newRawUpstream(t testing.TB) *rawUpstream {
	t.Helper()
	certified := newUpstream(t, nil, http1) // for its certificate
	certified.Close()
	u := &rawUpstream{t: t, roots: poolOf(certified)}
	var err error
	u.plain, err = net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	u.secure, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	must(t, err)
	for _, l := range []net.Listener{u.plain, u.secure} {
		u.serving.Go(func() { u.accept(l) })
	}
	t.Cleanup(u.close)
	return u
}

func (u *rawUpstream) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		u.serving.Go(func() { u.serve(c) })
	}
}

// switches are the headers of answers with another protocol, by path. The right answer is RFC 6455 section 1.3's for
// the key dGhlIHNhbXBsZSBub25jZQ==.
var switches = map[string]string{
	"/ws/open":    "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n" + rightAccept,
	"/ws/accept":  toWebSocket + "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n",
	"/ws/bare":    "",
	"/ws/h2c":     "Upgrade: h2c\r\nConnection: Upgrade\r\n" + rightAccept,
	"/ws/length":  toWebSocket + rightAccept + "Content-Length: 4\r\n",
	"/ws/chosen":  toWebSocket + rightAccept + "Sec-WebSocket-Protocol: other\r\n",
	"/ws/twice":   toWebSocket + rightAccept + "Sec-WebSocket-Accept: x\r\n",
	"/ws/unasked": toWebSocket + rightAccept,
}

const (
	toWebSocket = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
	rightAccept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)

func (u *rawUpstream) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(io.TeeReader(c, u))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.taken = append(u.taken, req.Method+" "+req.URL.Path)
		u.mu.Unlock()
		if req.URL.Path == "/items/unread" { // as servers do that know no such path
			req.Body = http.NoBody
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if answer, ok := switches[req.URL.Path]; ok {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+answer+"\r\n")
			if req.URL.Path == "/ws/open" {
				_, _ = io.WriteString(c, "ahead") // data behind it
			}
			_, _ = io.Copy(io.Discard, r)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n")
		if req.Method != http.MethodHead {
			_, _ = io.WriteString(c, "made")
		}
		if req.Close {
			return
		}
	}
}

func (u *rawUpstream) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes.Write(b)
}

func (u *rawUpstream) received() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes.String()
}

// close waits until everything sent has been read.
func (u *rawUpstream) close() {
	_ = u.plain.Close()
	_ = u.secure.Close()
	u.serving.Wait()
}

// transport reaches u as a.example.com, at the ports of http and https.
func (u *rawUpstream) transport() *upstream.Transport {
	own := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	at := func(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }
	transport := upstream.NewTransport(
		upstream.Options{RootCAs: u.roots, Dialer: upstream.Dialer{Resolver: names{}, Hosts: []upstream.Host{
			{Name: "a.example.com", Port: 80, Address: at(u.plain), Networks: own},
			{Name: "a.example.com", Port: 443, Address: at(u.secure), Networks: own},
		}}})
	u.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

type rawRig struct {
	*postRig
	transport *upstream.Transport
	codes     []string // of the agent's refusals
}

func newRawRig(t *testing.T, up *rawUpstream) *rawRig {
	t.Helper()
	transport := up.transport()
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		o.Transport = transport
		o.Rules = rawRules(t, actions[0])
	})
	return &rawRig{postRig: p, transport: transport}
}

// rawRules are the rules of the exchanges: posts of JSON and of raw bytes, one with an id in its path and one with a
// query; reads; and writes that are not posts, with a credential.
func rawRules(t testing.TB, like rules.Action) *rules.Rules {
	var actions []rules.Action
	var egress []rules.Egress
	for _, origin := range []string{"https://a.example.com", "http://a.example.com"} {
		match := func(path string, methods ...string) match.Match { return matching(t, origin+path, methods...) }
		for _, a := range []struct {
			path, content string
			query         bool
		}{{"/posts", rules.ContentJSON, false}, {"/raw", rules.ContentRaw, false},
			{"/items/{id}", rules.ContentRaw, false},
			{"/query", rules.ContentRaw, true}} {
			action := like
			action.Name, action.Match, action.Content, action.AllowQuery, action.MaxBody = origin+a.path,
				match(a.path, "POST"), a.content, a.query, 4096
			actions = append(actions, action)
		}
		egress = append(egress, rules.Egress{Name: origin + " sockets", Match: match("/ws/{how}", "GET"),
			WebSocket: true}, rules.Egress{Name: origin + " reads", Match: match("/**", "GET", "HEAD", "OPTIONS")},
			rules.Egress{Name: origin + " keyed", Match: match("/keyed/**", "PUT"), Credential: like.Credential})
	}
	return rulesFor(t, actions, egress)
}

// play is the agent's side of an exchange.
func (p *rawRig) play(e corpus.Exchange) {
	p.T.Helper()
	c := p.open(e)
	defer c.Close()
	if e.ALPN == "h2" {
		f := newFrames(p.T, c)
		f.Play(e.Steps)
		p.codes = f.Codes
		return
	}
	r := bufio.NewReader(c)

	for _, s := range e.Steps {
		switch s.Kind {
		case '>':
			_, _ = io.WriteString(c, s.Text) // the proxy may close in the middle
		case '!':
			must(p.T, c.(interface{ CloseWrite() error }).CloseWrite())
		case '<':
			p.wantNext(r, s.Text)
		}
	}
}

func (p *rawRig) open(e corpus.Exchange) net.Conn {
	p.T.Helper()
	if e.Via == "port" {
		return p.Dial()
	}
	if e.ALPN == "" {
		return p.Connect(e.Via)
	}
	host, _, _ := net.SplitHostPort(e.Via)
	c, err := p.Tunnel(e.Via, host, protocol(e.ALPN))
	must(p.T, err)
	return c
}

// wantNext reads one answer, or the end of the connection.
func (p *rawRig) wantNext(r *bufio.Reader, want string) {
	p.T.Helper()
	if want == "closed" {
		if rest, err := io.ReadAll(r); len(rest) > 0 || isTimeout(err) {
			p.T.Errorf("the connection should be closed: %q, %v", rest, err)
		}
		return
	}
	if data, ok := strings.CutPrefix(want, "data "); ok {
		got := make([]byte, len(data))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != data {
			p.T.Errorf("got the data %q, %v, want %q", got, err, data)
		}
		return
	}
	fields := strings.Fields(want)
	method := http.MethodGet
	// their answers have no body
	if len(fields) > 1 && (fields[1] == http.MethodHead || fields[1] == http.MethodConnect) {
		method, want = fields[1], fields[0]
	}
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		p.T.Fatalf("instead of %s: %v", want, err)
	}
	var body []byte
	if method != http.MethodConnect {
		body, err = io.ReadAll(resp.Body)
		must(p.T, err)
	}
	got := answerText(resp, body)
	if _, code, ok := strings.Cut(got, " "); ok {
		p.codes = append(p.codes, code)
	} else if resp.StatusCode >= 400 {
		p.T.Errorf("%s has no code: net/http refused it, and it has no record", got)
	}
	if !slices.Contains(strings.Split(want, " or "), got) {
		p.T.Errorf("got %s, want %s; %.300q", got, want, body)
	}
}

// wantRecorded compares the upstream's bytes with the records: each request was decided exactly so, no other record
// claims to be sent, and each refusal has its own record.
func (p *rawRig) wantRecorded(t *testing.T, sent string) {
	t.Helper()
	p.record.mu.Lock()
	defer p.record.mu.Unlock()
	r := bufio.NewReader(strings.NewReader(sent))
	var unsure bool
	for _, id := range p.record.order {
		rec := p.record.posts[id]
		if i := slices.Index(p.codes, rec.Code); i >= 0 {
			p.codes = slices.Delete(p.codes, i, i+1)
		}
		if rec.Method != "" && !wire.IsMethod(rec.Method) {
			t.Errorf("a record has the method %q", rec.Method)
		}
		unsure = unsure || rec.State == ledger.StateIndeterminate
		// the upstream's answer was broken
		lied := rec.Code == "upstream_lost" && rec.State == ledger.StateIndeterminate
		if rec.State != ledger.StateForwarded && !lied {
			continue
		}
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Fatalf("the record of %s %s is of no request that the upstream received: %v", rec.Method, rec.Path, err)
		}
		body, err := io.ReadAll(req.Body)
		must(t, err)
		if req.Method != rec.Method || rec.Host != withPort("http", req.Host) &&
			rec.Host != withPort("https", req.Host) || req.URL.EscapedPath() != rec.Path {
			t.Errorf("the upstream received %s %s%s, recorded is %s %s%s", req.Method, req.Host, req.URL.EscapedPath(),
				rec.Method, rec.Host, rec.Path)
		}
		if rec.Status == http.StatusSwitchingProtocols {
			if _, err := io.CopyN(io.Discard, r, rec.BytesOut); err != nil {
				t.Errorf("%d bytes are recorded behind a 101: %v", rec.BytesOut, err)
			}
		}
		if rec.Flow != flowPost {
			continue
		}
		hash := evidence.HashBytes(body)
		if strings.HasSuffix(rec.Rule, "/posts") {
			hash, err = evidence.HashJSON(body)
			must(t, err)
		}
		if rec.ContentHash != hash || rec.Resource != req.Method+" "+req.RequestURI {
			t.Errorf("the upstream received %s %q, verified was %s with the hash %s", req.Method, req.RequestURI,
				rec.Resource, rec.ContentHash)
		}
	}
	if len(p.codes) > 0 {
		t.Errorf("the refusals %v have no record", p.codes)
	}
	req, err := http.ReadRequest(r)
	if errors.Is(err, io.EOF) {
		return
	}
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !unsure { // incomplete, and some record is unsure
		t.Errorf("the upstream received a request that no record says was forwarded: %v", err)
	}
}

// TestUnreadPost: an upstream that leaves a post's body unread takes it for no request with the next call's credential.
func TestUnreadPost(t *testing.T) {
	up := newRawUpstream(t)
	p := newRawRig(t, up)
	c, err := p.Tunnel("a.example.com:443", "a.example.com", http1)
	must(t, err)
	r := bufio.NewReader(c)
	const hidden = "POST /posts HTTP/1.1\r\nX: "
	for _, request := range []string{
		fmt.Sprintf("POST /items/unread HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: %d\r\n\r\n%s", len(hidden),
			hidden),
		"PUT /keyed/x HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 1\r\n\r\na",
	} {
		_, err = io.WriteString(c, request)
		must(t, err)
		p.wantNext(r, "201")
	}
	_ = c.Close()
	must(t, p.Proxy.Shutdown(context.Background()))
	p.transport.CloseIdleConnections()
	up.close()
	if want := []string{"POST /items/unread", "PUT /keyed/x"}; !slices.Equal(up.taken, want) {
		t.Errorf("the upstream took for requests: %q, want %q", up.taken, want)
	}
}

func TestCorpusIsAsLargeAsItClaims(t *testing.T) {
	if n := len(corpus.Read(t, "testdata/raw")); n < 250 {
		t.Errorf("%d exchanges", n)
	}
}
