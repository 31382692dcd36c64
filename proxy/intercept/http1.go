package intercept

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/refusal"
)

// http1Reader passes on only HTTP/1 that has a single reading. It judges each head before net/http sees a byte of it. A
// refused head becomes a request that no client can send (refusedMethod), and nothing follows it. A refused body ends
// the connection.
//
// Without it 86 of the raw exchanges (proxy/testdata/raw) fail. net/http accepts 17 of them, such as bare LF or a
// length beside chunks, which another server can read as another request (RFC 9112 section 11.2). It refuses 52 without
// a handler, and so without a record.
type http1Reader struct {
	from  io.Reader
	limit int // of a head or a trailer section, in bytes; see lineOverhead

	space  []byte // holds buf
	buf    []byte // received, not passed on yet
	pass   int64  // bytes that may be passed on, those in buf first
	judged int    // judged bytes in buf of an incomplete part
	lines  int    // lines in judged
	part   part   // follows the bytes that may be passed on
	head   head
	heads  int32 // accepted so far
	failed error // ends the connection
	// refusal is why a head was replaced, set before net/http reads the replacement.
	refusal error
	// unfinished is the number of the last head until its body has been passed on, then 0. Other goroutines read it.
	unfinished atomic.Int32

	// These detect pipelining. writes counts the writes to the client. came has, for each head, that count when the
	// head's first byte arrived.
	writes   atomic.Int64
	answered int64 // writes at the end of the last answer; for net/http's serving goroutine only
	came     chan int64
	filled   int64 // writes when buf was filled last
	begun    int64 // writes when the current head began to arrive
}

// newHTTP1Reader reads a client's requests. limit bounds a head, in bytes.
func newHTTP1Reader(from io.Reader, limit int) http1Reader {
	return http1Reader{from: from, limit: limit, came: make(chan int64, 4)}
}

// lineOverhead counts for each line beside its bytes, as in HTTP/2 (RFC 9113 section 6.5.2): a short line takes more
// memory than its text.
const lineOverhead = 32

type part int

const (
	partRequest part = iota
	partHeader
	partChunk // the line before a chunk
	partTrailer
)

// head collects what a head says about its body.
type head struct {
	http10, connect, chunked bool
	hosts, lengths, codings  int
	length                   int64
}

