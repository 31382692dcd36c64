package intercept

import (
	"bytes"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/refusal"
)

// strictConn lets a server read HTTP/1 that has one reading, and nothing else. net/http takes more than that: lines that end with LF
// alone, folded headers, a length beside chunks, a length twice, chunks in HTTP/1.0. Each of them is a way to show one request to the
// mediator and another to whoever stands before it (RFC 9112 section 11.2), and what net/http itself refuses leaves no record.
//
// It follows the messages' framing and judges each head before the server sees a byte of it. A head that is not in order is replaced by
// a request that no client can make, see refusing; nothing is read after it. In a body, reading ends with the refusal.
type strictConn struct {
	net.Conn
	limit      int  // of a head, and of a trailer section, in bytes; see lineOverhead
	mayBeHTTP2 bool // it may begin with the preface, and then is no business of this reader

	space  []byte // that buf is a part of
	buf    []byte // read, and not passed on yet
	pass   int64  // how many bytes may be passed on, those in buf first
	judged int    // how many bytes of buf have been judged, of a part that is not whole yet
	lines  int    // that these are
	part   part   // what comes after the bytes that may be passed on
	head   head
	failed error // what ends the connection
	// refusal is why a head was replaced. It is set before the server can read the replacement.
	refusal error
}

// preface begins every connection over HTTP/2 (RFC 9113 section 3.4). What only begins like it net/http reads as HTTP/1.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// lineOverhead is what a line counts besides its bytes, as a field does in HTTP/2 (RFC 9113 section 6.5.2): a short one takes more memory than
// its text.
const lineOverhead = 32

// part is what a line belongs to.
type part int

const (
	partRequest part = iota // a request line
	partHeader
	partChunk // the line before a chunk
	partTrailer
)

// head is what the lines of a head say about what follows it.
type head struct {
	http10, connect, chunked bool
	hosts, lengths, codings  int
	length                   int64
}

// strictListener makes every connection that it accepts strict, except those that speak HTTP/2, which has no such ambiguities.
type strictListener struct {
	net.Listener
	limit int
	// priorKnowledge lets a connection without TLS begin with the preface of HTTP/2 (RFC 9113 section 3.3).
	priorKnowledge bool
}

func (l strictListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	over, ok := c.(*tls.Conn)
	if err != nil || ok && over.ConnectionState().NegotiatedProtocol == "h2" {
		return c, err
	}
	return &strictConn{Conn: c, limit: l.limit, mayBeHTTP2: l.priorKnowledge && !ok}, nil
}

// strictBelow returns the connection below a strict one, or c itself.
func strictBelow(c net.Conn) net.Conn {
	if s, ok := c.(*strictConn); ok {
		return s.Conn
	}
	return c
}

func (c *strictConn) CloseWrite() error { return closeWrite(c.Conn) }

