package intercept_test

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
	xhttp2 "golang.org/x/net/http2"
)

// What the tests share, by short names.
var (
	must         = check.Must
	wantCode     = check.WantCode
	codeOf       = check.CodeOf
	isTimeout    = check.IsTimeout
	wantAnswer   = proxytest.WantAnswer
	testRefuse   = proxytest.Refuse
	hostOf       = proxytest.HostOf
	at           = proxytest.At
	roundTripRaw = proxytest.RoundTripRaw
	readRaw      = proxytest.ReadRaw
	newFrames    = proxytest.NewFrames
	newUpstream  = proxytest.NewUpstream
	mustGet      = proxytest.MustGet
	wantBody     = proxytest.WantBody
	get          = proxytest.Get
	newRig       = proxytest.New
	newBubbleRig = proxytest.NewInBubble
)

type (
	rig = proxytest.Rig
)

const (
	http1      = proxytest.HTTP1
	http2      = proxytest.HTTP2
	codeHeader = proxytest.CodeHeader
)

// Requests inside a tunnel to a.example.
const (
	getRoot   = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
	getFrames = "HEADERS 1 END_STREAM\n  :method: GET\n  :scheme: https\n  :authority: a.example\n  :path: /"
)

func serving(handler http.HandlerFunc) func(*intercept.Options) {
	return func(o *intercept.Options) { o.Handler = handler }
}

func silent(http.ResponseWriter, *http.Request) {}

// dialHTTP2 opens a tunnel to a.example and speaks HTTP/2 frame by frame.
func dialHTTP2(t testing.TB, r *rig, settings ...xhttp2.Setting) (*tls.Conn, *proxytest.Frames) {
	t.Helper()
	c, err := r.Tunnel("a.example:443", "a.example", http2)
	must(t, err)
	return c, newFrames(t, c, settings...)
}
