package intercept

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
)

// recovering makes a panic end only its own request. After an answer has begun it panics with [http.ErrAbortHandler],
// so that no client takes the answer for whole.
func recovering(o *Options, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rw := &response{ResponseWriter: w, o: o, conn: connOf(r.Context()), streamed: r.ProtoMajor == 2,
			connect: r.Method == http.MethodConnect}
		defer rw.leave()
		if rw.streamed {
			// Also for the time in which the answer waits for its client: nothing else bounds that.
			streams, party := &rw.conn.p.streams, rw.conn.party
			if !streams.Take(party, 1, int64(o.Limits.Connections)) {
				panic(http.ErrAbortHandler)
			}
			defer streams.Give(party, 1)
		}
		if rw.hasBody(r) {
			rw.conn.bodyOf = rw.conn.http1.unfinished.Load()
		}
		defer func() {
			v := recover()
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				rw.endBody(r, 0)
				panic(v)
			}
			if v != nil {
				o.Log.Error("panic in a request", zap.String("method", r.Method), zap.Any("panic", v),
					zap.ByteString("stack", debug.Stack()))
				if rw.begun {
					rw.endBody(r, 0)
					panic(http.ErrAbortHandler) // the answer must not look whole
				}
				rw.Header().Set("Connection", "close") // the request may be half read
				o.Refuse(rw, r, errors.New("intercept: panic"))
			}
			rw.endBody(r, o.Limits.HeaderTimeout)
			rw.end()
		}()
		h(rw, r)
	})
}

// response tracks how far an answer has come. http.ResponseController flushes it and sets its deadlines.
type response struct {
	http.ResponseWriter
	o        *Options
	conn     *conn
	streamed bool        // over HTTP/2
	connect  bool        // to a CONNECT
	begun    bool        // a final status was written, or the connection hijacked
	buffered bool        // by net/http, part of the body
	ended    func() bool // set after a switch of protocols, see leave
}

// endBody limits the time for the rest of the request's body, which net/http reads over HTTP/1 before it ends the
// request.
func (w *response) endBody(r *http.Request, within time.Duration) {
	if w.hasBody(r) {
		by := w.o.Now().Add(within)
		w.conn.bodyBy.Store(&by)
		_ = w.conn.SetReadDeadline(by)
	}
}

// end ends a handled request, whose client may take its time with the answer and with the rest of the body. Over HTTP/2
// it sends what net/http would only send after the handler. An HTTP/1 connection waits for its client.
func (w *response) end() {
	switch {
	case w.streamed && w.buffered:
		_ = w.FlushError()
	case !w.streamed && !w.connect && w.ended == nil:
		w.conn.waits(true)
	}
}

func (w *response) hasBody(r *http.Request) bool {
	return !w.streamed && r.Method != http.MethodConnect && r.Body != http.NoBody
}

// bound limits the time of a write to a stream: an empty window stops the stream, but not the connection.
func (w *response) bound() {
	if w.streamed {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.o.Now().Add(w.o.Limits.WriteTimeout))
	}
}

// unbound lifts the limit: until the next write a stream may be silent.
func (w *response) unbound() {
	if w.streamed {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}

func (w *response) WriteHeader(status int) {
	w.begun = w.begun || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.begun, w.buffered = true, true
	w.bound()
	defer w.unbound()
	return w.ResponseWriter.Write(b)
}

func (w *response) FlushError() error {
	w.begun, w.buffered = true, false
	w.bound()
	defer w.unbound()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *response) Flush() { _ = w.FlushError() }

// Hijack takes the connection from net/http: after a CONNECT for goproxy, otherwise for another protocol, until the
// handler returns or a shutdown begins.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	_, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.begun = true
	if w.connect {
		w.conn.hijacked(rw.Reader)
		return w.conn, rw, nil
	}
	if err := w.conn.p.enterSwitched(); err != nil {
		_ = w.conn.Close()
		return nil, nil, err
	}
	w.ended = context.AfterFunc(w.conn.p.stopping, func() { _ = w.conn.socket.Close() })
	if err := w.conn.switched(rw.Reader); err != nil {
		_ = w.conn.Close()
		return nil, nil, err
	}
	return &switchedConn{w.conn}, rw, nil
}

func (w *response) leave() {
	if w.ended != nil {
		w.ended()
		w.conn.p.starting.Done()
	}
}

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
