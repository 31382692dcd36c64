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

// recovering wraps a handler so that a panic ends its request and nothing else. After an answer that has begun it
// passes [http.ErrAbortHandler] on: net/http then closes the connection, or resets the stream, and no client takes the
// answer for a whole one.
func recovering(o *Options, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rw := &response{ResponseWriter: w, o: o, conn: connOf(r.Context()), streamed: r.ProtoMajor == 2, connect: r.Method == http.MethodConnect}
		defer rw.leave()
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
				o.Log.Error("panic in a request", zap.String("method", r.Method), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
				if rw.begun {
					rw.endBody(r, 0)
					panic(http.ErrAbortHandler) // the answer must not look whole
				}
				rw.Header().Set("Connection", "close") // its request may have been read in part
				o.Refuse(rw, r, errors.New("intercept: panic"))
			}
			rw.bound() // what is still buffered is written after this
			rw.endBody(r, o.Limits.HeaderTimeout)
		}()
		h(rw, r)
	})
}

// response notes how far an answer has come. Flushing and deadlines go through http.ResponseController.
type response struct {
	http.ResponseWriter
	o        *Options
	conn     *conn
	streamed bool        // over HTTP/2
	connect  bool        // to a CONNECT
	begun    bool        // a final status has been written, or the connection taken
	ended    func() bool // set once the connection has switched to another protocol, see leave
}

// endBody gives the client this long to send the rest of its request's body. Over HTTP/1 net/http reads that rest before
// it ends the request, and also before it closes the connection of an answer that was cut.
func (w *response) endBody(r *http.Request, within time.Duration) {
	if w.hasBody(r) {
		by := w.o.Now().Add(within)
		w.conn.bodyBy.Store(&by)
		_ = w.conn.SetReadDeadline(by)
	}
}

// hasBody reports whether a body follows the head of an HTTP/1 request on its connection.
func (w *response) hasBody(r *http.Request) bool {
	return !w.streamed && r.Method != http.MethodConnect && r.Body != http.NoBody
}

// bound gives what is written to a stream its time: a window of nothing stops one stream, and not the connection, which
// has a limit of its own.
func (w *response) bound() {
	if w.streamed {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.o.Now().Add(w.o.Limits.WriteTimeout))
	}
}

// unbound takes the limit away: until the next write a stream may be silent for any time.
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
	w.begun = true
	w.bound()
	defer w.unbound()
	return w.ResponseWriter.Write(b)
}

func (w *response) FlushError() error {
	w.begun = true
	w.bound()
	defer w.unbound()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is here for who asks for an http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// Hijack takes the connection from net/http: after a CONNECT for goproxy, and otherwise for another protocol, which the
// handler has to end before it returns. A shutdown closes the connection then.
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

// leave tells Shutdown that the other protocol has ended.
func (w *response) leave() {
	if w.ended != nil {
		w.ended()
		w.conn.p.starting.Done()
	}
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