// Read is for one goroutine at a time, as net/http does. A deadline in the middle of a head loses nothing.
func (c *strictConn) Read(p []byte) (int, error) {
	for c.pass == 0 {
		if c.failed != nil {
			return 0, c.failed
		}
		whole, err := c.judge()
		if err != nil {
			c.fail(err)
			continue
		}
		if whole {
			continue
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	if len(c.buf) == 0 {
		if c.head.connect {
			c.space, c.buf = nil, nil // no head follows
		}
		n, err := c.Conn.Read(p[:min(int64(len(p)), c.pass)])
		c.pass -= int64(n)
		return n, err
	}
	n := copy(p, c.buf[:min(int64(len(c.buf)), c.pass)])
	c.buf, c.pass = c.buf[n:], c.pass-int64(n)
	return n, nil
}

// fill reads more into buf. A connection keeps its space from one head to the next, unless a large one has made it grow.
func (c *strictConn) fill() error {
	if cap(c.buf)-len(c.buf) < 512 {
		if 2*len(c.buf)+512 > len(c.space) || len(c.buf) == 0 && len(c.space) > 8<<10 {
			c.space = make([]byte, 2*len(c.buf)+2048)
		}
		c.buf = append(c.space[:0], c.buf...)
	}
	n, err := c.Conn.Read(c.buf[len(c.buf):cap(c.buf)])
	c.buf = c.buf[:len(c.buf)+n]
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// fail ends the connection: with a request that stands for the refusal, where one is due.
func (c *strictConn) fail(err error) {
	if c.part == partChunk || c.part == partTrailer {
		c.failed = err
		return
	}
	c.failed, c.refusal = io.EOF, err
	c.buf = []byte(refusedMethod + " / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
	c.pass = int64(len(c.buf))
}

// judge judges the lines in buf. It reports whether a part is whole, which then may be passed on with the bytes that it announces.
func (c *strictConn) judge() (bool, error) {
	if c.mayBeHTTP2 {
		if n := min(len(c.buf), len(preface)); string(c.buf[:n]) == preface[:n] {
			if n == len(preface) {
				c.pass = math.MaxInt64
			}
			return c.pass > 0, nil
		}
		c.mayBeHTTP2 = false
	}
	for {
		n := bytes.IndexByte(c.buf[c.judged:], '\n')
		if limit := c.limit - c.lines*lineOverhead; c.judged+n+1 > limit || n < 0 && len(c.buf) > limit {
			return false, refusal.New("header_too_large", "the request line and the header have more than the %d bytes that are read, with %d more for each line", c.limit, lineOverhead)
		}
		if n < 0 {
			return false, nil
		}
		line, crlf := bytes.CutSuffix(c.buf[c.judged:c.judged+n], []byte("\r"))
		if !crlf {
			return false, c.malformed("a line ends without CR")
		}
		c.judged, c.lines = c.judged+n+1, c.lines+1
		follows, whole, err := c.line(string(line))
		if err != nil {
			return false, err
		}
		if whole {
			c.pass = follows
			if follows < math.MaxInt64 {
				c.pass += int64(c.judged)
			}
			c.judged, c.lines = 0, 0
			return true, nil
		}
	}
}

// line judges one line, without its CRLF. It reports whether the line ends a part, and how many bytes follow that no line is in.
func (c *strictConn) line(line string) (follows int64, whole bool, err error) {
	switch c.part {
	case partRequest:
		c.part = partHeader
		c.head, err = requestLine(line)
		return 0, false, err
	case partHeader:
		if line == "" {
			return c.endHead()
		}
		return 0, false, c.header(line)
	case partChunk:
		size, err := chunkSize(line)
		if size == 0 {
			c.part = partTrailer
			return 0, true, err
		}
		return size + 2, true, err // with the CRLF after it, which net/http demands
	default:
		if line == "" {
			c.part = partRequest
			return 0, true, nil
		}
		_, _, err := field(line)
		return 0, false, err
	}
}

// malformed is the refusal of what is not in order at this place.
func (c *strictConn) malformed(why string) error {
	switch c.part {
	case partRequest:
		return refusal.New("request_malformed", "the request line is not that of HTTP/1.1: %s", why)
	case partChunk:
		return refusal.New("chunk_malformed", "a chunk of the body is not in order: %s", why)
	}
	return refusal.New("header_malformed", "the header is not in order: %s", why)
}

// header judges a line of a head.
func (c *strictConn) header(line string) error {
	name, value, err := field(line)
	if err != nil {
		return err
	}
	h := &c.head
	switch name {
	case "Host":
		h.hosts++
		if !httpguts.ValidHostHeader(value) {
			return refusal.New("host_ambiguous", "the Host %.100q is no host", value)
		}
	case "Content-Length":
		h.lengths++
		h.length, err = decimal(value)
		return err
	case "Transfer-Encoding":
		h.codings++
		if h.chunked = strings.EqualFold(value, "chunked"); !h.chunked || h.http10 {
			return refusal.New("framing_ambiguous", "the body's transfer coding is %.40q; only chunked is taken, and only in HTTP/1.1", value)
		}
	case "Trailer":
		for key := range strings.SplitSeq(value, ",") {
			switch http.CanonicalHeaderKey(strings.Trim(key, " \t")) {
			case "Transfer-Encoding", "Trailer", "Content-Length":
				return refusal.New("header_refused", "the request announces the trailer %.40q, which says where its body ends", key)
			}
		}
	case "Expect":
		if !strings.EqualFold(value, "100-continue") {
			return refusal.New("expectation_refused", "the request expects %.40q; only 100-continue can be met", value)
		}
	}
	return nil
}

// endHead judges a head as a whole, and says what follows it.
func (c *strictConn) endHead() (follows int64, whole bool, err error) {
	h := c.head
	switch {
	case h.hosts > 1 || h.hosts == 0 && !h.http10:
		return 0, false, refusal.New("host_ambiguous", "the request has %d Host headers instead of one", h.hosts)
	case h.lengths+h.codings > 1:
		return 0, false, refusal.New("framing_ambiguous", "the request gives its body's length %d times, by Content-Length and Transfer-Encoding; once is enough", h.lengths+h.codings)
	case h.connect:
		return math.MaxInt64, true, nil // what follows is the tunnel's
	case h.chunked:
		c.part = partChunk
		return 0, true, nil
	}
	c.part = partRequest
	return h.length, true, nil
}

// refusedMethod is the method of the request that takes the place of a refused one: no client can send it.
const refusedMethod = "!"

type strictKey struct{}

// refusing answers the requests that stand for a refused head; others go to next.
func refusing(o *Options, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != refusedMethod || r.ProtoMajor != 1 {
			next(w, r)
			return
		}
		c, _ := r.Context().Value(strictKey{}).(*strictConn)
		refused := r.Clone(r.Context())
		refused.Method, refused.URL = "", &url.URL{}
		w.Header().Set("Connection", "close")
		o.Refuse(w, refused, c.refusal)
	}
}
