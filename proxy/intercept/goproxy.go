package intercept

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/elazarl/goproxy"
	"go.uber.org/zap"
)

// newConnectDispatch sets up goproxy for the one thing it does here: to take the connection of a decided CONNECT. Its own ways
// to an upstream (a tunnel, its interception loop, its transport) are closed twice: nothing leads to them, and its dialers fail.
func (p *Proxy) newConnectDispatch() *goproxy.ProxyHttpServer {
	g := goproxy.NewProxyHttpServer()
	g.Tr = &http.Transport{DialContext: noDial, DialTLSContext: noDial, DisableKeepAlives: true}
	g.ConnectDial = func(network, addr string) (net.Conn, error) { return noDial(context.Background(), network, addr) }
	g.ConnectDialWithReq = func(r *http.Request, network, addr string) (net.Conn, error) {
		return noDial(r.Context(), network, addr)
	}
	g.Logger = goproxyLog{p.o.Log.Named("goproxy").WithOptions(zap.AddCallerSkip(2)).Sugar()}
	g.Verbose = p.o.Log.Core().Enabled(zap.DebugLevel)
	g.NonproxyHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.o.Refuse(w, r, errors.New("intercept: a plain request reached the CONNECT dispatch"))
	})
	decided := goproxy.ReqConditionFunc(func(r *http.Request, _ *goproxy.ProxyCtx) bool { return pendingTunnel(r) != nil })
	g.OnRequest(decided).HijackConnect(func(r *http.Request, client net.Conn, _ *goproxy.ProxyCtx) {
		t := pendingTunnel(r)
		t.headConn = client.(*headConn) // from hijackable, the only writer goproxy gets
		p.tunnels.run(t)
	})
	// goproxy tunnels blind what no handler decided.
	g.OnRequest().HandleConnect(goproxy.AlwaysReject)
	return g
}

func noDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("intercept: goproxy must not dial")
}

type goproxyLog struct{ log *zap.SugaredLogger }

func (l goproxyLog) Printf(format string, args ...any) { l.log.Debugf(format, args...) }

type pendingKey struct{}

// pendingTunnel returns the tunnel that was decided for a CONNECT, or nil.
func pendingTunnel(r *http.Request) *tunnel {
	t, _ := r.Context().Value(pendingKey{}).(*tunnel)
	return t
}

// hijackable is the one writer that goproxy gets: it can take the connection, and with it what the client has already sent.
type hijackable struct{ http.ResponseWriter }

func (h hijackable) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Hijack returns the connection with the bytes that net/http has read beyond the CONNECT put back in front: goproxy drops the
// reader that holds them, and with it the ClientHello of a client that does not wait for the 200.
func (h hijackable) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	conn, rw, err = http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if w, ok := h.ResponseWriter.(*response); ok {
		w.begun = true
	}
	head := make([]byte, rw.Reader.Buffered())
	_, _ = rw.Reader.Read(head) // what is buffered is read at once
	return &headConn{Conn: conn, head: head}, rw, nil
}