// Read is for one goroutine at a time. A deadline in the middle of a head loses nothing.
func (r *http1Reader) Read(p []byte) (int, error) {
	for r.pass == 0 {
		if r.failed != nil {
			return 0, r.failed
		}
		whole, err := r.judge()
		if err != nil {
			r.fail(err)
			continue
		}
		if whole {
			continue
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	if len(r.buf) == 0 {
		n, err := r.from.Read(p[:min(int64(len(p)), r.pass)])
		r.passed(n)
		return n, err
	}
	n := copy(p, r.buf[:min(int64(len(r.buf)), r.pass)])
	r.buf = r.buf[n:]
	r.passed(n)
	return n, nil
}

func (r *http1Reader) passed(n int) {
	r.pass -= int64(n)
	if r.pass == 0 && r.part == partRequest {
		r.unfinished.Store(0)
	}
}

// fill reads more into buf. A connection keeps its space between heads unless that is large.
func (r *http1Reader) fill() error {
	if cap(r.buf)-len(r.buf) < 512 {
		if 2*len(r.buf)+512 > len(r.space) || len(r.buf) == 0 && len(r.space) > 8<<10 {
			r.space = make([]byte, 2*len(r.buf)+2048)
		}
		r.buf = append(r.space[:0], r.buf...)
	}
	n, err := r.from.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if r.filled = r.writes.Load(); r.part == partRequest && len(r.buf) == n {
		r.begun = r.filled
	}
	if n > 0 {
		return nil // the next read returns the error again
	}
	return err
}

// fail ends the connection, between messages with a request that carries the refusal.
func (r *http1Reader) fail(err error) {
	if r.part == partChunk || r.part == partTrailer {
		r.failed = err
		return
	}
	r.failed, r.refusal = io.EOF, err
	r.buf = []byte(refusedMethod + " / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
	r.pass = int64(len(r.buf))
}

// judge judges the lines in buf. It reports whether a part is complete and may be passed on with its announced bytes.
func (r *http1Reader) judge() (bool, error) {
	for {
		n := bytes.IndexByte(r.buf[r.judged:], '\n')
		if limit := r.limit - r.lines*lineOverhead; r.judged+n+1 > limit || n < 0 && len(r.buf) > limit {
			return false, refusal.New("header_too_large",
				"the request line and the header exceed %d bytes (counting %d bytes more for each line)", r.limit,
				lineOverhead)
		}
		if n < 0 {
			return false, nil
		}
		line, crlf := bytes.CutSuffix(r.buf[r.judged:r.judged+n], []byte("\r"))
		if !crlf {
			return false, refusal.New("request_malformed", "the request is malformed: a line ends without CR")
		}
		r.judged, r.lines = r.judged+n+1, r.lines+1
		follows, whole, err := r.line(string(line))
		if err != nil {
			return false, err
		}
		if whole {
			r.pass = follows
			if follows < math.MaxInt64 {
				r.pass += int64(r.judged)
			}
			r.judged, r.lines = 0, 0
			return true, nil
		}
	}
}

// line judges one line without its CRLF. It reports whether the line completes a part, and how many bytes without lines
// follow.
func (r *http1Reader) line(line string) (follows int64, whole bool, err error) {
	switch r.part {
	case partRequest:
		r.part = partHeader
		r.head, err = requestLine(line)
		return 0, false, err
	case partHeader:
		if line == "" {
			return r.endHead()
		}
		return 0, false, r.header(line)
	case partChunk:
		size, err := chunkSize(line)
		if size == 0 {
			r.part = partTrailer
			return 0, true, err
		}
		return size + 2, true, err // including the CRLF behind it, which net/http checks
	default:
		if line == "" {
			r.part, r.begun = partRequest, r.filled
			return 0, true, nil
		}
		_, _, err := field(line)
		return 0, false, err
	}
}

func (r *http1Reader) header(line string) error {
	name, value, err := field(line)
	if err != nil {
		return err
	}
	h := &r.head
	switch name {
	case "Host":
		h.hosts++
		if !httpguts.ValidHostHeader(value) {
			return refusal.New("request_malformed", "the Host header %.100q does not name a valid host", value)
		}
	case "Content-Length":
		h.lengths++
		h.length, err = decimal(value)
		return err
	case "Transfer-Encoding":
		h.codings++
		// The length is compared because EqualFold takes the Kelvin sign for a k.
		h.chunked = len(value) == len("chunked") && strings.EqualFold(value, "chunked")
		if !h.chunked || h.http10 {
			return refusal.New("request_malformed",
				"the body's transfer coding is %.40q; only chunked is accepted, and only in HTTP/1.1", value)
		}
	case "Trailer":
		for key := range strings.SplitSeq(value, ",") {
			switch http.CanonicalHeaderKey(strings.Trim(key, " \t")) {
			case "Transfer-Encoding", "Trailer", "Content-Length":
				return refusal.New("override_refused",
					"the request announces the trailer %.40q, which would change where its body ends",
					key)
			}
		}
	case "Expect":
		if !strings.EqualFold(value, "100-continue") {
			return refusal.New("request_malformed",
				"the request has the Expect header %.40q; only 100-continue is supported", value)
		}
	}
	return nil
}

// endHead judges the whole head and says what follows it.
func (r *http1Reader) endHead() (follows int64, whole bool, err error) {
	h := r.head
	switch {
	case h.hosts > 1 || h.hosts == 0 && !h.http10:
		return 0, false, refusal.New("request_malformed", "the request has %d Host headers instead of one", h.hosts)
	case h.lengths+h.codings > 1:
		return 0, false, refusal.New("request_malformed",
			"the request gives its body's length %d times, by Content-Length and Transfer-Encoding; give it once",
			h.lengths+h.codings)
	}
	r.heads++
	r.unfinished.Store(r.heads)
	select {
	case r.came <- r.begun:
	default: // more heads than net/http reads ahead
	}
	r.begun = r.filled
	switch {
	case h.connect:
		return math.MaxInt64, true, nil // the tunnel's bytes follow
	case h.chunked:
		r.part = partChunk
		return 0, true, nil
	}
	r.part = partRequest
	return h.length, true, nil
}

// refusedMethod marks the request in place of a refused one: no client can send it.
const refusedMethod = "!"

// refuseHead answers the request in place of a refused head.
func (p *Proxy) refuseHead(w http.ResponseWriter, r *http.Request) {
	refused := r.Clone(r.Context())
	refused.Method, refused.URL = "", &url.URL{}
	w.Header().Set("Connection", "close")
	p.o.Refuse(w, refused, connOf(r.Context()).http1.refusal)
}
